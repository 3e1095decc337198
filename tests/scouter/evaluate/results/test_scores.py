"""The number beside an outcome: of assertions, judges and metrics; in columns, files and frames."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.compiled_task import Measured, Subject, compile_metric
from scouter.evaluate.judge.port import JudgeError, JudgeRequest
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.results.attempt import TaskSummary
from scouter.evaluate.results.task_result import EvalTaskResult, as_score, own_score, score_of
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import ScoredTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge

ASSERTED: list[Task] = [
    AssertionTask("number", "a", 3, Op.GreaterThan, condition=True),
    AssertionTask("behind", "b", 3, Op.LessThan, depends_on=["number"]),
    AgentAssertionTask("tool", AgentAssertion.tool_called("search"), True, Op.Equals, "a"),
    TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, Op.Equals),
]
values = st.one_of(st.none(), st.integers(-9, 9), st.floats(), st.text(max_size=3), st.booleans())


# --- the rule ---


@pytest.mark.parametrize(
    ("task_type", "outcome", "actual", "score"),
    [
        ("Assertion", "passed", 347, 1.0),
        ("TraceAssertion", "failed", 347, 0.0),
        ("AgentAssertion", "passed", 0, 1.0),
        ("LLMJudge", "passed", 4, 4.0),
        ("LLMJudge", "failed", 0.25, 0.25),
        ("LLMJudge", "failed", 0, 0.0),
        ("LLMJudge", "failed", True, 0.0),  # a flag is no number
        ("LLMJudge", "passed", "good", 1.0),
        ("LLMJudge", "passed", 10**400, 1.0),
        ("LLMJudge", "passed", -(2**53), -(2.0**53)),
        ("LLMJudge", "passed", 2**53 + 1, 1.0),
        ("LLMJudge", "failed", math.inf, 0.0),
        ("LLMJudge", "failed", math.nan, 0.0),
        ("LLMJudge", "errored", 4, None),
        ("LLMJudge", "skipped", 4, None),
        ("LLMJudge", "pending", 4, None),
        ("Trajectory", "passed", 0.5, 0.5),
        ("Trajectory", "errored", None, None),
    ],
)
def test_the_score_follows_from_type_outcome_and_value(
    task_type: str, outcome: str, actual: Any, score: float | None
) -> None:
    found = score_of(task_type, Outcome(outcome), actual)
    assert (found, type(found)) == (score, type(score))
    result = EvalTaskResult.of(task_id="t", task_type=task_type, outcome=outcome, actual=actual)
    assert result.score == score
    assert result.to_json()["score"] == score


@given(st.lists(st.fixed_dictionaries({}, optional={"a": values, "b": values}), max_size=8))
def test_an_assertion_has_no_score_where_it_was_not_decided_and_only_there(
    contexts: list[dict[str, Any]],
) -> None:
    results = EvalDataset([EvalRecord(each) for each in contexts], ASSERTED).evaluate()
    for record in results.records:
        for task in record.tasks:
            assert (task.score is None) == (task.outcome in (Outcome.ERRORED, Outcome.SKIPPED))
            assert task.score in (None, float(task.passed))


@given(st.one_of(values, st.integers(), st.floats(allow_nan=True, allow_infinity=True)))
def test_every_score_is_finite(value: Any) -> None:
    found = as_score(value)
    assert found is None or (math.isfinite(found) and found == value)


def test_a_score_says_more_than_the_outcome_or_nothing() -> None:
    assert own_score(1.0, Outcome.PASSED) is None
    assert own_score(1.0, Outcome.FAILED) == 1.0
    assert own_score(0.0, Outcome.FAILED) is None
    assert own_score(None, Outcome.ERRORED) is None


# --- judges ---

SCORED = Prompt("Rate ${answer}.", "m", "openai", output_type=Score, fence=False)
FREE = Prompt("Rate ${answer}.", "m", "openai")


def judged(task: LLMJudgeTask, *replies: Any) -> EvalTaskResult:
    record = EvalRecord({"answer": "x", "other": "y"})
    found = EvalDataset([record], [task]).evaluate(judge=ScriptedJudge(replies))
    return found.records[0].tasks[0]


def rates(**fields: Any) -> LLMJudgeTask:
    return LLMJudgeTask("q", SCORED, 3, "score", "GreaterThanOrEqual", **fields)


def test_a_judge_gives_the_number_at_the_path() -> None:
    found = judged(rates(), {"score": 2, "reason": ""})
    assert (found.outcome, found.score) == (Outcome.FAILED, 2.0)


def test_a_judge_that_gives_a_word_has_the_score_of_the_outcome() -> None:
    task = LLMJudgeTask("q", FREE, "good", "label", "Equals")
    assert judged(task, {"label": "good"}).score == 1.0
    assert judged(task, {"label": "bad"}).score == 0.0


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        (rates(), JudgeError(Reason.REFUSAL, "no")),
        (rates(scale=(1, 5)), {"score": 9, "reason": ""}),
        (rates(may_abstain=True), {"score": 3, "reason": "", "abstain": True}),
        (rates(sample_rate=0.0), {"score": 3, "reason": ""}),
        (rates(samples=3), JudgeError(Reason.REFUSAL, "no")),
    ],
)
def test_a_judge_without_a_verdict_gives_no_score(task: LLMJudgeTask, reply: Any) -> None:
    found = judged(task, reply, reply, reply)
    assert found.outcome in (Outcome.ERRORED, Outcome.SKIPPED)
    assert found.score is None


def test_votes_give_their_mean_and_a_median_itself() -> None:
    """Of the votes that were requested and decided; the refused one has none."""
    replies = [{"score": n, "reason": ""} for n in (4, 1, 5)]
    found = judged(rates(samples=3), *replies)
    assert (found.outcome, found.actual) == (Outcome.PASSED, 4)
    assert found.score == pytest.approx(10 / 3)
    refused = [replies[0], JudgeError(Reason.REFUSAL, "no"), replies[2]]
    assert judged(rates(samples=3), *refused).score == 4.5
    assert judged(rates(samples=3, vote="median"), *replies).score == 4.0


def test_words_are_voted_on_by_their_outcomes() -> None:
    task = LLMJudgeTask("q", FREE, "good", "label", "Equals", samples=3)
    found = judged(task, {"label": "good"}, {"label": "bad"}, {"label": "good"})
    assert found.score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("path", "expected", "operator"),
    [("score", 0.5, "GreaterThan"), ("all_met", True, "Equals"), ("failed", 0, "HasLengthEqual")],
)
def test_a_rubric_gives_the_part_that_is_met(path: str, expected: Any, operator: str) -> None:
    """Any part of it may be compared: weights 3 and 1, of which the 3 is met."""
    rubric = [{"id": "kind", "text": "Kind?", "weight": 3}, {"id": "short", "text": "Short?"}]
    task = LLMJudgeTask("q", FREE, expected, path, operator, rubric=rubric)
    reply = {
        "kind": {"reason": "", "verdict": "yes"},
        "short": {"reason": "", "verdict": "no"},
    }
    assert judged(task, reply).score == 0.75


@pytest.mark.parametrize(
    ("first", "second", "expected", "score"),
    [
        ("A", "B", "A", 1.0),  # the first text is better in both orders
        ("A", "B", "B", 1.0),  # that fails, and is the same score
        ("B", "A", "A", 0.0),
        ("T", "T", "A", 0.5),
        ("A", "A", "A", 0.5),  # the choice changes with the order: a tie
    ],
)
def test_a_pair_gives_one_where_the_first_is_better(
    first: str, second: str, expected: str, score: float
) -> None:
    prompt = Prompt("${answer} or ${other}?", "m", "openai")
    swap = {"first": "answer", "second": "other", "tie": "T"}
    task = LLMJudgeTask("q", prompt, expected, "best", "Equals", swap=swap)
    assert judged(task, {"best": first}, {"best": second}).score == score


# --- metrics ---


class OverlapTask(ScoredTask):
    """A kind of task as a later metric is one."""

    task_type: str = "Overlap"


def subject(expected: Any = 1, operator: Op = Op.Equals) -> Subject:
    task: Any = OverlapTask(id="m", operator=operator, expected_value=expected)
    return Subject(task=task, stage=0, assertion=None, label="the overlap")


def measured(found: Measured, expected: Any = 1, operator: Op = Op.Equals) -> EvalTaskResult:
    compiled = compile_metric(subject(expected, operator), lambda _, __, ___: found)
    return compiled.run({"least": 0.5}, None, {})


def test_a_metric_passes_where_it_equals_one_by_default() -> None:
    task = OverlapTask(id="m")
    assert (task.operator, task.expected_value) == (Op.Equals, 1)
    assert OverlapTask(id="m", operator=Op.GreaterThan, expected_value=0.5).expected_value == 0.5
    with pytest.raises(ValidationError, match="GreaterThan needs an expected_value"):
        OverlapTask(id="m", operator=Op.GreaterThan)
    with pytest.raises(ValidationError, match="operator"):  # no other kind has a default
        AssertionTask(id="a", context_path="a", expected_value=1)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("score", "expected", "operator", "outcome"),
    [
        (1.0, 1, Op.Equals, "passed"),
        (0.99, 1, Op.Equals, "failed"),
        (0.0, 1, Op.Equals, "failed"),
        (0.5, 0.5, Op.GreaterThanOrEqual, "passed"),
        (0.6, "${least}", Op.LessThan, "failed"),
    ],
)
def test_the_outcome_of_a_metric_is_a_comparison_of_its_score(
    score: float, expected: Any, operator: Op, outcome: str
) -> None:
    result = measured(Measured(score=score), expected, operator)
    assert (str(result.outcome), result.score, result.actual) == (outcome, score, score)
    assert result.stated_score is None  # it follows from the value


def test_a_metric_may_show_more_than_its_number() -> None:
    """Dependents read the value that it shows; the score is the compared number."""
    found = Measured(score=0.5, actual={"fields": [1, 0]}, detail="no city", span_ids=("a" * 16,))
    result = measured(found)
    assert (result.outcome, result.score) == (Outcome.FAILED, 0.5)
    assert result.actual == {"fields": [1, 0]}
    assert result.message == "the overlap is 0.5, expected Equals 1; no city"
    assert result.span_ids == ("a" * 16,)


@pytest.mark.parametrize("score", [math.nan, math.inf, 2.0**60])
def test_a_metric_that_gives_no_finite_number_is_errored(score: float) -> None:
    result = measured(Measured(score=score))
    assert (result.outcome, result.reason, result.score) == (Outcome.ERRORED, Reason.TYPE, None)
    assert "is no score" in result.message


def test_what_goes_wrong_inside_a_metric_is_its_result() -> None:
    def missing(*_: Any) -> Measured:
        raise TaskFault(Reason.NO_SPANS, "no spans here")

    def broken(*_: Any) -> Measured:
        raise ZeroDivisionError("by zero")

    for measure, reason in ((missing, Reason.NO_SPANS), (broken, Reason.TYPE)):
        result = compile_metric(subject(), measure).run({}, None, {})
        assert (result.outcome, result.reason, result.score) == (Outcome.ERRORED, reason, None)


# --- files and frames ---


def voted() -> EvalResults:
    """A passed judge task of mean score 3, an errored one, and an assertion of each outcome."""
    tasks = [rates(samples=3), AssertionTask("long", "answer", 1, Op.HasLengthGreaterThan)]
    records = [EvalRecord({"answer": answer}, id=str(n)) for n, answer in enumerate(("x", 5, "xy"))]

    def judge(request: JudgeRequest) -> JsonValue:
        if request.messages[-1]["content"] == "Rate 5.":
            return "no number at all"
        return {"score": (4, 1, 4)[request.sample], "reason": ""}

    return EvalDataset(records, tasks).evaluate(judge=judge)


def scores(results: EvalResults) -> list[float | None]:
    return [task.score for record in results.records for task in record.tasks]


def test_a_file_keeps_scores_and_an_older_one_gives_those_that_follow() -> None:
    results = voted()
    stored = [3.0, 0.0, None, None, 3.0, 1.0]
    assert scores(results) == stored
    text = results.model_dump_json()
    assert scores(EvalResults.model_validate_json(text)) == stored
    body = json.loads(text)
    for record in body["results"]:
        for task in record["tasks"]:
            del task["score"]
    older = EvalResults.model_validate_json(json.dumps(body))
    assert scores(older) == [4.0, 0.0, None, None, 4.0, 1.0]  # the first vote's number


def test_a_result_that_knows_its_record_keeps_its_score() -> None:
    seen = voted()["0"].eval_set.records[0]
    assert (seen.record_uid != "", seen.score) == (True, 3.0)
    assert json.loads(seen.model_dump_json())["score"] == 3.0


def test_a_frame_has_a_score_or_nothing() -> None:
    results = voted()
    frame = results.to_dataframe()
    assert frame["task_score"].isna().tolist() == [False, False, True, True, False, False]
    assert frame["task_score"].dropna().tolist() == [3.0, 0.0, 3.0, 1.0]
    assert results.to_arrow()["task_score"].to_pylist() == [3.0, 0.0, None, None, 3.0, 1.0]
    polars = results.to_dataframe(polars=True)
    assert polars["task_score"].to_list() == [3.0, 0.0, None, None, 3.0, 1.0]


def test_a_summary_has_the_score_of_its_file() -> None:
    body = {"task_id": "t", "passed": True, "value": 1.0, "outcome": "passed"}
    assert TaskSummary.model_validate(body).score is None
    assert TaskSummary.model_validate({**body, "score": 0.25}).score == 0.25
    with pytest.raises(ValidationError, match="outcome"):
        TaskSummary.model_validate({**body, "outcome": "perhaps"})


def test_a_result_without_a_verdict_takes_no_score() -> None:
    result = EvalTaskResult.of(task_id="t", task_type="LLMJudge", outcome="errored", score=0.5)
    assert result.score is None
    assert result.scored(0.5).score is None
    passed = EvalTaskResult.of(task_id="t", task_type="LLMJudge", outcome="passed", score=0.5)
    assert (passed.score, passed.scored(None).score, passed.scored(math.nan).score) == (0.5,) * 3
    assert passed.scored(0.25).score == 0.25
