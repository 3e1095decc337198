"""Scores in two runs: per task by how much their mean moved, and how sure that is."""

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.scores import ScoreChange
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult


def task(score: float | None, task_id: str = "tone", task_type: str = "LLMJudge") -> EvalTaskResult:
    """A judge's result; passed from 3 on."""
    outcome = Outcome.ERRORED if score is None else Outcome.PASSED
    if score is not None and score < 3:
        outcome = Outcome.FAILED
    return EvalTaskResult.of(
        task_id=task_id, task_type=task_type, outcome=outcome, actual=score, message="m",
        reason=None if score is not None else "refusal",
    )  # fmt: skip


def record(name: str, session: str, *tasks: EvalTaskResult) -> RecordResult:
    return RecordResult(name, name, session, None, record_outcome(tasks), tasks, 1, 1)


def run(scores: Sequence[Sequence[float | None]], **fields: Any) -> EvalResults:
    """One session per item, one record per score in it."""
    return EvalResults(
        [
            record(f"r{s}.{n}", f"s{s}", task(score), task(1.0, "plain", "Assertion"))
            for s, session in enumerate(scores)
            for n, score in enumerate(session)
        ],
        **fields,
    )


def only(comparison: ComparisonResults | ScenarioComparisonResults) -> ScoreChange:
    (change,) = comparison.score_changes
    return change


def test_a_change_is_paired_and_has_an_interval_by_conversations() -> None:
    """Eight conversations of one record: Student's t over the eight differences."""
    old = [[4.0], [3.0], [5.0], [2.0], [4.0], [4.0], [3.0], [5.0]]
    new = [[3.0], [3.0], [4.0], [2.5], [2.0], [4.0], [2.0], [4.0]]
    differences = [now[0] - was[0] for was, now in zip(old, new, strict=True)]
    found = only(ComparisonResults.of(run(old), run(new)))
    reference: Any = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (found.task_id, found.alias, found.records, found.conversations) == ("tone", None, 8, 8)
    assert (found.baseline_count, found.comparison_count) == (8, 8)
    assert found.baseline_mean == 3.75
    assert found.difference == pytest.approx(sum(differences) / 8)
    assert found.interval == pytest.approx((reference.low, reference.high), abs=1e-8)


def test_five_conversations_are_too_few_for_an_interval() -> None:
    old = [[4.0, 3.5, 2.0]] * 5
    found = only(ComparisonResults.of(run(old), run([[3.0, 2.5, 1.0]] * 5)))
    assert (found.records, found.conversations, found.difference) == (15, 5, -1.0)
    assert found.interval is None


def test_a_record_without_a_score_in_one_run_is_in_no_mean() -> None:
    """An errored task has no score of 0."""
    found = only(ComparisonResults.of(run([[4.0], [2.0], [5.0]]), run([[4.5], [None], [5.0]])))
    assert (found.records, found.baseline_mean, found.comparison_mean) == (2, 4.5, 4.75)
    assert (found.baseline_count, found.comparison_count) == (3, 2)


def test_scores_that_are_outcomes_have_no_row() -> None:
    same = EvalResults([record("r", "s", task(1.0, "plain", "Assertion"))])
    assert ComparisonResults.of(same, same).score_changes == ()
    zeros = EvalResults([record("r", "s", task(0.0))])
    ones = EvalResults([record("r", "s", task(1.0))])
    assert ComparisonResults.of(zeros, ones).score_changes == ()


def test_attempts_of_a_record_are_one_mean() -> None:
    """Three attempts before, one now: scenario a moves by 3 - 4, scenario b by 5 - 5."""
    before = EvalResults(
        [record(f"{n}", "s", task(score)) for n, score in enumerate((3.0, 4.0, 5.0, 5.0))],
        ["a", "a", "a", "b"],
        [0, 1, 2, 0],
    )
    before = EvalResults(
        [RecordResult("u", "r", "s", None, row.outcome, row.tasks, 1, 1) for row in before.records],
        before.scenario_ids,
        before.attempts,
    )
    after = EvalResults(
        [RecordResult("u", "r", "s", None, Outcome.PASSED, (task(score),), 1, 1)
         for score in (3.0, 5.0)],
        ["a", "b"],
    )  # fmt: skip
    found = only(ComparisonResults.of(before, after))
    assert (found.records, found.conversations) == (2, 2)
    assert (found.baseline_mean, found.comparison_mean, found.difference) == (4.5, 4.0, -0.5)
    assert (found.baseline_count, found.comparison_count) == (4, 2)


@given(st.lists(st.lists(st.floats(0, 5), min_size=1, max_size=3), min_size=6, max_size=9))
def test_no_change_is_none_and_swapping_turns_the_sign(scores: list[list[float]]) -> None:
    old = run(scores)
    for change in ComparisonResults.of(old, run(scores)).score_changes:
        assert (change.difference, change.interval) == (0.0, (0.0, 0.0))
    other = run([[5.0 - score for score in session] for session in scores])
    there, back = (
        ComparisonResults.of(*pair).score_changes for pair in ((old, other), (other, old))
    )
    assert len(there) == len(back)
    for one, two in zip(there, back, strict=True):
        assert one.difference == pytest.approx(-two.difference)
        assert one.interval is not None
        assert two.interval is not None
        assert one.interval == pytest.approx((-two.interval[1], -two.interval[0]))


def replay(desk: float, own: float) -> ScenarioEvalResults:
    """Seven scenarios; an alias with a judge task and a judge task of each scenario."""
    names = [f"s{n}" for n in range(7)]
    datasets = {"desk": EvalResults([record("r", "x", task(desk)) for _ in names], names)}
    scenarios: list[ScenarioResult] = []
    for n, name in enumerate(names):
        judged = record(name, name, task(own + 0.1 * n, "whole"))
        scenarios.append(ScenarioResult.of(name, name, judged.tasks, EvalResults([judged])))
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(scenarios),
        metrics=EvalMetrics.of(datasets, scenarios),
        scenarios=tuple(ScenarioInfo(scenario_id=name, initial_query="q") for name in names),
    )


def test_replays_have_rows_for_aliases_and_for_scenarios() -> None:
    comparison = ScenarioComparisonResults.of(replay(4.0, 3.0), replay(3.5, 3.25))
    desk, whole = comparison.score_changes
    assert (desk.alias, desk.task_id, desk.difference) == ("desk", "tone", -0.5)
    assert comparison.dataset_comparisons["desk"].score_changes == (desk,)
    assert (whole.alias, whole.task_id, whole.records) == (None, "whole", 7)
    assert whole.difference == pytest.approx(0.25)
    assert whole.interval == pytest.approx((0.25, 0.25))


def test_rows_are_stored_and_shown() -> None:
    comparison = ComparisonResults.of(run([[4.0]] * 6), run([[3.5]] * 6))
    assert ComparisonResults.model_validate_json(comparison.model_dump_json()) == comparison
    older = comparison.model_dump()
    del older["score_changes"]
    assert ComparisonResults.model_validate(older).score_changes == ()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
    shown = out.getvalue()
    assert "Scores" in shown
    assert "-0.5 to -0.5" in shown
