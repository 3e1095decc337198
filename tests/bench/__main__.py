"""All benches in their long forms, one after the other: `python -m tests.bench`, or `make bench`.

At the end comes one table of all figures that have a bound. Ends with 1 if a bound is missed or a
bench broke; that keeps no other from running. Names choose some: `python -m tests.bench sdk kill`.
"""

import os
import subprocess
import sys
from typing import Final

from tests.bench.figures import ROOT, Figure, figures_of, log_path, table

RUNS: Final = (
    ("tests.bench.engine",),
    ("tests.bench.sdk",),
    ("tests.bench.sdk_http",),
    ("tests.bench.away",),
    ("tests.bench.away", "--spool"),
    ("tests.bench.collector",),
    ("tests.bench.collector_kafka",),
    ("tests.bench.fleet",),
    ("tests.bench.fleet_log",),
    ("tests.bench.fleet_page",),
    ("tests.bench.store_copy",),
    ("tests.bench.backlog",),
    ("tests.bench.watch",),
    ("tests.bench.log",),
    ("tests.bench.stored",),
    ("tests.bench.api",),
    ("tests.bench.page",),
    ("tests.bench.export",),
    ("tests.bench.large",),
    ("tests.bench.judge",),
    ("tests.bench.calibration",),
    ("tests.bench.decisions",),
    ("tests.bench.compare",),
    ("tests.bench.drift",),
    ("tests.bench.live",),
    ("tests.bench.feedback",),
    ("tests.bench.slices",),
    ("tests.bench.soak", "--minutes", "10"),
    ("tests.bench.kill",),
    ("tests.bench.kill", "--kafka"),
    ("tests.bench.outage",),
    ("pytest", "tests/fuzz/test_api.py"),
)
"""Module and arguments of each."""
_ENVIRON: Final = {"SCOUTER_FUZZ_SECONDS": "120"}


def logged_since(at: int) -> list[tuple[str, list[Figure]]]:
    """The lines that came to the log behind a place."""
    path = log_path()
    if not path.exists():
        return []
    lines = path.read_bytes()[at:].decode().splitlines()
    return [figures_of(line) for line in lines]


def main(names: list[str]) -> int:
    """Run all, or those that are named; 1 if one was not as it should be."""
    found: list[tuple[str, list[Figure]]] = []
    wrong: list[str] = []
    for module, *arguments in RUNS:
        if names and module.rpartition(".")[2] not in names:
            continue
        command = " ".join((module, *arguments))
        print(f"\n== {command}", flush=True)
        at = log_path().stat().st_size if log_path().exists() else 0
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env=_ENVIRON | os.environ
        )
        found += logged_since(at)
        if done.returncode != 0:
            wrong.append(command)
    print("\n== all figures that have a bound")
    for bench, figures in found:
        bounded = [each for each in figures if each.bound]
        if bounded:
            print("\n".join((f"\n{bench}", *table(bounded))))
    missed = sum(each.is_missed for _, figures in found for each in figures)
    print(f"\n{missed} bounds missed; not as they should be: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
