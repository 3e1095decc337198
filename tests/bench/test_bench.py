"""The benchmarks run; their figures are for people, on a quiet machine."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("module", "figure"),
    [
        ("tests.bench.engine", "evaluations/s"),
        ("tests.bench.pipeline", "records evaluated and stored"),
        ("tests.bench.sdk", "9600 sent, dropped 0"),
        ("tests.bench.api", "spans/s came in"),
        ("tests.bench.away", "in an hour"),
        ("tests.bench.calibration", "coverage promised and kept"),
        ("tests.bench.collector", "ready after kill -9"),
        ("tests.bench.http", "µs of CPU per request"),
        ("tests.bench.judge", "of added CPU per call"),
        ("tests.bench.soak", "after the warm-up"),
        ("tests.bench.spans", "nested descendant filters"),
        ("tests.bench.stored", "cost per span with 10,000 stored"),
    ],
)
def test_bench_runs(module: str, figure: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--short"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert figure in done.stdout
