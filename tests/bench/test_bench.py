"""The benchmarks run; their figures are for people, on a quiet machine."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.support.kafka_broker import ExternalBroker, KafkaBroker

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
        ("tests.bench.known", "cost per record with 50,000 stored"),
        ("tests.bench.soak", "after the warm-up"),
        ("tests.bench.spans", "nested descendant filters"),
        ("tests.bench.stored", "cost per span with 10,000 stored"),
    ],
)
def test_bench_runs(module: str, figure: str) -> None:
    assert figure in shown(module)


def test_bench_of_kafka_runs(kafka: KafkaBroker | ExternalBroker) -> None:
    """Against the broker of the tests; the kill and the outage have tests of their own."""
    told = shown("tests.bench.collector_kafka", {"KAFKA_BOOTSTRAP": kafka.bootstrap})
    assert told.count("spans/s until all are seen") == 2


def test_every_bench_of_make_bench_has_a_short_form_here() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = set(re.findall(r"-m (tests\.bench\.\w+)", makefile))
    folders = [ROOT / "tests" / "integration", Path(__file__).parent]
    texts = "".join(each.read_text(encoding="utf-8") for folder in folders
                    for each in folder.glob("test_*.py"))  # fmt: skip
    assert len(listed) >= 11
    assert {name for name in listed if name not in texts} == set()


def shown(module: str, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """What the short form of a benchmark prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--short"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **more},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    return done.stdout
