"""Evaluations that follow others: late spans, judges' answers, versions, erasures."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from collector.store import work
from collector.store.erase import EraseTarget
from collector.store.letters import LetterQuery
from collector.store.rows import Completeness, EvaluationRow
from collector.worker import parts
from collector.worker.late import LateSpans, LateWindow
from collector.worker.open_trace import JoinTimes
from collector.worker.reevaluate import Revision
from collector.worker.revising import Answered
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.derived import derived_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from tests.support.worker_room import SPACE, WorkerRoom, record, span, trace_id

TIMES: Final = JoinTimes(
    settle_s=1, foreign_settle_s=4, quiet_s=10, deadline_s=30, late_window_s=100
)
TWO: Final = TraceAssertionTask("two", TraceAssertion.trace_span_count(), 2, "Equals")
BOTH: Final = AgentEvalProfile([TWO, AssertionTask("right", "answer", 42, "Equals")], alias="both")
RATED: Final = AgentEvalProfile(
    [
        AssertionTask("right", "answer", 42, "Equals"),
        LLMJudgeTask(
            "rated", Prompt("Rate ${answer}.", model="m", provider="p"), 3, "score",
            "GreaterThanOrEqual",
        ),
    ],
    alias="rated",
)  # fmt: skip
DESK: Final = AgentEvalProfile([TWO], alias="desk", watch=Watch(match=WatchMatch(service="desk")))
STAMP: Final = {PROCESS_ID: "p"}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    found = WorkerRoom(tmp_path, {SPACE: [BOTH, RATED], "seen": [DESK]}, TIMES)
    yield found
    found.close()


def judged(room: WorkerRoom, trace: int = 1, uid: str = "a") -> EvaluationRow:
    """A record that was judged with one of two spans."""
    room.records(record(uid, "both", trace, answer=42))
    room.spans(span(trace, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 1}))
    room.pass_s(2)
    first = room.evaluations()[uid]
    assert (first.revision, first.outcome) == (1, Outcome.FAILED)
    return first


def late(room: WorkerRoom, trace: int = 1) -> None:
    """A second span, of another process."""
    room.spans(span(trace, 1, 0, resource={PROCESS_ID: "q"}, attributes={PROCESS_SPAN_COUNT: 1}))


def outcomes(row: EvaluationRow) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in row.tasks}


def test_a_late_span_makes_a_revision(room: WorkerRoom) -> None:
    first = judged(room)
    late(room)
    room.work()
    assert room.evaluations()["a"] == first, "it waits by the rules of the join"
    room.pass_s(5)

    second = room.evaluations()["a"]
    assert (second.revision, outcomes(second)) == (2, {"two": "passed", "right": "passed"})
    assert second.input_seq > first.input_seq
    room.pass_s(5)
    assert room.count("evaluations") == 2


def test_late_spans_that_a_process_left_are_found_by_the_next(room: WorkerRoom) -> None:
    judged(room)
    late(room)
    room.work()
    room.close()
    room.open()
    room.pass_s(5)

    assert room.evaluations()["a"].revision == 2


def test_a_late_span_after_a_start_is_noticed(room: WorkerRoom) -> None:
    judged(room)
    room.close()
    room.open()
    late(room)
    room.pass_s(5)

    assert room.evaluations()["a"].revision == 2


def test_a_late_span_hides_no_record_that_waits_for_longer(room: WorkerRoom) -> None:
    """A start looks from the oldest commit on that anything needs."""
    found = LateSpans(room.store, LateWindow(60.0, 0.0, 0))
    assert found.low_seq(7) == 7
    found.judged([trace_id(1)])
    found.touched(SPACE, [trace_id(1)], 5)
    assert (found.low_seq(7), found.low_seq(3)) == (5, 3)


def test_beyond_the_window_an_evaluation_stays(room: WorkerRoom) -> None:
    judged(room)
    room.pass_s(102)
    late(room)
    room.pass_s(15)

    assert room.evaluations()["a"].revision == 1


def test_a_late_span_renews_what_was_derived(room: WorkerRoom) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    room.spans(
        span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 1, **agent}), space="seen"
    )
    room.pass_s(2)
    uid = derived_uid(trace_id(1), "desk")
    assert room.evaluations("seen")[uid].revision == 1
    (before,) = room.store.records_of("seen", [uid])
    tool = {
        PROCESS_SPAN_COUNT: 1, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
        "session.id": "s",
    }  # fmt: skip
    question = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}])
    better = {PROCESS_SPAN_COUNT: 1, **agent, "gen_ai.input.messages": question}
    room.spans(
        span(1, 1, 0, resource={PROCESS_ID: "q"}, attributes=tool),
        span(1, 0, end_ns=20, resource=STAMP, attributes=better),
        space="seen",
    )
    room.pass_s(5)

    found = room.evaluations("seen")[uid]
    assert (found.revision, found.outcome, found.session_id) == (2, Outcome.PASSED, "s")
    (after,) = room.store.records_of("seen", [uid])
    assert (after.session_id, after.context == before.context) == ("s", False)
    sizes = room.store.context_sizes("seen", [uid])
    assert sizes[uid] > 0


def test_a_senders_record_takes_the_place_of_a_derived_one(room: WorkerRoom) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    of = {PROCESS_SPAN_COUNT: 1, **agent}
    for trace in (1, 2):
        room.spans(span(trace, 0, resource=STAMP, attributes=of), space="seen")
    room.pass_s(2)
    derived = [derived_uid(trace_id(trace), "desk") for trace in (1, 2)]
    assert set(room.evaluations("seen")) == set(derived)
    room.records(record("sent", "desk", 1, answer=1), space="seen")
    room.pass_s(2)

    assert set(room.evaluations("seen")) == {"sent", derived[1]}
    assert room.store.records_of("seen", derived[:1]) == []


def test_none_is_derived_beside_a_senders_record(room: WorkerRoom) -> None:
    """Also where that was judged before the trace came."""
    room.records(record("sent", "desk", 1, answer=1), space="seen")
    room.pass_s(15)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    of = {PROCESS_SPAN_COUNT: 1, **agent}
    room.spans(span(1, 0, resource=STAMP, attributes=of), space="seen")
    room.pass_s(5)

    assert set(room.evaluations("seen")) == {"sent"}
    assert room.worker.watched == 0


def test_a_trace_that_is_too_large_is_not_read(
    room: WorkerRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MOST_SPANS", 2)
    room.records(record("a", "both", 1, answer=42))
    room.spans(*(span(1, number, 0 if number else None) for number in range(3)))
    room.pass_s(12)

    row = room.evaluations()["a"]
    assert outcomes(row) == {"two": "errored", "right": "passed"}
    assert row.tasks[0].reason == "limit"
    assert "too large" in row.tasks[0].message
    assert row.completeness is Completeness.QUIET


def test_large_contexts_are_read_in_parts(
    room: WorkerRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them alone is beyond the bound of what is read together."""
    monkeypatch.setattr(parts, "CONTEXT_BYTES", 1_000)
    rows = [record(f"r{n}", "both", 1, answer=42, more="x" * 2_000) for n in range(5)]
    room.records(*rows)
    room.spans(span(1, 0), span(1, 1, 0))
    room.pass_s(12)

    found = room.evaluations()
    assert {uid: row.outcome for uid, row in found.items()} == dict.fromkeys(
        (f"r{n}" for n in range(5)), Outcome.PASSED
    )


