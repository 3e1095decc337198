"""The worker over a real log and store: what it takes, decides, and finds after a start."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.log.port import Kind
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.rows import Completeness
from collector.worker import committer
from collector.worker.open_trace import JoinTimes
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.errors import TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.derived import derived_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from tests.support.processes import wait_until
from tests.support.worker_room import (
    SECOND_NS,
    SPACE,
    WorkerRoom,
    record,
    span,
    stored_span_ids,
    trace_id,
)

RIGHT: Final = AgentEvalProfile([AssertionTask("right", "answer", 42, Op.Equals)], alias="right")
TWO: Final = AgentEvalProfile(
    [TraceAssertionTask("two", TraceAssertion.trace_span_count(), 2, Op.Equals)], alias="two"
)
DESK: Final = AgentEvalProfile(
    [TraceAssertionTask("two", TraceAssertion.trace_span_count(), 2, Op.Equals)],
    alias="desk",
    watch=Watch(match=WatchMatch(service="desk", attribute={"agent": "yes"})),
)
TIMES: Final = JoinTimes(settle_s=1, foreign_settle_s=4, quiet_s=10, deadline_s=30)
STAMP: Final = {PROCESS_ID: "p"}
AGENT: Final = {"agent": "yes"}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    found = WorkerRoom(
        tmp_path, {SPACE: [RIGHT, TWO], "other": [RIGHT], "seen": [DESK, RIGHT]}, TIMES
    )
    yield found
    found.close()


class FullStore(FileStore):
    """A store whose disk may be full."""

    is_full = False

    def commit(self, rows: Commit) -> int:
        """Refuse while it is."""
        if self.is_full:
            raise TransientError("the disk is full")
        return super().commit(rows)


def outcomes(room: WorkerRoom, space: str = SPACE) -> dict[str, str]:
    return {uid: row.outcome.value for uid, row in room.evaluations(space).items()}


def test_records_that_read_no_spans_are_judged_as_they_come(room: WorkerRoom) -> None:
    room.records(record("a", "right", answer=42), record("b", "right", answer=41))
    room.work()

    assert outcomes(room) == {"a": "passed", "b": "failed"}
    assert room.store.last_seq() == 1, "rows, results and offset are one commit"
    assert room.store.offset == room.log.end


def test_an_evaluation_names_the_process_also_without_spans(room: WorkerRoom) -> None:
    tags = {"service.name": "desk", "service.version": "2", "deployment.environment.name": "eu"}
    room.records(record("a", "right", answer=42) | {"tags": tags})
    room.work()

    row = room.evaluations()["a"]
    assert (row.service_name, row.service_version, row.environment) == ("desk", "2", "eu")


@pytest.mark.parametrize("is_split", [False, True])
def test_a_record_waits_until_its_stamped_trace_is_complete(
    room: WorkerRoom, is_split: bool
) -> None:
    root = span(1, 0, attributes={PROCESS_SPAN_COUNT: 2}, resource=STAMP)
    child = span(1, 1, 0, resource=STAMP)
    room.records(record("a", "two", 1))
    if is_split:
        room.spans(root)
        room.pass_s(20)
        assert outcomes(room) == {}, "one of two stamped spans came: silence says nothing"
        room.spans(child)
    else:
        room.spans(root, child)
    room.work()
    assert outcomes(room) == {}, "it settles first"
    room.pass_s(1.5)

    row = room.evaluations()["a"]
    assert (row.outcome, row.completeness) == (Outcome.PASSED, Completeness.COMPLETE)
    assert row.service_name == "desk"


def test_a_record_behind_its_spans_is_judged_like_one_before_them(room: WorkerRoom) -> None:
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.spans(span(1, 1, 0, resource=STAMP))
    room.pass_s(20)
    assert room.worker.waiting == 0
    room.records(record("a", "two", 1))
    room.pass_s(1.5)

    assert outcomes(room) == {"a": "passed"}


def test_a_trace_that_lacks_a_span_waits_until_the_deadline(room: WorkerRoom) -> None:
    room.records(record("a", "two", 1))
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.pass_s(29)
    assert outcomes(room) == {}
    room.pass_s(2)

    row = room.evaluations()["a"]
    assert (row.outcome, row.completeness) == (Outcome.ERRORED, Completeness.DEADLINE)


def test_a_record_without_any_span_is_judged_once_it_is_quiet(room: WorkerRoom) -> None:
    room.records(record("a", "two", 1))
    room.pass_s(9)
    assert outcomes(room) == {}
    room.pass_s(2)

    assert room.evaluations()["a"].completeness is Completeness.QUIET


def test_of_two_spans_with_one_key_the_better_one_counts(room: WorkerRoom) -> None:
    room.spans(span(1, 0, name="long", end_ns=20), span(1, 1, 0))
    room.work()
    for again in (span(1, 0, name="short", end_ns=10), span(1, 0, name="longest", end_ns=30)):
        room.spans(again)
        room.work()
    room.spans(span(1, 0, name="longest", end_ns=30), span(1, 0, name="short", end_ns=10))
    room.work()

    trace = room.store.trace(SPACE, trace_id(1), 9)
    assert sorted(each.name for each in trace.spans) == ["longest", "step"]
    assert room.count("spans") == 2
    sheet = room.store.conservation(SPACE).spans
    assert (sheet.accepted, sheet.stored, sheet.duplicates) == (2, 2, 4)


def test_a_record_that_comes_again_counts_as_a_duplicate_or_a_conflict(room: WorkerRoom) -> None:
    first, other = record("a", "right", answer=42), record("a", "right", answer=1)
    room.records(first, first, other)
    room.work()
    room.records(first, other)
    room.work()

    assert outcomes(room) == {"a": "passed"}
    sheet = room.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.duplicates) == (1, 2)
    assert set(room.letters()) == {("conflict", "a")}


def test_a_late_span_of_a_watched_trace_is_judged_once_more(room: WorkerRoom) -> None:
    room.spans(span(1, 0, attributes=AGENT), span(1, 1, 0), space="seen")
    room.pass_s(5)
    assert list(outcomes(room, "seen").values()) == ["passed"]
    room.spans(span(1, 2, 0, attributes=AGENT), space="seen")
    room.pass_s(40)

    assert list(outcomes(room, "seen").values()) == ["failed"], "it has three spans now"
    assert room.count("evaluations") == 2
    assert room.store.conservation("seen").spans.late == 0
    assert (room.worker.waiting, room.worker.watched) == (0, 0)


def test_a_watched_trace_is_judged_once(room: WorkerRoom) -> None:
    room.spans(span(1, 0), span(1, 1, 0, attributes=AGENT), space="seen")
    room.spans(span(2, 0), span(2, 1, 0), space="seen")
    room.pass_s(3.5)
    assert outcomes(room, "seen") == {}, "other SDKs do not say how many spans there are"
    room.pass_s(1)

    uid = derived_uid(trace_id(1), "desk")
    assert outcomes(room, "seen") == {uid: "passed"}
    found = room.store.record_history("seen", uid)
    assert found is not None
    assert found.record.tags == {"service.name": "desk"}
    sheet = room.store.conservation("seen").records
    assert (sheet.accepted, sheet.derived, sheet.waiting) == (1, 1, 0)


def test_a_sent_record_takes_the_place_of_a_derived_one(room: WorkerRoom) -> None:
    room.spans(span(1, 0, attributes=AGENT), span(1, 1, 0), space="seen")
    room.records(record("sent", "desk", 1), space="seen")
    room.pass_s(5)

    assert outcomes(room, "seen") == {"sent": "passed"}


def test_a_record_of_an_unknown_profile_waits_for_it(room: WorkerRoom) -> None:
    room.records(record("a", "later", answer=42), record("b", "never", answer=42))
    room.pass_s(20)
    later = AgentEvalProfile([AssertionTask("x", "answer", 42, Op.Equals)], alias="later")
    room.registry.register(SPACE, later, activate=True)
    room.worker.profiles_changed()
    room.work()
    assert outcomes(room) == {"a": "passed"}
    room.pass_s(11)

    assert room.letters() == [("unknown_profile", "b")]
    sheet = room.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.evaluated, sheet.dead_lettered) == (2, 1, 1)


def test_those_of_an_unknown_profile_hold_up_nobody(room: WorkerRoom) -> None:
    """Neither those that come meanwhile, nor each other."""
    uids = [f"{number:02}" for number in range(8)]
    for number, uid in enumerate(uids):
        room.records(record(f"x{uid}", "never", number), record(f"u{uid}", "two", number))
        room.spans(span(number, 0), span(number, 1, 0))
        room.pass_s(5)
        assert outcomes(room)[f"u{uid}"] == "passed"
    room.pass_s(30)

    assert room.letters() == [("unknown_profile", f"x{uid}") for uid in uids]
    assert room.worker.waiting == 0


def test_what_cannot_be_used_is_a_letter_and_costs_its_neighbours_nothing(room: WorkerRoom) -> None:
    message = encode_request([span(1, 0), span(1, 1, 0)])
    message.resource_spans[1].scope_spans[0].spans[0].span_id = b"short"
    room.append(Kind.SPANS, message.SerializeToString())
    room.append(Kind.SPANS, b"no request at all")
    room.append(Kind.RECORDS, json.dumps({"records": [{"uid": "x"}]}).encode())
    room.append(Kind.RECORDS, b"{")
    room.records(record("a", "right", answer=42))
    room.work()

    assert [reason for reason, _ in room.letters()] == [
        "invalid_message", "invalid_message", "invalid_record", "invalid_span",
    ]  # fmt: skip
    assert len(stored_span_ids(room, 1)) == 1
    assert outcomes(room) == {"a": "passed"}


def test_a_start_finds_what_waits(room: WorkerRoom) -> None:
    room.records(record("early", "two", 1), record("unknown", "never", answer=1))
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.spans(span(2, 0, attributes=AGENT), space="seen")
    room.work()
    room.close()
    room.open()
    room.work()
    assert (room.worker.waiting, room.worker.watched) == (2, 1)
    room.spans(span(1, 1, 0, resource=STAMP), span(1, 0, resource=STAMP))
    room.spans(span(2, 1, 0), span(2, 0, attributes=AGENT), space="seen")
    room.pass_s(5)
    assert outcomes(room) == {"early": "passed"}
    assert outcomes(room, "seen") == {derived_uid(trace_id(2), "desk"): "passed"}
    room.pass_s(30)

    assert room.letters() == [("unknown_profile", "unknown")]
    assert room.worker.waiting == 0
    assert room.store.low_seq >= room.store.last_seq(), "a next start has nothing to read"


def test_a_start_finds_a_watched_trace_of_which_another_record_was_judged(
    room: WorkerRoom,
) -> None:
    room.spans(span(1, 0, attributes=AGENT), span(1, 1, 0), space="seen")
    room.work()
    room.records(record("sent", "right", 1, answer=42), space="seen")
    room.work()
    assert outcomes(room, "seen") == {"sent": "passed"}
    room.close()
    room.open()
    room.pass_s(5)

    uid = derived_uid(trace_id(1), "desk")
    assert outcomes(room, "seen") == {"sent": "passed", uid: "passed"}


def test_what_was_decided_is_not_found_by_a_start(room: WorkerRoom) -> None:
    room.records(record("a", "two", 1), record("b", "right", answer=42))
    room.spans(span(1, 0), span(1, 1, 0))
    room.spans(span(2, 0, attributes=AGENT), span(2, 1, 0), space="seen")
    room.pass_s(5)
    before = room.count("evaluations")
    room.close()
    room.open()
    room.pass_s(40)

    assert (before, room.count("evaluations")) == (3, 3)


def test_a_store_that_takes_nothing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, nothing is judged twice, and no record's time passes meanwhile."""
    monkeypatch.setattr(committer, "RETRY_S", 0.01)
    room = WorkerRoom(tmp_path, {SPACE: [RIGHT, TWO]}, TIMES, store=FullStore)
    store = room.store
    assert isinstance(store, FullStore)
    room.records(record("a", "two", 1), record("b", "right", answer=42))
    room.work()
    store.is_full = True
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.records(record("c", "right", answer=42))
    room.worker.turn(0.0)
    wait_until(lambda: room.worker.trouble, what="the worker says what is wrong")
    room.now_ns += 100 * SECOND_NS
    assert set(outcomes(room)) == {"b"}
    store.is_full = False
    room.spans(span(1, 1, 0, resource=STAMP))
    room.pass_s(2)

    assert outcomes(room) == {"a": "passed", "b": "passed", "c": "passed"}
    assert room.evaluations()["a"].completeness is Completeness.COMPLETE
    assert (room.count("evaluations"), room.worker.trouble) == (3, "")
    room.close()


