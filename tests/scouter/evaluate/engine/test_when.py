"""`when`: a task is judged only where its condition holds, by every engine alike."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue, ValidationError

from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.judged import evaluate_deferred
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.base import When
from scouter.evaluate.tasks.task import Task, parse_tasks, task_adapter, with_calls_told_by
from scouter.model.agent_work import CallsToldBy
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge
from tests.scouter.evaluate.spans_support import agent_trace, span

REFUND = {"context_path": "topic", "operator": "Equals", "expected_value": "refund"}
CALLED = {
    "assertion": {"SpanExists": {"filter": {"ByName": {"name": "search"}}}},
    "operator": "Equals",
    "expected_value": True,
}


def task(id: str = "t", **fields: object) -> Task:
    (made,) = parse_tasks(
        [
            {
                "task_type": "Assertion", "id": id, "context_path": "answer", "operator": "Equals",
                "expected_value": "yes", **fields,
            }
        ]
    )  # fmt: skip
    return made


def outcomes(result: RecordResult) -> dict[str, str]:
    return {
        each.task_id: ":".join(filter(None, (each.outcome, each.reason))) for each in result.tasks
    }


def judged(tasks: list[Task], context: JsonValue, spans: SpanTree | None = None) -> dict[str, str]:
    return outcomes(evaluate_record(compile_plan(tasks), EvalRecord(context), spans))


@pytest.mark.parametrize(
    ("context", "outcome"),
    [
        ({"topic": "refund", "answer": "yes"}, "passed"),
        ({"topic": "refund", "answer": "no"}, "failed"),
        ({"topic": "greeting", "answer": "no"}, "skipped:not_applicable"),
        ({"answer": "yes"}, "errored:missing_path"),
    ],
)
def test_a_condition_on_the_record(context: JsonValue, outcome: str) -> None:
    assert judged([task(when=REFUND)], context) == {"t": outcome}


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [
        (agent_trace(), "failed"),
        (SpanTree([span(1, "run")]), "skipped:not_applicable"),
        # The search may be among the spans that are missing, and a search may not go away.
        (SpanTree([span(1, "run")], lost="a span was refused"), "errored:incomplete"),
        (SpanTree([span(1, "search")], lost="a span was refused"), "failed"),
        (None, "errored:no_spans"),
    ],
)
def test_a_condition_on_spans(spans: SpanTree | None, outcome: str) -> None:
    tasks = [task(when=CALLED)]

    assert judged(tasks, {"answer": "no"}, spans) == {"t": outcome}
    assert compile_plan(tasks).reads_spans


def test_what_does_not_apply_is_in_no_rate_and_leaves_a_record_whole() -> None:
    tasks = [
        task("gate", when=REFUND, condition=True),
        task("behind", depends_on=["gate"]),
        task("plain"),
    ]
    found = EvalDataset([EvalRecord({"topic": "x", "answer": "yes"})], tasks).evaluate()
    [record] = found.records

    assert outcomes(record) == {
        "gate": "skipped:not_applicable", "behind": "skipped:not_applicable", "plain": "passed",
    }  # fmt: skip
    assert "does not apply" in record["gate"].message
    assert (record.outcome, found.pass_rate) == (Outcome.PASSED, 1.0)
    attempt = ScenarioAttempt.of("s", "q", record.tasks)
    assert (attempt.outcome, attempt.passed, attempt.pass_rate) == (Outcome.PASSED, True, 1.0)


def test_a_rate_of_columns_leaves_out_what_does_not_apply() -> None:
    contexts = [{"topic": "refund", "answer": "no"}, *[{"topic": "x", "answer": "no"}] * 3]
    found = EvalDataset([EvalRecord(each) for each in contexts], [task(when=REFUND)]).evaluate()

    assert found.counts[Outcome.SKIPPED] == 3
    assert found.pass_rate == 0.0
    contexts[0]["answer"] = "yes"
    found = EvalDataset([EvalRecord(each) for each in contexts], [task(when=REFUND)]).evaluate()
    assert found.pass_rate == 1.0


def test_a_judge_is_not_called_where_its_task_does_not_apply() -> None:
    tasks = [
        task(
            "j", task_type="LLMJudge", context_path="ok", expected_value=True, when=REFUND,
            prompt={"provider": "openai", "model": "m", "messages": ["${answer}"]},
        )
    ]  # fmt: skip
    judge = ScriptedJudge({"j": {"ok": True}})
    records = [EvalRecord({"topic": each, "answer": each}) for each in ("refund", "x")]
    found = EvalDataset(records, tasks).evaluate(judge=judge)

    assert [outcomes(each)["j"] for each in found.records] == ["passed", "skipped:not_applicable"]
    assert len(judge.requests) == 1
    plan = compile_plan(tasks)
    later = [evaluate_deferred(plan, each).results[0].outcome for each in records]
    assert later == [Outcome.PENDING, Outcome.SKIPPED]
    without_judge = [
        judged(tasks, {"topic": each, "answer": each})["j"] for each in ("refund", "x")
    ]
    assert without_judge == ["errored:provider", "skipped:not_applicable"]


def test_a_condition_reads_what_its_task_depends_on() -> None:
    when = {"context_path": "kind", "operator": "Equals", "expected_value": "a"}
    tasks = [
        task("kind", context_path="letters[0]", operator="IsString", expected_value=True),
        task(depends_on=["kind"], when=when),
    ]

    assert judged(tasks, {"letters": ["a"], "answer": "yes"})["t"] == "passed"
    assert judged(tasks, {"letters": ["b"], "answer": "yes"})["t"] == "skipped:not_applicable"


def test_a_condition_is_written_and_read_again() -> None:
    for when in (REFUND, CALLED):
        made = task(when=when)
        assert task_adapter().validate_json(made.model_dump_json()) == made
    assert "when" not in task().model_dump()


def test_a_profile_says_for_conditions_too_who_tells_of_calls() -> None:
    when = {
        "assertion": {"ToolCalled": {"name": "a"}}, "source": "spans", "operator": "Equals",
        "expected_value": True,
    }  # fmt: skip
    (made,) = with_calls_told_by([task(when=when)], CallsToldBy.SPANS)

    assert made.when is not None
    assert made.when.calls_told_by is CallsToldBy.SPANS


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({"context_path": "x", "operator": "Equals"}, "needs an expected_value"),
        ({"assertion": {"Nope": {}}, "operator": "IsEmpty"}, "ToolCalled"),
        ({"assertion": "TraceDuration", "operator": "IsEmpty"}, "TraceDuration"),
        ({"task_type": "LLMJudge", "operator": "IsEmpty"}, "task_type"),
    ],
)
def test_what_is_no_condition_is_refused(when: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        task(when=when)


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({**REFUND, "source": "spans"}, "needs an assertion"),
        ({**CALLED, "context_path": "x"}, "leave out the context_path"),
        ({**REFUND, "operator": "Matches", "expected_value": "("}, "task 't'"),
    ],
)
def test_a_condition_that_can_never_work_is_refused(
    when: Mapping[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_plan([task(when=When.model_validate(when))])