# --- judges -------------------------------------------------------------------------------------


def pending(room: WorkerRoom, uid: str = "a") -> EvaluationRow:
    room.records(record(uid, "rated", answer=42))
    room.work()
    (found,) = room.store.pending_evaluations(9)
    assert outcomes(found.evaluation) == {"right": "passed", "rated": "pending"}
    return found.evaluation


def answered(room: WorkerRoom, before: EvaluationRow) -> Answered:
    tasks = tuple(
        replace(task, outcome=Outcome.PASSED) if task.outcome is Outcome.PENDING else task
        for task in before.tasks
    )
    seq = room.store.last_seq()
    return Answered(before=before, tasks=tasks, read_seq=seq, duration_ns=7)


def test_an_answer_becomes_the_next_revision(room: WorkerRoom) -> None:
    before = pending(room)
    done = room.worker.settle([answered(room, before)])
    room.work()

    assert done.result(0) == [True]
    row = room.evaluations()["a"]
    assert (row.revision, row.outcome) == (2, Outcome.PASSED)
    assert room.store.pending_evaluations(9) == []
    again = room.worker.settle([answered(room, before)])
    room.work()
    assert again.result(0) == [False], "another evaluation is the latest one"


def test_an_answer_from_before_an_erasure_is_requested_again(room: WorkerRoom) -> None:
    before = pending(room)
    answer = answered(room, before)
    room.records(record("other", "both", answer=1))
    room.work()
    erased = room.worker.erase(EraseTarget(space=SPACE, record_uid="other"))
    done = room.worker.settle([answer])
    room.work()
    assert (erased.result(0).uids, done.result(0)) == ({"other"}, [False])

    gone = room.worker.erase(EraseTarget(space=SPACE, record_uid="a"))
    dropped = room.worker.settle([answered(room, before)])
    room.work()
    assert (gone.result(0).uids, dropped.result(0)) == ({"a"}, [True])
    assert room.evaluations() == {}


# --- requested ----------------------------------------------------------------------------------


def test_a_revision_is_stored_behind_the_latest_evaluation_only(room: WorkerRoom) -> None:
    first = judged(room)
    seq = room.store.last_seq()
    row = replace(first, revision=2, evaluation_id="by hand", input_seq=seq)
    done = room.worker.revise([Revision(before=first, row=row, trace_ids=[trace_id(1)])])
    room.work()
    assert done.result(0) == {"a"}
    again = room.worker.revise([Revision(before=first, row=row, trace_ids=[trace_id(1)])])
    room.work()

    assert again.result(0) == frozenset()
    assert room.evaluations()["a"].evaluation_id == "by hand"


def test_a_record_that_was_put_aside_waits_again(room: WorkerRoom) -> None:
    room.records(record("a", "later", answer=42))
    room.pass_s(32)
    assert room.letters() == [("unknown_profile", "a")]
    (letter,) = room.store.dead_letters(LetterQuery(space=SPACE))
    room.registry.register(SPACE, BOTH.model_copy(update={"alias": "later"}), activate=True)
    for _ in range(2):
        room.again("a", letter.letter_id)
        room.pass_s(5)
    assert room.letters() == []
    assert {uid: each.revision for uid, each in room.evaluations().items()} == {"a": 1}


def test_observers_are_notified_of_first_evaluations(tmp_path: Path) -> None:
    notified: list[tuple[str, int]] = []
    calls: list[str] = []

    def observe(rows: Sequence[EvaluationRow]) -> None:
        notified.extend((row.record_uid, row.revision) for row in rows)

    room = WorkerRoom(
        tmp_path, {SPACE: [BOTH, RATED]}, TIMES,
        observers=[observe], on_pending=lambda: calls.append("pending"),
        on_profiles=lambda: calls.append("profiles"),
    )  # fmt: skip
    judged(room)
    late(room)
    room.pass_s(5)
    before = pending(room, "b")
    room.worker.settle([answered(room, before)])
    room.worker.profiles_changed()
    room.work()
    room.close()

    assert notified == [("a", 1), ("b", 1), ("b", 2)]
    assert calls == ["pending", "profiles"]
