"""Judge tasks in the pipeline: pending at first, decided by what the judging hands back."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.judging.inquiry import Inquiries, Inquiry
from collector.metrics import TotalName
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, TaskRow
from collector.worker.reevaluate import Reevaluator, Revision
from collector.worker.revising import Answered
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.engine.execute import Found, JudgeQuestion, walk
from scouter.evaluate.engine.judged import answered, evaluate_deferred
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.port import JudgeReply, JudgeUsage
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import SPACE, TRACE, record, span

PASSED, FAILED, ERRORED, SKIPPED, PENDING = Outcome


def judge(task_id: str, text: str = "Rate ${answer}.", **fields: Any) -> LLMJudgeTask:
    prompt = Prompt(text, "m", "openai", output_type=Score)
    return LLMJudgeTask(task_id, prompt, 3, "score", "GreaterThanOrEqual", **fields)


def gate(task_id: str, expected: int, **fields: Any) -> AssertionTask:
    return AssertionTask(task_id, "answer", expected, "Equals", condition=True, **fields)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Any]:
    processes: list[Process] = []

    def start(*tasks: Any) -> Process:
        profile = AgentEvalProfile(list(tasks), alias="answers")
        processes.append(Process(tmp_path / f"{len(processes)}", profile))
        return processes[-1]

    yield start
    for each in processes:
        each.last.close()


def outcomes(row: EvaluationRow) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in row.tasks}


def answer(
    process: Process, row: EvaluationRow, outcome: Outcome = PASSED, question: str = "q"
) -> Answered:
    """Answers of a judge to an evaluation: everything that is pending ends the same way."""
    usage = JudgeUsage(calls=1)

    def decided(task: TaskRow) -> TaskRow:
        if task.outcome is not PENDING:
            return task
        return TaskRow(
            task_id=task.task_id, task_type=task.task_type, outcome=outcome, usage=usage,
            question=question, answer={"score": 4},
        )  # fmt: skip

    return Answered(
        before=row,
        tasks=tuple(decided(task) for task in row.tasks),
        read_seq=process.store.last_seq(),
        duration_ns=7,
    )


def records(process: Process, *numbers: int, **fields: Any) -> None:
    rows = [
        record(f"u{n}", profile_uid=process.profile_uid, context={"answer": n}, **fields)
        for n in numbers
    ]
    process.records(*rows)
    process.after(1)


def test_what_needs_no_judge_is_decided_at_once(begin: Any) -> None:
    """A gate, a sample and a path that leads nowhere decide; all else hangs on the answers."""
    process = begin(
        gate("is_one", 1),
        judge("tone"),
        judge("behind", depends_on=["is_one"]),
        judge("nobody", sample_rate=0.0),
        judge("lost", "Rate ${nothing}."),
        AssertionTask("why", "tone.reason", True, "IsString", depends_on=["tone"]),
        AssertionTask("both", "answer", 1, "Equals", depends_on=["tone", "is_one"]),
        AssertionTask("left", "answer", 1, "Equals", depends_on=["nobody"]),
        AssertionTask("broken", "answer", 1, "Equals", depends_on=["lost", "tone"]),
    )
    records(process, 1, 2)
    one, two = (process.evaluations()[uid] for uid in ("u1", "u2"))
    common = {"tone": "pending", "nobody": "skipped", "lost": "errored", "why": "pending",
              "left": "skipped", "broken": "pending"}  # fmt: skip
    assert outcomes(one) == {
        **common, "is_one": "passed", "behind": "pending", "both": "pending",
    }  # fmt: skip
    assert outcomes(two) == {**common, "is_one": "failed", "behind": "skipped", "both": "skipped"}
    assert {task.task_id: task.reason for task in two.tasks if task.reason} == {
        "nobody": "sampled", "left": "sampled", "lost": "missing_path",
        "behind": "gate", "both": "gate",
    }  # fmt: skip
    assert (one.outcome, two.outcome) == (PENDING, PENDING)  # a judge may still find a failure


def test_an_evaluation_is_pending_until_it_is_settled(begin: Any) -> None:
    """The revision counts like any other; observers are notified of the first that is decided."""
    process = begin(gate("is_one", 1), judge("tone"))
    records(process, 1, 2)
    assert {row.outcome for row in process.evaluations().values()} == {PENDING}
    assert process.measured_evaluations == 2

    rows = process.evaluations()
    answers = [answer(process, rows["u1"]), answer(process, rows["u2"], FAILED)]
    assert process.settle(answers) == [True, True]
    one, two = (process.evaluations()[uid] for uid in ("u1", "u2"))
    assert (one.outcome, one.revision, two.outcome, two.revision) == (PASSED, 2, FAILED, 2)
    assert one.tasks[1].usage == JudgeUsage(calls=1)
    assert one.input_seq == rows["u1"].input_seq
    assert process.measured_evaluations == 4
    assert process.total(TotalName.TASKS) == 4
    assert process.total(TotalName.REVISIONS) == 2
    assert process.store.pending_count() == 0
    assert process.settle(answers) == [False, False]  # they follow another evaluation now
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.evaluated) == (2, 2)


def test_an_answer_for_an_erased_record_is_dropped(begin: Any) -> None:
    """An answer that was made before any erasure is to be made anew, as it may hold what went."""
    process = begin(judge("tone"))
    records(process, 1, 2)
    rows = process.evaluations()
    answers = [answer(process, rows["u1"]), answer(process, rows["u2"])]
    process.erase(EraseTarget(space=SPACE, record_uid="u1"))
    assert process.settle(answers) == [True, False]
    assert set(process.evaluations()) == {"u2"}
    assert process.evaluations()["u2"].outcome is PENDING
    assert process.settle([answer(process, rows["u2"])]) == [True]
    assert process.evaluations()["u2"].outcome is PASSED
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.evaluated, sheet.erased) == (2, 1, 1)


STEPS = TraceAssertionTask(
    "steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 2, "Equals"
)


class Scripted:
    """Reads pending evaluations as the judging does, and answers every question with the same."""

    def __init__(self, process: Process, score: float = 4) -> None:
        self._process, self._score = process, score
        self._inquiries = Inquiries(process.store, process.registry)
        self.questions: list[str] = []
        """The last message of each question."""

    def decide(self, uid: str) -> Answered:
        """Ask for an evaluation, without storing anything."""
        found = self._inquiries.latest((SPACE, uid))
        assert isinstance(found, Inquiry)
        return asyncio.run(found.decide(self._put))

    def settle(self, uid: str) -> EvaluationRow:
        """Ask, and store the revision."""
        assert self._process.settle([self.decide(uid)]) == [True]
        return self._process.evaluations()[uid]

    async def _put(self, question: JudgeQuestion) -> JudgeReply:
        self.questions.append(question.request.messages[-1]["content"])
        return JudgeReply(response={"score": self._score, "reason": "why not"}, input_tokens=9)


def test_an_unchanged_question_is_not_put_again_when_spans_come_late(begin: Any) -> None:
    """`tone` reads no spans, `seen` asks about a value that spans change, `as_well` does not.

    `as_many` asks the same question, and expects another answer then. A task that depends on a
    stored evaluation reads the judge's whole answer, as it was stored.
    """
    prompt = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
    process = begin(
        STEPS,
        judge("tone"),
        judge("seen", "${steps} steps, ${tone.reason}", depends_on=["steps", "tone"]),
        LLMJudgeTask("as_many", prompt, "${steps}", "score", "GreaterThan", depends_on=["steps"]),
        judge("as_well", depends_on=["steps"]),
        AssertionTask("reason", "as_well.reason", "why not", "Equals",
                      depends_on=["as_well", "steps"]),
    )  # fmt: skip
    judging = Scripted(process)
    process.spans(span(1, name="step"))
    records(process, 1, trace_id=TRACE)
    process.after(20)
    process.spans(span(2, name="step"))
    process.after(20)
    assert outcomes(process.evaluations()["u1"]) == {
        "steps": "passed", "tone": "pending", "seen": "pending", "as_well": "pending",
        "as_many": "pending", "reason": "pending",
    }  # fmt: skip
    first = judging.settle("u1")
    assert (first.revision, first.outcome, len(judging.questions)) == (3, PASSED, 4)

    process.spans(span(3, name="step"))
    process.after(20)
    again = process.evaluations()["u1"]
    assert again.revision == 4
    assert outcomes(again) == {
        "steps": "failed", "tone": "passed", "seen": "pending", "as_well": "passed",
        "as_many": "pending", "reason": "passed",
    }  # fmt: skip
    stored = ("tone", "as_well")  # with usage, question and answer
    assert [task for task in again.tasks if task.task_id in stored] == [
        task for task in first.tasks if task.task_id in stored
    ]
    judging.questions.clear()
    last = judging.settle("u1")
    assert len(judging.questions) == 2
    assert any("3" in text and "why not" in text for text in judging.questions)
    assert outcomes(last) == {**outcomes(again), "seen": "passed", "as_many": "passed"}
    assert (last.revision, last.outcome, last.was_decided) == (5, FAILED, True)
    assert process.measured_evaluations == 2  # the first one, and the first that was decided


def test_spans_that_come_while_a_judge_is_called(begin: Any) -> None:
    """The answer follows an evaluation that is not the latest: nothing is stored or lost."""
    process = begin(STEPS, judge("tone"))
    judging = Scripted(process)
    process.spans(span(1, name="step"))
    records(process, 1, trace_id=TRACE)
    process.after(20)
    made = judging.decide("u1")
    process.spans(span(2, name="step"))
    process.after(20)
    assert process.settle([made]) == [False]
    assert process.evaluations()["u1"].revision == 2
    last = judging.settle("u1")
    assert (last.revision, outcomes(last)) == (3, {"steps": "passed", "tone": "passed"})
    assert process.store.conservation(SPACE).spans.late == 0


def test_a_task_that_reads_spans_behind_a_judge(begin: Any) -> None:
    """It is pending with the judge, and sees the spans once it runs."""
    gated = STEPS.model_copy(update={"id": "gated", "depends_on": ["tone"]})
    process = begin(judge("tone", condition=True), gated)
    process.spans(span(1, name="step"), span(2, name="step"))
    records(process, 1, trace_id=TRACE)
    process.after(20)
    assert process.evaluations()["u1"].outcome is PENDING
    last = Scripted(process).settle("u1")
    assert outcomes(last) == {"tone": "passed", "gated": "passed"}


def test_a_judge_of_calls_waits_for_the_spans_that_are_missing(begin: Any) -> None:
    """Without the root it is not called; a call that comes late changes the question."""

    def call(number: int, name: str) -> Span:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        return span(
            number, start_ns=number * 10, end_ns=number * 10 + 5, attributes=attributes,
            parent_span_id=f"{1:016x}", parent_is_remote=False,
        )  # fmt: skip

    prompt = Prompt("Rate ${agent_trajectory}.", "m", "openai", output_type=Score)
    process = begin(TrajectoryTask("calls", prompt_without_reference=prompt))
    judging = Scripted(process, score=1)
    process.spans(call(2, "look"))
    records(process, 1, trace_id=TRACE)
    process.after(301)
    [first] = process.evaluations()["u1"].tasks
    assert (first.outcome, first.reason) == (ERRORED, "incomplete")
    assert judging.questions == []
    process.spans(span(1, name="turn"))
    process.after(20)
    assert process.evaluations()["u1"].outcome is PENDING
    assert judging.settle("u1").outcome is PASSED
    process.spans(call(3, "walk"))
    process.after(20)
    assert process.evaluations()["u1"].outcome is PENDING
    assert judging.settle("u1").outcome is PASSED
    assert [("look" in text, "walk" in text) for text in judging.questions] == [
        (True, False), (True, True),
    ]  # fmt: skip


def test_a_session_is_judged_the_same_way(begin: Any) -> None:
    """A record that comes later changes the question, so that it is put again."""
    process = begin(judge("arc", "All: ${records}", scope="session"))
    judging = Scripted(process)
    records(process, 1, 2, session_id="s")
    process.after(100)
    row = process.evaluations()["session s"]
    assert (row.outcome, row.revision) == (PENDING, 1)
    made = judging.decide(row.record_uid)
    assert process.settle([made]) == [True]
    assert process.evaluations()["session s"].outcome is PASSED
    records(process, 3, session_id="s")
    process.after(100)
    again = process.evaluations()["session s"]
    assert (again.outcome, again.revision) == (PENDING, 3)
    judging.decide(row.record_uid)
    assert [text.count("answer") for text in judging.questions] == [2, 3]


def test_another_version_asks_of_a_session_only_what_is_new(begin: Any) -> None:
    """The evaluation is called by the first version's uid; its question is that of the second."""
    arc, tone = judge("arc", "All: ${records}", scope="session"), "Tone: ${session_id}"
    process = begin(arc)
    judging = Scripted(process)
    records(process, 1, 2, session_id="s")
    process.after(100)
    uid = process.evaluations()["session s"].record_uid
    assert process.settle([judging.decide(uid)]) == [True]

    def revise(revisions: Sequence[Revision]) -> "Future[frozenset[str]]":
        """Do at once what the worker's thread would do."""
        done: Future[frozenset[str]] = Future()
        done.set_result(process.revise(revisions))
        return done

    second = AgentEvalProfile([arc, judge("tone", tone, scope="session")], alias="answers")
    registered = process.registry.register(SPACE, second, activate=False)
    reevaluator = Reevaluator(process.store, process.registry, revise)
    query = EvaluationQuery(space=SPACE, session_id="s", limit=10)
    now_ns = int(process.now * 1e9)
    found = reevaluator.run(registered, query, now_ns=now_ns, is_dry=False)
    assert (found.checked, len(found.stored)) == (3, 3)
    row = process.evaluations()["session s"]
    assert (outcomes(row), row.revision) == ({"arc": "passed", "tone": "pending"}, 3)
    assert process.settle([judging.decide(uid)]) == [True]
    assert outcomes(process.evaluations()["session s"]) == {"arc": "passed", "tone": "passed"}
    assert [text.split(":")[0] for text in judging.questions] == ["All", "Tone"]