def test_time_stands_still_while_the_log_is_unread(room: WorkerRoom) -> None:
    """The time of a record must not be over while its spans lie unread in the log."""
    room.records(record("a", "two", 1))
    room.work()
    room.now_ns += 100 * SECOND_NS  # nobody reads meanwhile
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.spans(span(1, 1, 0, resource=STAMP))
    room.pass_s(2)

    assert outcomes(room) == {"a": "passed"}


def test_what_is_erased_is_not_judged_and_does_not_come_back(room: WorkerRoom) -> None:
    mine = [record("gone", "two", 1), record("unknown", "never"), record("left", "two", 2)]
    room.records(*mine)
    room.spans(span(1, 0, resource=STAMP, attributes={PROCESS_SPAN_COUNT: 2}))
    room.spans(span(3, 0, attributes=AGENT), span(3, 1, 0), space="seen")
    room.work()
    done = [
        room.worker.erase(EraseTarget(space=SPACE, record_uid="gone")),
        room.worker.erase(EraseTarget(space=SPACE, record_uid="unknown")),
        room.worker.erase(EraseTarget(space="seen", trace_id=trace_id(3))),
    ]
    room.work()
    assert [len(each.result(120).uids) for each in done] == [1, 1, 0]
    room.records(*mine)
    room.spans(span(3, 0, attributes=AGENT), space="seen")
    room.pass_s(40)

    assert set(outcomes(room)) == {"left"}
    assert (outcomes(room, "seen"), room.letters()) == ({}, [])
    assert room.worker.waiting == 0
    assert room.count("spans") == 0


def test_a_record_of_another_space_waits_for_one_turn(room: WorkerRoom) -> None:
    room.records(*(record(f"r{n}", "two", n) for n in range(3_000)))
    room.work()
    room.pass_s(9.5)
    assert outcomes(room) == {}
    room.now_ns += SECOND_NS
    room.records(record("mine", "right", answer=42), space="other")
    turns = 0
    while not outcomes(room, "other"):
        room.worker.turn(0.0)
        turns += 1

    assert turns <= 3
    room.work()
    assert len(outcomes(room)) == 3_000
