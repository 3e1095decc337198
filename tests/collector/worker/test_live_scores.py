"""Scores live: those of the same records offline, and stored by the revisions of an evaluation."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from collector.judging.inquiry import Inquiries, Inquiry
from collector.store.rates import TaskQuery
from collector.store.rows import EvaluationRow
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import JudgeQuestion
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import SPACE, TRACE, record, span
from tests.support.examples import examples

RATED: Final = Prompt("Rate ${answer}.", "m", "openai")
PAIR: Final = Prompt("${answer} or ${other}?", "m", "openai")
TASKS: Final[list[Task]] = [
    TraceAssertionTask("steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 1, "Equals"),
    AssertionTask("is_one", "answer", 1, "Equals", condition=True),
    LLMJudgeTask("rate", RATED, 3, "n", "GreaterThanOrEqual"),
    LLMJudgeTask("vote", RATED, 3, "n", "GreaterThanOrEqual", samples=3),
    LLMJudgeTask("median", RATED, 3, "n", "GreaterThan", samples=3, vote="median"),
    LLMJudgeTask("marks", RATED, True, "all_met", "Equals", rubric=dict.fromkeys("abc", "Good?")),
    LLMJudgeTask(
        "pair", PAIR, "A", "best", "Equals",
        swap={"first": "answer", "second": "other", "tie": "T"},
    ),
    LLMJudgeTask("gated", RATED, 3, "n", "GreaterThan", depends_on=["is_one"]),
]  # fmt: skip
numbers = st.sampled_from([0, 1, 2.5, 3, 4.75, "none"])
answers = st.fixed_dictionaries(
    {
        **{name: st.tuples(numbers, numbers, numbers) for name in ("rate", "vote", "median")},
        "gated": st.tuples(numbers),
        "marks": st.lists(st.sampled_from(["yes", "no", "cannot_tell"]), min_size=3, max_size=3),
        "pair": st.sampled_from(["A", "B", "T"]),
    }
)


def answer_of(given: Any, request: JudgeRequest) -> Any:
    """The judge's answer; the same question always has the same one."""
    said = given[request.task_id]
    if request.task_id == "marks":
        return {name: {"reason": "", "evaluation": v} for name, v in zip("abc", said, strict=True)}
    return {"best": said} if request.task_id == "pair" else {"n": said[request.sample]}


def scores_of(result: EvaluationRow | RecordResult) -> list[tuple[str, str, float | None]]:
    return [(task.task_id, str(task.outcome), task.score) for task in result.tasks]


# A store per example: shrinking would take minutes.
@settings(
    max_examples=examples(6),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(said=answers, answer=st.sampled_from([1, 2, None]))
def test_live_scores_are_the_offline_ones_in_every_revision(said: Any, answer: Any) -> None:
    """A span comes late, behind the judge's answers: nothing is called again, no score is lost."""
    context = {"answer": answer, "other": 2}
    with tempfile.TemporaryDirectory() as folder:
        process = Process(Path(folder), AgentEvalProfile(TASKS, alias="answers"))
        inquiries = Inquiries(process.store, process.registry)

        async def put(question: JudgeQuestion) -> JudgeReply:
            return JudgeReply(response=answer_of(said, question.request))

        try:
            process.spans(span(1, name="step"))
            process.records(
                record("u", profile_uid=process.profile_uid, context=context, trace_id=TRACE)
            )
            process.after(20)
            found = inquiries.latest((SPACE, "u"))
            assert isinstance(found, Inquiry)
            assert process.settle([asyncio.run(found.decide(put))]) == [True]
            first = process.evaluations()["u"]
            process.spans(span(2, name="step"))
            process.after(20)
            second = process.evaluations()["u"]
            counted = process.store.task_counts(TaskQuery(space=SPACE))
        finally:
            process.close()

    def offline(*spans: Any) -> list[tuple[str, str, float | None]]:
        records = [EvalRecord(context, trace_id=TRACE)]
        results = EvalDataset(records, TASKS, spans).evaluate(
            judge=lambda request: answer_of(said, request)
        )
        return scores_of(results.records[0])

    assert scores_of(first) == offline(span(1, name="step"))
    assert second.revision > first.revision
    assert scores_of(second) == offline(span(1, name="step"), span(2, name="step"))
    assert [(each.task_id, each.scores.mean) for each in counted] == [
        (task_id, score) for task_id, _, score in scores_of(second)
    ]
    for task_id, outcome, score in scores_of(second):
        assert (score is None) == (outcome in (Outcome.ERRORED, Outcome.SKIPPED)), task_id