def test_a_profile_that_is_active_no_more_still_decides(begin: Any) -> None:
    process = begin(judge("tone"))
    records(process, 1)
    process.registry.set_active(SPACE, process.profile_uid, is_active=False)
    assert Scripted(process).settle("u1").outcome is PASSED


def test_a_restart_knows_what_is_pending(begin: Any) -> None:
    process = begin(judge("tone"))
    records(process, 1, 2)
    rows = process.evaluations()
    process.settle([answer(process, rows["u1"])])
    later = process.restarted()
    (found,) = later.store.pending_evaluations(9)
    assert found.evaluation.record_uid == "u2"
    assert Scripted(later).settle("u2").outcome is PASSED
    assert later.store.pending_evaluations(9) == []


@given(
    passes=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    gates=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    needs=st.lists(st.sets(st.integers(0, 5)), min_size=6, max_size=6),
    rates=st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])),
    broken=st.integers(0, 5),
)
def test_deciding_in_two_steps_is_deciding_at_once(
    passes: tuple[bool, ...], gates: tuple[bool, ...], needs: list[set[int]],
    rates: tuple[float, ...], broken: int,
) -> None:  # fmt: skip
    """Tasks 0, 2, 4 need no judge, 1 and 3 do, 5 cannot ask; each may depend on any before it.

    An outcome that is decided before the judge answers stays, and both ways end alike.
    """
    names = [f"t{n}" for n in range(6)]
    before = [[names[n] for n in sorted(each) if n < at] for at, each in enumerate(needs)]
    path = ["answer", "nothing"]
    tasks: list[Any] = [
        AssertionTask(
            names[at], path[at == broken], 1 if passes[at // 2] else 2, "Equals",
            depends_on=before[at], condition=gates[at // 2],
        )
        if at % 2 == 0
        else judge(
            names[at], "${answer}" if at < 5 else "${nothing}", depends_on=before[at],
            condition=gates[at // 2], sample_rate=rates[at // 2] if at < 5 else 1.0,
        )
        for at in range(6)
    ]  # fmt: skip
    plan = compile_plan(tasks)
    one = EvalRecord({"answer": 1}, uid="u")

    async def put(question: JudgeQuestion) -> JudgeReply:
        is_right = passes[int(question.task.spec.task_id[1:]) // 2]
        return JudgeReply(response={"score": 5 if is_right else 1, "reason": ""})

    whole = asyncio.run(answered(walk(plan, {"answer": 1}, None, "u"), put))
    first = evaluate_deferred(plan, one).results
    known = {at: each for at, each in enumerate(first) if each.outcome is not PENDING}
    found = Found(dict(known))
    last = asyncio.run(answered(walk(plan, {"answer": 1}, None, "u", found), put))
    short = [(each.outcome, each.reason) for each in whole]
    assert [(each.outcome, each.reason) for each in last] == short
    assert all((each.outcome, each.reason) == short[at] for at, each in known.items())
    undecided = {at for at, each in enumerate(first) if each.outcome is PENDING}
    assert all(
        at in (1, 3) or undecided & {names.index(need) for need in before[at]}
        for at in undecided
    )  # fmt: skip
