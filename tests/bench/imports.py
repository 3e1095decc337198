"""How long the quick start's imports take, beside those of what they stand on.

Run as `python -m tests.bench.imports`; `--detail` adds the slowest modules of our own.

Each block runs in fresh interpreters, alternating, with compiled files, as an installed package
has them. The figure is processor time, which a busy machine disturbs least; the median of the
ratios of neighbouring runs is what counts.

Two references are measured: `import pydantic, opentelemetry.sdk.trace`, of which pydantic loads
most of itself only when a model is made; and the same with one model and one validated field.
`rooms` imports the packages, which load their names when asked for them (`scouter.lazy`); the
quick start's block asks for models, the queue and the tracer.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RUNS: Final = 11
LIMIT: Final = 1.6

BASE: Final = "import pydantic, opentelemetry.sdk.trace\n"
ONE_MODEL: Final = (
    BASE + "from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator\n"
    "class Model(BaseModel):\n"
    "    model_config = ConfigDict(defer_build=True)\n"
    "    value: int = Field(default=1, ge=1)\n"
)

ROOMS: Final = (
    "import scouter, scouter.drift, scouter.evaluate, scouter.queue, scouter.tracing\n"
    "import scouter.transport\n"
)


def quick_start_imports() -> str:
    """The import block of the main document's first example."""
    text = (ROOT / "tests" / "documents" / "quick_start.py").read_text(encoding="utf-8")
    return text.split("\n# 1.")[0] + "\n"


def environment(cache: str) -> dict[str, str]:
    """This environment, with compiled files in a folder of their own."""
    found = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**found, "PYTHONPYCACHEPREFIX": cache}


def seconds(block: str, env: Mapping[str, str]) -> float:
    """Processor time of one import block in one fresh interpreter."""
    code = f"import time\nstart = time.process_time()\n{block}\nprint(time.process_time() - start)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure(runs: int) -> dict[str, list[float]]:
    """Run all blocks in turn, `runs` times, after one run that compiles."""
    blocks = {
        "base": BASE,
        "one model": ONE_MODEL,
        "rooms": ROOMS,
        "quick start": quick_start_imports(),
    }
    found: dict[str, list[float]] = {name: [] for name in blocks}
    with tempfile.TemporaryDirectory() as cache:
        env = environment(cache)
        for block in blocks.values():
            seconds(block, env)
        for _ in range(runs):
            for name, block in blocks.items():
                found[name].append(seconds(block, env))
    return found


def ratio(found: Mapping[str, list[float]], of: str, to: str) -> float:
    """Median of the ratios of neighbouring runs."""
    return statistics.median(a / b for a, b in zip(found[of], found[to], strict=True))


def slowest(count: int) -> list[tuple[float, str]]:
    """Our modules with the largest own time, in ms; what they import is not in it."""
    with tempfile.TemporaryDirectory() as cache:
        env = environment(cache)
        command = [sys.executable, "-X", "importtime", "-c", quick_start_imports()]
        text = ""
        for _ in range(2):  # the first run compiles
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, check=True
            )
            text = done.stderr
    lines = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", text)
    ours = [(int(own) / 1000, name) for own, name in lines if name.startswith("scouter")]
    return sorted(ours, reverse=True)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="three runs only")
    parser.add_argument("--detail", action="store_true", help="the slowest of our modules")
    options = parser.parse_args()
    found = measure(3 if options.short else RUNS)
    for name, times in found.items():
        print(f"{name:12} median {statistics.median(times) * 1000:6.1f} ms, "
              f"least {min(times) * 1000:6.1f} ms")  # fmt: skip
    print(f"rooms / base: {ratio(found, 'rooms', 'base'):.2f} (limit {LIMIT})")
    print(f"quick start / base: {ratio(found, 'quick start', 'base'):.2f}")
    print(f"quick start / one model: {ratio(found, 'quick start', 'one model'):.2f}")
    if options.detail:
        for own_ms, name in slowest(25):
            print(f"{own_ms:7.1f} ms  {name}")


if __name__ == "__main__":
    main()
