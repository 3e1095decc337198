"""Tasks that run again when spans come late, and the results of the others."""

import dataclasses
from typing import Any

from collector.store.rows import Completeness, EvaluationRow
from collector.worker.profiles import RegisteredProfile
from collector.worker.ready import Ready, rerun_of
from collector.worker.records import TraceView, judge, judge_again
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.contracts.store_data import SPACE, TRACE, record, span

STEPS = TraceAssertion.span_count(SpanFilter.by_name("step"))
PROMPT = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
PROFILE = AgentEvalProfile(
    [
        AssertionTask("alone", "answer", 42, "Equals"),
        LLMJudgeTask("rated", PROMPT, 3, "score", "GreaterThanOrEqual"),
        AssertionTask("gate", "answer", 42, "Equals", condition=True),
        TraceAssertionTask("steps", STEPS, 2, "Equals", depends_on=["gate"]),
        AssertionTask("behind", "steps", 2, "Equals", depends_on=["steps"]),
    ],
    alias="mixed",
)
REGISTERED = RegisteredProfile(space=SPACE, profile=PROFILE, is_active=True, registered_ns=1)


def ready(**fields: Any) -> Ready:
    row = record("u1", trace_id=TRACE, context={"answer": 42})
    given: dict[str, Any] = {
        "completeness": Completeness.QUIET, "missing_parents": 1, "waited_s": 1.0
    }  # fmt: skip
    return Ready(record=row, **(given | fields))


def trace(count: int) -> dict[str, TraceView]:
    return {TRACE: TraceView.of(SpanTree(span(n, name="step") for n in range(1, count + 1)))}


def outcomes(row: EvaluationRow) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in row.tasks}


def test_only_what_spans_can_change_runs_again_with_what_it_reads() -> None:
    """The judge task is not among them: it would cost money."""
    rerun = rerun_of(PROFILE.plan)
    assert rerun.affected == {"steps", "behind"}
    assert [task.id for task in rerun.plan.tasks] == ["gate", "steps", "behind"]


def test_a_revision_takes_over_the_results_that_spans_cannot_change() -> None:
    """The earlier results are marked, so that it shows which of them stayed."""
    (first,) = judge([ready()], REGISTERED, trace(1), seq=7, now_ns=100)
    assert first.revision == 1
    assert outcomes(first)["steps"] == "failed"
    marked = tuple(
        dataclasses.replace(task, message=f"first {task.task_id}", outcome=Outcome.PASSED)
        for task in first.tasks
    )
    earlier = dataclasses.replace(first, tasks=marked, revision=3)
    again = ready(completeness=Completeness.COMPLETE, missing_parents=0)
    (row,) = judge_again(
        [(again, earlier)], REGISTERED, rerun_of(PROFILE.plan), trace(2), seq=9, now_ns=200
    )
    assert (row.revision, row.input_seq, row.completeness) == (4, 9, Completeness.COMPLETE)
    assert [task.task_id for task in row.tasks] == ["alone", "rated", "gate", "steps", "behind"]
    messages = {task.task_id: task.message for task in row.tasks}
    stayed = {name for name, message in messages.items() if message == f"first {name}"}
    assert stayed == {"alone", "rated", "gate"}
    assert row.outcome is Outcome.PASSED
    steps = next(task for task in row.tasks if task.task_id == "steps")
    assert (steps.actual, steps.stage) == (2, 1)


def test_an_evaluation_with_other_tasks_is_made_anew() -> None:
    (first,) = judge([ready()], REGISTERED, trace(1), seq=7, now_ns=100)
    earlier = dataclasses.replace(first, tasks=first.tasks[:2])
    again = ready()
    (row,) = judge_again(
        [(again, earlier)], REGISTERED, rerun_of(PROFILE.plan), trace(2), seq=9, now_ns=200
    )
    assert outcomes(row) == {
        "alone": "passed", "rated": "pending", "gate": "passed", "steps": "passed",
        "behind": "passed",
    }  # fmt: skip
