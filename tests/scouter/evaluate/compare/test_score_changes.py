"""Scores in two runs: per task by how much their mean moved, and how sure that is."""

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from scipy import stats

from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.decision import CALIBRATE, READ
from scouter.evaluate.compare.rows import ScoreChange
from scouter.evaluate.judge.port import JudgeUsage, Message
from scouter.evaluate.judge.shorten import JudgeExchange
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
    with contextlib.redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
    shown = out.getvalue()
    assert "Scores" in shown
    assert "-0.5 to -0.5" in shown


# --- decisions ----------------------------------------------------------------------------------

SCENARIOS = 30


def judged(
    values: Sequence[Sequence[float | None]],
    *,
    operator: str = "GreaterThanOrEqual",
    bound: JsonValue = 0.1,
    is_own: bool = True,
    records: int = 1,
    releases: int = 0,
    questions: Sequence[str] | None = None,
) -> ScenarioEvalResults:
    """A replay: a score per scenario and attempt, and none where the judge erred.

    Args:
        values: By scenario and attempt.
        operator: Comparison of the score; all pass unless a test says otherwise.
        bound: Expected value.
        is_own: True for the scenario's own task, False for the task of an alias' records.
        records: Records of each attempt, of the same score.
        releases: Releases that were compared with this run so far.
        questions: Question to the judge by scenario; None where that is not stored.
    """

    def one(at: int, value: float | None) -> EvalTaskResult:
        made = EvalTaskResult.of(
            task_id="quality", task_type="LLMJudge", operator=operator, expected=bound,
            outcome=Outcome.ERRORED if value is None else Outcome.PASSED, actual=value,
            reason="provider" if value is None else None, message="m",
        )  # fmt: skip
        if questions is None:
            return made
        exchange = JudgeExchange.of([Message(role="user", content=questions[at])], value)
        return made.using(JudgeUsage(calls=1), exchange)

    own: list[ScenarioResult] = []
    rows: list[tuple[RecordResult, str, int]] = []
    for at, attempts in enumerate(values):
        for attempt, value in enumerate(attempts):
            made = one(at, value)
            rows += [(record(f"r{n}", f"s{at}", made), f"s{at}", attempt) for n in range(records)]
            inside = EvalResults([record("r", "x", made)])
            found = ScenarioResult.of(f"s{at}", "q", [made], inside)
            own.append(found.model_copy(update={"attempt": attempt}))
    desk = EvalResults([r for r, _, _ in rows], [s for _, s, _ in rows], [a for _, _, a in rows])
    datasets = {} if is_own else {"desk": desk}
    own = own if is_own else []
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(own),
        metrics=EvalMetrics.of(datasets, own),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(values))
        ),
        repeats=max(map(len, values)),
        releases=releases,
    )


