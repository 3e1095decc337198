"""The benchmarks run; their figures are for people, on a quiet machine."""

import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from tests.bench.__main__ import RUNS
from tests.bench.figures import LOG_VARIABLE, Figure, Figures, figures_of
from tests.support.kafka_broker import ExternalBroker, KafkaBroker

ROOT = Path(__file__).parents[2]


LONG: Final = pytest.mark.long
MAY_BE_NONE: Final = {
    "steady 0.9, first 1,000: alarmed", "failures take 60 s, 50 a second: alarmed",
    "2,000 a day, measured: alarmed",
}  # fmt: skip
"""Figures of healthy agents, of which 0 is the best one."""


@pytest.mark.parametrize("module", sorted({module for module, *_ in RUNS} - {"pytest"}))
def test_bench_can_be_loaded(module: str) -> None:
    """Its imports from the product exist, also where its short form is a long test."""
    assert importlib.import_module(module).__doc__


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        ("engine", ["2,000 records: evaluations", "memory per stored task result"]),
        ("backlog", ["300 waiting: judged", "300 waiting: another space, worst"]),
        ("watch", ["400 watched: with reading", "1,200 records: evaluated and stored"]),
        pytest.param("sdk", ["insert, p50", "one span: only exporter, CPU"], marks=LONG),
        pytest.param(
            "sdk_http",
            ["one span, plain: only exporter, CPU", "chat of 2.3 kB, gzip: only exporter, CPU"],
            marks=LONG,
        ),
        pytest.param(
            "api",
            ["one trace", "a long trace: judged and read", "came in meanwhile"],
            marks=LONG,
        ),
        ("away", ["memory after the warm-up, median", "spans dropped and counted"]),
        pytest.param("away --spool", ["dropped from disk and counted"], marks=LONG),
        pytest.param("calibration", ["coverage kept as promised"], marks=LONG),
        pytest.param(
            "collector",
            ["texts that differ, 10 a request: seen", "ready after kill -9"],
            marks=LONG,
        ),
        pytest.param(
            "drift",
            ["0.9 to 0.8 after 0: median delay", "memory of 100,000 series"],
            marks=LONG,
        ),
        (
            "feedback",
            [
                "2,000 a day, measured: alarmed",
                "2,000 a day, level stated, as they come: alarmed",
            ],
        ),
        (
            "live",
            [
                "steady 0.9, first 1,000: alarmed",
                "failures take 60 s, 50 a second: alarmed",
                "0.9 to 0.8 after 10,000, first 1,000: median delay",
            ],
        ),
        (
            "slices",
            [
                "a tenth falls 0.9 to 0.5 after 10,000: median delay",
                "a tenth falls 0.9 to 0.5 after 10,000: one alert, about the slice",
                "the same and 10 points of behaviour: called behaviour",
            ],
        ),
        pytest.param(
            "export",
            ["records-0.jsonl: size", "tables: size", "sender beside exports: requests"],
            marks=LONG,
        ),
        pytest.param(
            "decisions",
            ["30 of 30 to 5 of 30, 6 x 5: exit code", "0.98 to 0.5, 8 x 1: go"],
            marks=LONG,
        ),
        ("compare", ["1,000 records of five tasks as samples"]),
        pytest.param("log", ["in process: CPU per span", "collector: p99", "reading"], marks=LONG),
        pytest.param("judge", ["time beside the vendor's client"], marks=LONG),
        pytest.param(
            "page", ["overview: p50", "first visit", "long trace: first rows"], marks=LONG
        ),
        pytest.param(
            "large",
            ["300 x 20 kB in a burst: peak", "beside a slow space: judged after"],
            marks=LONG,
        ),
        pytest.param("soak", ["peak memory", "sent"], marks=LONG),
        pytest.param(
            "stored",
            ["CPU per span, many stored / few", "10,000 stored: ready after kill -9"],
            marks=LONG,
        ),
        pytest.param("fleet", ["1 worker: all"], marks=LONG),
        pytest.param("fleet_log", ["append: rate", "read: rate"], marks=LONG),
        pytest.param("fleet_page", ["overview: p95"], marks=LONG),
        pytest.param("store_copy", ["into the database: rows", "into a folder: rows"], marks=LONG),
    ],
)
def test_bench_runs(module: str, wanted: list[str], tmp_path: Path) -> None:
    found = short_form(f"tests.bench.{module}", tmp_path)
    is_there = {name: found[name].value > 0 or name in MAY_BE_NONE for name in wanted}
    assert is_there == dict.fromkeys(wanted, True)


@LONG
def test_bench_of_kafka_runs(kafka: KafkaBroker | ExternalBroker, tmp_path: Path) -> None:
    """Against the broker of the tests; the kill and the outage have tests of their own."""
    more = {"KAFKA_BOOTSTRAP": kafka.bootstrap}
    found = short_form("tests.bench.collector_kafka", tmp_path, more)
    assert found["written before: peak memory"].value > 0
    assert found["written meanwhile: seen"].value > 0


def test_every_bench_of_make_bench_has_a_short_form_here() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "-m tests.bench\n" in makefile
    listed = {module for module, *_ in RUNS if module.startswith("tests.bench.")}
    folders = [ROOT / "tests" / "integration", Path(__file__).parent]
    texts = "".join(each.read_text(encoding="utf-8") for folder in folders
                    for each in folder.glob("test_*.py"))  # fmt: skip
    assert len(listed) >= 11
    here = re.findall(r'\(\s*"(\w+)",\s*\[', Path(__file__).read_text(encoding="utf-8"))
    named = {*re.findall(r"tests\.bench\.\w+", texts), *(f"tests.bench.{each}" for each in here)}
    assert listed - named == set()


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure(name="a", value=3), ""),
        (Figure(name="a", value=3, at_most=3), "met"),
        (Figure(name="a", value=3.1, at_most=3), "missed"),
        (Figure(name="a", value=3, at_least=3), "met"),
        (Figure(name="a", value=2.9, at_least=3), "missed"),
        (Figure(name="a", value=1, at_least=0, at_most=0), "missed"),
        (Figure(name="a", value=math.nan, at_most=3), "missed"),
    ],
)
def test_a_figure_is_held_against_its_bound(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


@pytest.mark.parametrize(
    ("value", "is_short", "code"), [(3, False, 0), (4, False, 1), (4, True, 0)]
)
def test_the_long_form_fails_by_a_missed_bound(
    value: int,
    is_short: bool,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And each run leaves a line that says where its figures come from."""
    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "new" / "log.jsonl"))
    figures = Figures("demo", is_short=is_short)
    figures.add("calls", value, "1/s", at_most=3)
    assert figures.end() == code
    (line,) = (tmp_path / "new" / "log.jsonl").read_text(encoding="utf-8").splitlines()

    assert re.search(r"calls +\d 1/s +at most 3 +(met|missed)\n", capsys.readouterr().out)
    assert figures_of(line)[1] == [Figure(name="calls", value=value, unit="1/s", at_most=3)]
    assert {"date", "commit", "is_dirty", "python", "processor", "cores"} <= json.loads(line).keys()


def short_form(
    module: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Figure]:
    """The figures that the short form of a benchmark keeps, by name."""
    log = folder / "bench.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", *module.split(), "--short"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **more, LOG_VARIABLE: str(log)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = log.read_text(encoding="utf-8").splitlines()
    bench, figures = figures_of(line)

    assert bench == f"{module.rpartition('.')[2]} --short"
    assert all(math.isfinite(each.value) for each in figures)
    assert all(each.name in done.stdout for each in figures)
    return {each.name: each for each in figures}
