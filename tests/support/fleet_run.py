"""A long run of a fleet under kills, freezes and restarts, with its progress: `make test-fleet`.

It takes some ten minutes. What processes leave is in a folder that stays if something is wrong.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.fleet_chaos import SPANS, Chaos, Plan, Report
from tests.support.kafka_broker import own_broker
from tests.support.postgresql_server import PostgresqlServer

LONG: Final = Plan(records=20_000, kills=30, joins=10, freezes=4)


def _plan(args: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tests.support.fleet_run", description=__doc__)
    for name in ("records", "kills", "joins", "freezes", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(LONG, name), metavar="N")
    return Plan(**vars(parser.parse_args(args)))


def _teller() -> Callable[[str], None]:
    """Prints a line where it differs from the last one, with the time since the start."""
    began, last = time.monotonic(), ""

    def tell(text: str) -> None:
        nonlocal last
        if text != last:
            sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {text}\n")
            sys.stdout.flush()
        last = text

    return tell


def table(plan: Plan, report: Report) -> str:
    """What was sent and what was found, in lines."""
    events = ", ".join(f"{n} {what}" for what, n in sorted(report.events.items()))
    revised = sum(n for revision, n in report.revisions.items() if revision > 1)
    rows = (
        ("events", events),
        ("records", f"{report.records} of {plan.records}"),
        ("spans", f"{report.spans} of {plan.records * SPANS}"),
        ("lost", len(report.lost)),
        ("evaluated twice", report.double),
        ("other results than one collector's", len(report.different)),
        ("revisions by late spans", revised),
        ("dead letters", f"{report.letters} of {plan.poison}"),
        ("rollups are the results", "yes" if report.rollups == report.results else "no"),
        ("all evaluated after the last request", f"{report.settled_s:.1f} s"),
    )
    return "\n".join(f"{name:38}{value}" for name, value in rows)


def main(args: Sequence[str]) -> int:
    """Run; the exit code is 1 if something is not as it has to be, 2 if a program is missing."""
    plan, tell = _plan(args), _teller()
    folder = Path(tempfile.mkdtemp(prefix="scouter-fleet-"))
    try:
        tell("Kafka and PostgreSQL start")
        with own_broker() as broker:
            server = PostgresqlServer()
            try:
                report = Chaos(folder, broker, server, "chaos", plan, tell).run()
            finally:
                server.stop()
    except pytest.skip.Exception as missing:
        shutil.rmtree(folder)
        sys.stderr.write(f"{missing}\n")
        return 2
    except AssertionError as error:
        sys.stderr.write(f"{error}\nWhat the processes said is in {folder}\n")
        return 1
    sys.stdout.write(f"\n{table(plan, report)}\n")
    faults = report.faults(plan)
    for each in faults:
        sys.stderr.write(f"WRONG: {each}\n")
    if faults:
        sys.stderr.write(f"What the processes said is in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
