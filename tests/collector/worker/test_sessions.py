"""Sessions as a whole: when they are judged, of what, how often, and after a start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.store.rows import Completeness, EvaluationRow, Scope
from collector.worker import session_reader
from collector.worker.open_trace import JoinTimes
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from tests.support.worker_room import SPACE, WorkerRoom, record, span

TIMES: Final = JoinTimes(
    settle_s=1, foreign_settle_s=4, quiet_s=10, deadline_s=30, late_window_s=1_000,
    session_quiet_s=20, session_deadline_s=50,
)  # fmt: skip
SAID: Final = AssertionTask("said", "records[*].context.answer", [1, 2], "Equals", scope="session")
SPANS: Final = TraceAssertionTask(
    "spans", TraceAssertion.trace_span_count(), 2, "Equals", scope="session"
)
CHAT: Final = AgentEvalProfile([SAID], alias="chat")
SEEN: Final = AgentEvalProfile([SPANS], alias="seen")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    found = WorkerRoom(tmp_path, {SPACE: [CHAT, SEEN]}, TIMES)
    yield found
    found.close()


def said(
    uid: str, answer: int, profile: str = "chat", trace: int | None = None
) -> dict[str, object]:
    return record(uid, profile, trace, answer=answer) | {"session_id": "s"}


def session(room: WorkerRoom) -> EvaluationRow | None:
    found = [row for row in room.evaluations().values() if row.scope is Scope.SESSION]
    assert len(found) < 2
    return found[0] if found else None


def actual(room: WorkerRoom) -> tuple[int, object]:
    row = session(room)
    assert row is not None
    return row.revision, row.tasks[0].actual


def test_a_session_is_judged_once_a_quiet_period_after_its_last_record(room: WorkerRoom) -> None:
    room.records(said("a", 1))
    room.pass_s(15)
    room.records(said("b", 2))
    room.pass_s(18)
    assert session(room) is None
    room.pass_s(4)

    row = session(room)
    assert row is not None
    assert (row.outcome.value, row.completeness) == ("passed", Completeness.COMPLETE)
    assert actual(room) == (1, [1, 2])
    assert set(room.evaluations()) == {"a", "b", row.record_uid}


def test_a_session_that_never_rests_is_judged_at_its_deadline(room: WorkerRoom) -> None:
    for number in range(6):
        room.records(said(f"r{number}", number))
        room.pass_s(10)

    row = session(room)
    assert row is not None
    assert row.completeness is Completeness.DEADLINE


def test_more_of_a_session_is_the_next_revision(room: WorkerRoom) -> None:
    room.records(said("a", 1))
    room.pass_s(22)
    assert actual(room) == (1, [1])
    room.records(said("b", 2))
    room.pass_s(22)

    assert actual(room) == (2, [1, 2])


def test_a_start_takes_up_open_sessions_and_no_others(room: WorkerRoom) -> None:
    room.records(said("a", 1))
    room.pass_s(5)
    room.close()
    room.open()
    room.pass_s(22)
    assert actual(room) == (1, [1])
    room.close()
    room.open()
    room.pass_s(60)

    assert actual(room) == (1, [1])


@pytest.mark.parametrize("is_started", [False, True])
def test_late_spans_renew_a_session(room: WorkerRoom, is_started: bool) -> None:
    root = span(1, 0, resource={PROCESS_ID: "p"}, attributes={PROCESS_SPAN_COUNT: 1})
    room.records(said("a", 1, "seen", 1))
    room.spans(root)
    room.pass_s(22)
    assert actual(room) == (1, 1)
    room.spans(span(1, 1, 0, resource={PROCESS_ID: "q"}, attributes={PROCESS_SPAN_COUNT: 1}))
    room.work()
    if is_started:
        room.close()
        room.open()
    room.pass_s(25)

    assert actual(room) == (2, 2)


def test_a_session_that_its_trace_names(room: WorkerRoom) -> None:
    """The record does not say which one it belongs to; its trace does."""
    room.records(record("a", "chat", 1, answer=1))
    of = {PROCESS_SPAN_COUNT: 1, "session.id": "of the trace"}
    room.spans(span(1, 0, resource={PROCESS_ID: "p"}, attributes=of))
    room.pass_s(2)
    assert room.evaluations()["a"].session_id == "of the trace"
    (row,) = room.store.records_of(SPACE, ["a"])
    assert row.session_id == "of the trace"
    room.pass_s(22)

    found = session(room)
    assert found is not None
    assert found.session_id == "of the trace"


def test_a_session_that_is_too_large_is_errored(
    room: WorkerRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_reader, "MOST_RECORDS", 2)
    room.records(*(said(f"r{number}", number) for number in range(3)))
    room.pass_s(22)

    row = session(room)
    assert row is not None
    (task,) = row.tasks
    assert (task.outcome.value, task.reason) == ("errored", "limit")
    assert "more than 2 records" in task.message
