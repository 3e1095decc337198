"""Results and comparisons are the public classes at every level, wherever they come from."""

import pickle
from pathlib import Path

import pytest

from scouter.evaluate import (
    AlignedEvalResult,
    ComparisonResults,
    EvalMetrics,
    EvalResults,
    ScenarioComparisonResults,
    ScenarioEvalResults,
    ScenarioResult,
)
from scouter.evaluate.results.pooling import picked
from tests.support.replay_results import record, results, scenario


def run(passes: bool) -> ScenarioEvalResults:
    """Two scenarios, one with records of an alias."""
    rows = [("s1", record("r1", {"t": True})), ("s1", record("r2", {"t": passes}))]
    return results([scenario("s1", {"a": passes}), scenario("s2", {"a": True})], {"shop": rows})


def check_run(found: ScenarioEvalResults) -> None:
    assert type(found) is ScenarioEvalResults
    assert type(found.metrics) is EvalMetrics
    assert {type(each) for each in found.scenario_results} == {ScenarioResult}
    assert {type(each.eval_results) for each in found.scenario_results} == {EvalResults}
    assert type(found.get_scenario_detail("s1")) is ScenarioResult
    rows = found.dataset_results["shop"]
    assert type(rows) is EvalResults
    assert {type(row) for row in (*rows, rows["r1"], *rows.aligned_results)} == {AlignedEvalResult}


def test_a_run_that_was_saved_pickled_pooled_or_picked(tmp_path: Path) -> None:
    made = run(True)
    made.save(tmp_path / "run.json")
    loaded = ScenarioEvalResults.load(tmp_path / "run.json")
    assert loaded == made
    later = made.model_copy(
        update={"scenario_results": [s.model_copy(update={"traces": (), "duration_ns": 7})
                                     for s in made.scenario_results]}
    )  # fmt: skip
    for found in (
        made,
        loaded,
        pickle.loads(pickle.dumps(made)),  # noqa: S301 - its own bytes
        picked(made, {0: 1}),
        ScenarioEvalResults.pooled(made, later),
    ):
        if found.repeats == 1:
            check_run(found)
        assert type(found) is ScenarioEvalResults
        assert type(found.metrics) is EvalMetrics
        assert type(found.dataset_results["shop"]) is EvalResults
        assert {type(each) for each in found.scenario_results} == {ScenarioResult}


def test_a_comparison_that_was_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(False).compare_to(run(True))
    found.save(tmp_path / "comparison.json")
    for each in (found, ScenarioComparisonResults.load(tmp_path / "comparison.json")):
        assert type(each) is ScenarioComparisonResults
        assert {type(part) for part in each.dataset_comparisons.values()} == {ComparisonResults}
        assert each == found
        each.as_table()
        each.dataset_comparisons["shop"].as_table()
        each.dataset_comparisons["shop"].print_missing_tasks()
    assert capsys.readouterr().out.count("Missing tasks") == 2


def test_the_words_of_a_class_are_its_own() -> None:
    rows = run(True).dataset_results["shop"]
    assert repr(rows).startswith("EvalResults(2 records")
    assert repr(rows["r1"]).startswith("AlignedEvalResult(")
    with pytest.raises(TypeError, match="cannot compare EvalResults with ScenarioEvalResults"):
        rows.compare_to(run(True))  # type: ignore[arg-type]
