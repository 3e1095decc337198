"""Runs, comparisons and answers of a collector as a notebook shows them."""
# pyright: reportPrivateUsage=false

import datetime
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from scouter.client.models.answer import Page
from scouter.client.models.comparison import VersionItem, Versions
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.notebook import Picture
from tests.support.replay_results import record, results, scenario

NAMES: Final = [f"s{n}" for n in range(8)]
SVG: Final = "{http://www.w3.org/2000/svg}"


def run(passed: int) -> ScenarioEvalResults:
    """Eight scenarios of two attempts; in the second of them the last ones fail."""
    made = [
        scenario(name, {"right": attempt == 0 or n < passed}, attempt=attempt)
        for attempt in range(2)
        for n, name in enumerate(NAMES)
    ]
    rows = [(name, record(name, {"said": True, "<b>": n < 4})) for n, name in enumerate(NAMES)]
    return results(made, {"shop": rows}, repeats=2)


def texts(picture: Picture) -> list[str]:
    return [each.text or "" for each in ET.fromstring(picture.svg).iter(f"{SVG}text")]  # noqa: S314 our own


@pytest.mark.parametrize("polars", [False, True])
def test_a_run_is_a_frame_of_all_task_results(polars: bool) -> None:
    """The scenarios' own first, under an empty alias, each with scenario and attempt."""
    frame = run(6).to_dataframe(polars=polars)
    assert frame.shape[0] == 16 + 16
    names = ["alias", "scenario_id", "attempt", "task_id", "task_outcome"]
    rows = [tuple(row) for row in (frame[names].rows() if polars else frame[names].values)]
    assert rows[0] == ("", "s0", 0, "right", "passed")
    assert rows[14:16] == [("", "s6", 1, "right", "failed"), ("", "s7", 1, "right", "failed")]
    assert rows[16:18] == [
        ("shop", "s0", 0, "said", "passed"),
        ("shop", "s0", 0, "<b>", "passed"),
    ]


def test_a_run_without_results_is_an_empty_frame() -> None:
    frame = results([]).to_dataframe()
    assert frame.shape[0] == 0
    assert frame.columns[0] == "alias"


def test_a_run_shows_scenarios_and_tasks() -> None:
    """14 of 16 is 87.5 %; its interval is Wilson's. Names are escaped."""
    html = run(6)._repr_html_()
    assert "8 scenarios, 2 attempts of each" in html
    low, high = wilson(14, 16)
    assert f">{low:.0%} to {high:.0%}<" in html
    assert ">87.5%<" in html
    assert "&lt;b&gt;" in html
    assert "<b>:" not in html


def test_few_scenarios_have_no_interval() -> None:
    few = results([scenario(name, {"right": True}) for name in NAMES[:5]])
    assert '>100.0%</td><td style="text-align:left;white-space:pre-wrap">-<' in few._repr_html_()
    svg = ET.fromstring(few.plot().svg)  # noqa: S314 our own
    assert not [line for line in svg.iter(f"{SVG}line") if line.get("stroke-width")]
    assert len(list(svg.iter(f"{SVG}circle"))) == 1


def test_a_task_that_only_measures_has_a_mean_and_no_rate() -> None:
    """It passes with every number: 100 % would say that all is well."""
    measured = [
        EvalTaskResult.of(
            task_id="rouge", task_type="Function", outcome=Outcome.PASSED, operator="IsNumeric",
            actual=n / 8,
        )
        for n in range(8)
    ]  # fmt: skip
    rows = [
        (name, RecordResult(name, name, "", None, Outcome.PASSED, (each,), 0, 0))
        for name, each in zip(NAMES, measured, strict=True)
    ]
    found = results([scenario(name, {"right": True}) for name in NAMES], {"shop": rows})
    html = found._repr_html_()
    assert ">mean 0.4375<" in html
    assert html.count(">100.0%<") == 1
    assert [each for each in texts(found.plot()) if "rouge" in each] == []


def test_rates_are_drawn_where_they_are(tmp_path: Path) -> None:
    """0 % at 260, 100 % at 660 of the picture's units; a file of it is the same picture."""
    picture = run(6).plot()
    svg = ET.fromstring(picture.svg)  # noqa: S314 our own
    dots = [float(each.get("cx", "")) for each in svg.iter(f"{SVG}circle")]
    assert dots == pytest.approx([260 + 400 * rate for rate in (14 / 16, 1.0, 0.5)])
    (first, *_) = [line for line in svg.iter(f"{SVG}line") if line.get("stroke-width")]
    low, high = wilson(14, 16)
    ends = [float(first.get(name, "")) for name in ("x1", "x2")]
    assert ends == pytest.approx([260 + 400 * low, 260 + 400 * high], abs=0.06)
    assert {"right", "shop · said", "shop · <b>", "14/16", "8/8", "4/8"} <= set(texts(picture))
    picture.save(tmp_path / "rates.svg")
    assert (tmp_path / "rates.svg").read_text() == picture.svg == picture._repr_svg_()


def test_a_comparison_shows_its_decision_and_each_rate() -> None:
    """Of `right` 16 of 16 passed before, and 9 do now: 7 of 16 is 43.75 points."""
    compared = run(1).compare_to(run(8))
    html = compared._repr_html_()
    assert compared.decision_reason[:20] in html
    assert "task &#x27;right&#x27;" in html
    assert ">16/16<" in html
    assert ">9/16<" in html
    assert ">-43.8 pp<" in html
    frame = compared.to_dataframe()
    row = frame[frame["task_id"] == "right"].iloc[0]
    assert (row["baseline_passed"], row["comparison_passed"]) == (16, 9)
    assert row["interval_lower"] < -0.4375 < row["interval_upper"] < 0
    picture = compared.plot()
    assert "-44" in texts(picture)
    alias = compared.dataset_comparisons["shop"]
    assert len(alias.to_dataframe(polars=True)) == len(alias.rates)
    assert alias.plot().svg.startswith("<svg")
    assert "<table>" in alias._repr_html_()


def test_an_answer_of_a_collector_is_a_frame_and_a_table() -> None:
    at = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
    items = tuple(
        VersionItem(version=f"<{n}>", first_at=at, last_at=at, records=n) for n in range(3)
    )
    for answer in (Versions(items=items), Page[VersionItem](items=items)):
        frame = answer.to_dataframe()
        assert list(frame["records"]) == [0, 1, 2]
        assert answer.to_dataframe(polars=True)["version"].to_list() == ["<0>", "<1>", "<2>"]
        html = answer._repr_html_()
        assert "&lt;1&gt;" in html
        assert '<th style="text-align:left">first_at</th>' in html
    assert ">records</td>" in items[0]._repr_html_()
    assert Versions(items=()).to_dataframe().shape == (0, 0)
    assert ": 0</b>" in Versions(items=())._repr_html_()