@pytest.mark.parametrize(
    ("operator", "bound", "before", "now", "code"),
    [
        pytest.param("GreaterThanOrEqual", 0.1, 0.9, 0.65, 1, id="more-is-better"),
        pytest.param("GreaterThan", 0.1, 0.65, 0.9, 0, id="a-rise"),
        pytest.param("LessThan", 0.95, 0.2, 0.45, 1, id="less-is-better"),
        pytest.param("LessThanOrEqual", 0.95, 0.45, 0.2, 0, id="less-is-better-a-fall"),
        pytest.param("Equals", 1, 0.9, 0.65, 1, id="up-to-one"),
        pytest.param("Equals", 0, 0.2, 0.45, 1, id="down-to-zero"),
        pytest.param("InRange", [0, 1], 0.9, 0.65, 0, id="a-range-has-no-better-end"),
        pytest.param("Equals", "B", 0.5, 0.75, 0, id="a-choice-of-which-nobody-knows-the-side"),
        pytest.param("GreaterThan", 1, 4.5, 3.4, 1, id="scale-of-5"),
        pytest.param("GreaterThan", 10, 91, 66, 1, id="scale-of-100"),
        pytest.param("GreaterThan", 0.1, 0.9, 0.881, 0, id="sure-and-below-2-points"),
        pytest.param("GreaterThan", 0.1, 0.9, 0.879, 1, id="sure-and-2-points"),
        pytest.param("GreaterThan", 1, 4.5, 4.41, 0, id="below-2-percent-of-5"),
        pytest.param("GreaterThan", 1, 4.5, 4.39, 1, id="above-2-percent-of-5"),
        pytest.param("GreaterThan", 10, 90, 88.1, 0, id="below-2-percent-of-100"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False], ids=["own-task", "records"])
def test_a_fall_of_all_scores(
    operator: str, bound: JsonValue, before: float, now: float, code: int, is_own: bool
) -> None:
    """Kind: a score that falls while everything passes. 2^-30 is below every level."""
    spread = [0.001 * (at % 5) for at in range(SCENARIOS)]

    def side(mean: float) -> ScenarioEvalResults:
        values = [[mean + each] for each in spread]
        return judged(values, operator=operator, bound=bound, is_own=is_own)

    comparison = ScenarioComparisonResults.of(side(before), side(now))
    assert comparison.exit_code == code, comparison.decision_reason
    found = only(comparison)
    if code:
        assert found.adjusted_p == pytest.approx(2.0**-SCENARIOS)
        [reason] = comparison.decision_reasons
        assert reason.startswith(f"{found.label} fell: mean {before + 0.002:.3g} before, ")
        assert "furthest in 's" in reason
        if not is_own:
            assert comparison.dataset_comparisons["desk"].exit_code == 1


def test_records_without_scenarios() -> None:
    """The same for the results of records, whose sessions are conversations."""
    old, new = run([[4.6, 4.4]] * 9), run([[3.6, 3.4]] * 9)
    comparison = ComparisonResults.of(old, new)
    assert only(comparison).adjusted_p == pytest.approx(2.0**-9)
    assert comparison.exit_code == 1
    assert ComparisonResults.of(new, old).exit_code == 0


def test_runs_of_which_nothing_is_a_pair() -> None:
    """Two samples of eight conversations: all new ones are lower in one of C(16, 8) orders."""
    old = EvalResults([record(f"a{n}", f"a{n}", task(4.5 + n / 100)) for n in range(8)])
    new = EvalResults([record(f"b{n}", f"b{n}", task(3.5 + n / 100)) for n in range(8)])
    comparison = ComparisonResults.of(old, new)
    assert only(comparison).p_value == pytest.approx(1 / 12870)
    assert comparison.exit_code == 1
    assert ComparisonResults.of(new, old).exit_code == 0


@pytest.mark.parametrize(
    ("moves", "p_value"),
    [
        pytest.param([-0.2] * 8, 1 / 256, id="all-fell"),
        pytest.param([-0.2] * 8 + [0.1], 2 / 512, id="eight-fell-one-rose-by-half"),
        pytest.param([-0.2] * 8 + [0.4], 38 / 512, id="one-rose-by-twice-as-much"),
        pytest.param([-0.1] * 6 + [0.0] * 9, 1 / 64, id="unmoved-ones-say-nothing"),
        pytest.param([0.1] * 6, 1.0, id="all-rose"),
    ],
)
def test_the_sign_flip_by_hand(moves: list[float], p_value: float) -> None:
    """Share of the ways to choose signs whose sum is as low as the observed one.

    With eight falls of 2 and a rise of 4 the sum is -12. With the 4 down, none, one or two of the
    eight may be up (-20, -16, -12: 1 + 8 + 28 ways); with the 4 up, none (1).
    """
    old, new = judged([[0.5]] * len(moves)), judged([[0.5 + each] for each in moves])
    assert only(ScenarioComparisonResults.of(old, new)).p_value == pytest.approx(p_value)


@pytest.mark.parametrize("records", [1, 10])
def test_repeats_and_turns_are_one_cluster(records: int) -> None:
    """Five scenarios, whatever their records and attempts: at best one chance in 2^5."""
    old, new = (
        judged([[value] * 6] * 5, is_own=records == 1, records=records) for value in (0.9, 0.65)
    )
    comparison = ScenarioComparisonResults.of(old, new)
    assert only(comparison).p_value == pytest.approx(1 / 32)
    assert comparison.exit_code == 3, "a large fall is not let go"
    assert "5 are too few to tell" in comparison.decision_reason


def test_unequal_attempts_are_tested_as_well() -> None:
    """Twelve scenarios at 1, once before and three times now, where one of three is 0.7.

    Each mean fell, 2^-12 by signs. But of four attempts of which one is low, that one is among the
    three new ones in three of four orders: (3/4)^12.
    """
    old, new = judged([[1.0]] * 12), judged([[1.0, 1.0, 0.7]] * 12)
    comparison = ScenarioComparisonResults.of(old, new)
    assert only(comparison).p_value == pytest.approx(0.75**12)
    assert comparison.exit_code == 0
    assert comparison.not_cleared == ("score of task 'quality'",)


@pytest.mark.parametrize(("scenarios", "code"), [(3, 0), (5, 3), (7, 3), (8, 1)])
def test_few_scenarios(scenarios: int, code: int) -> None:
    """2^-3, 2^-5, 2^-7 and 2^-8: only the last one is below 0.7 %, and 2^-3 is above 5 %."""
    old, new = judged([[0.9]] * scenarios), judged([[0.65]] * scenarios)
    assert ScenarioComparisonResults.of(old, new).exit_code == code


@pytest.mark.parametrize(("releases", "code"), [(0, 1), (1, 0)])
def test_levels_fall_with_the_releases(releases: int, code: int) -> None:
    """Eight falls in eight have a chance of 0.39 %: below 0.7 %, above half of it."""
    old = judged([[0.9]] * 8, releases=releases)
    assert ScenarioComparisonResults.of(old, judged([[0.8]] * 8)).exit_code == code


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        pytest.param([[0.9]] * 10, [[0.9]] * 9 + [[None]], 0, id="one-of-ten-now"),
        pytest.param([[None]] * 5 + [[0.9]] * 5, [[0.9]] * 10, 3, id="half-before"),
        pytest.param([[None]] * 10, [[0.9]] * 10, 3, id="all-before"),
        pytest.param([[0.9]] * 10, [[None]] * 10, 1, id="all-now-fail"),
        pytest.param([[0.9, None]] * 10, [[0.9, None]] * 10, 0, id="some-attempts"),
    ],
)
def test_scores_that_are_missing(
    before: list[list[float | None]], now: list[list[float | None]], code: int
) -> None:
    """Kind: a judge that erred clears nothing. An errored result did not pass, as ever."""
    comparison = ScenarioComparisonResults.of(judged(before), judged(now))
    assert comparison.exit_code == code, comparison.decision_reason
    if code == 3:
        assert "cannot be compared" in comparison.decision_reason
        assert "mend the judge" in comparison.decision_reason


QUESTIONS = [f"q{at}" for at in range(SCENARIOS)]


@pytest.mark.parametrize(
    ("before", "now", "same", "advice"),
    [
        pytest.param(QUESTIONS, QUESTIONS, 30, CALIBRATE, id="the-same"),
        pytest.param(QUESTIONS, [*QUESTIONS[:15], *["x"] * 15], 15, CALIBRATE, id="half"),
        pytest.param(QUESTIONS, [*QUESTIONS[:14], *["x"] * 16], 14, READ, id="fewer"),
        pytest.param(["x" * 9000] * 30, ["x" * 9000] * 30, 0, READ, id="cut"),
        pytest.param(None, QUESTIONS, 0, READ, id="not-stored"),
    ],
)
def test_a_judge_that_changed(
    before: Sequence[str] | None, now: Sequence[str], same: int, advice: str
) -> None:
    """Kind: other scores for the same answers are no fall of the agent's."""
    old, new = (
        judged([[0.9]] * SCENARIOS, questions=before),
        judged([[0.65]] * SCENARIOS, questions=now),
    )
    comparison = ScenarioComparisonResults.of(old, new)
    assert only(comparison).same_questions == same
    assert advice in comparison.advice
    reason = f"the judge got the same question about {same} of 30 records"
    assert (reason in comparison.decision_reasons[0]) is bool(same)


def test_many_scores_are_corrected() -> None:
    """Twenty tasks, of which one fell in eight of eight: 20 times 0.39 % is no regression."""

    def side(first: float) -> EvalResults:
        return EvalResults(
            [
                record(f"r{n}", f"s{n}", task(first), *(task(4.5, f"t{at}") for at in range(19)))
                for n in range(8)
            ]
        )

    comparison = ComparisonResults.of(side(4.5), side(4.0))
    tone = comparison.score_changes[0]
    assert (tone.task_id, tone.tasks) == ("tone", 20)
    assert tone.adjusted_p == pytest.approx(20 / 256)
    assert comparison.exit_code == 0
    assert comparison.not_cleared == ("score of task 'tone'",)
