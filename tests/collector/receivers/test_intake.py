"""The way in over a real log, and what the worker makes of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.items.limits import Limits, TooLargeError
from collector.items.record_items import check_record
from collector.items.traces import check_protobuf, decode_protobuf
from collector.log.brokers import Brokers
from collector.log.port import Entry, Kind
from collector.metrics import TotalName
from collector.receivers.budget import FullError
from collector.receivers.in_process import in_process_sink
from collector.receivers.intake import Delivery, Intake, Outcome, Taken
from collector.receivers.known_records import KnownRecords
from scouter.errors import DataError, TransientError
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Resource
from scouter.transport.drops import NOBODY, Count
from scouter.transport.in_process import Batch
from tests.support.examples import examples
from tests.support.otlp import deep_attribute, logs_request, spans_request
from tests.support.small_disk import small_disk
from tests.support.worker_room import SPACE, WorkerRoom, record, span, stored_span_ids, trace_id

DESK: Final = Resource(attributes={"service.name": "desk"})
SPANS: Final = [
    replace(span(0, number, attributes={"n": number}), resource=DESK) for number in range(3)
]
IDS: Final = [each.span_id for each in SPANS]


class Room:
    """A worker's room with a way in."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.room = WorkerRoom(folder, {})
        self.brokers = Brokers()
        self.way = Intake(
            self.room.log, self.room.store, folder,
            space=SPACE, brokers=self.brokers, now_ns=lambda: self.room.now_ns, **given,
        )  # fmt: skip

    def outcome(self, taken: Taken) -> Outcome:
        """What a sender would get, and then all work done."""
        wait(taken.futures)
        found = taken.outcome
        self.room.work()
        return found

    def entries(self) -> Sequence[Entry]:
        """Everything in the log."""
        return self.room.log.read(self.room.log.begin, 2**30).entries

    def letters(self) -> list[tuple[str, str, str]]:
        """Reason, uid and source of each dead letter."""
        sql = "SELECT reason, uid, source FROM dead_letters ORDER BY reason, uid, source"
        return [(reason, uid, source) for reason, uid, source in self.room.store.read(sql)]

    def dropped(self) -> int:
        """Drops that were counted."""
        totals = self.room.store.totals()
        return sum(n for key, n in totals.items() if key.name == TotalName.DROPPED)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.room.close()


def wait(futures: "Sequence[Future[Any]]") -> None:
    """Wait until all is durable."""
    for future in futures:
        future.result(120)


def request(number: int | None = None) -> ExportTraceServiceRequest:
    """Three spans; one of them may have an id that is too short."""
    found = encode_request(SPANS)
    if number is not None:
        found.resource_spans[0].scope_spans[0].spans[number].span_id = b"short"
    return found


# --- traces -----------------------------------------------------------------------------------


def test_a_request_is_one_item_as_it_came(here: Room) -> None:
    data = request().SerializeToString()
    assert here.outcome(here.way.traces(data, "http")) == Outcome()
    (entry,) = here.entries()
    item = entry.item
    assert (item.kind, item.space, item.body, item.source) == (Kind.SPANS, SPACE, data, "http")
    assert stored_span_ids(here.room, 0) == IDS


def test_json_is_the_same_spans(here: Room) -> None:
    text = json.dumps(spans_to_otlp_json(SPANS)).encode()
    assert here.outcome(here.way.traces(text, "http", is_json=True)) == Outcome()
    assert list(here.room.store.trace(SPACE, trace_id(0), 100).spans) == SPANS


@pytest.mark.parametrize("is_json", [False, True])
def test_a_refused_span_is_named_at_once_and_becomes_a_letter(here: Room, is_json: bool) -> None:
    data = request(1).SerializeToString()
    if is_json:
        body: Any = spans_to_otlp_json(SPANS)
        body["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["spanId"] = "xyz"
        data = json.dumps(body).encode()
    (problem,) = here.outcome(here.way.traces(data, "http", is_json=is_json)).problems
    assert "span" in problem.message
    assert stored_span_ids(here.room, 0) == [IDS[0], IDS[2]]
    assert here.letters() == [("invalid_span", trace_id(0), "http")]


def test_what_is_no_request_is_refused_and_not_appended(here: Room) -> None:
    limits = Limits(max_items=2)
    for data, is_json in ((b"\xff\xff", False), (b"[1]", True)):
        with pytest.raises(DataError):
            here.way.traces(data, "http", is_json=is_json)
    with pytest.raises(TooLargeError):
        check_protobuf(request().SerializeToString(), limits)
    assert here.way.traces(b"", "http").futures == ()
    assert here.room.log.end == 0


def good_spans() -> bytes:
    return request().SerializeToString()


def refused_by_the_worker(data: bytes) -> object:
    return decode_protobuf(data).refused


@settings(max_examples=examples(200), deadline=None)
@given(at=st.integers(0, 2000), bits=st.integers(1, 255), depth=st.sampled_from([0, 40, 200]))
def test_the_quick_look_refuses_what_the_worker_refuses(at: int, bits: int, depth: int) -> None:
    """One byte of a real request changed: the same spans for the same reasons."""
    raw = bytearray(good_spans())
    if depth:
        first, *others = (
            each.SerializeToString() for each in request().resource_spans[0].scope_spans[0].spans
        )
        raw = bytearray(spans_request(first + deep_attribute(depth), *others))
    raw[at % len(raw)] ^= bits
    found: list[object] = []
    looks: list[Callable[[bytes], object]] = [check_protobuf, refused_by_the_worker]
    for look in looks:
        try:
            found.append(look(bytes(raw)))
        except DataError as error:
            found.append(str(error))
    assert found[0] == found[1]


# --- records ----------------------------------------------------------------------------------


def records(*items: object) -> bytes:
    return json.dumps({"records": items}).encode()


GOOD: Final[dict[str, Any]] = {**record("u1", "nobody"), "context": {"answer": 42}}


def test_every_record_is_in_one_of_three_counts(here: Room) -> None:
    data = records(
        GOOD,
        record("u2", "nobody") | {"trace_id": "xyz"},
        GOOD,
        {**GOOD, "context": {"answer": 43}},
        "no object",
        record("u3", "nobody"),
    )
    outcome = here.outcome(here.way.records(data, "http"))
    assert (outcome.accepted, outcome.duplicates) == (2, 1)
    assert [(each.index, each.uid, each.reason) for each in outcome.problems] == [
        (1, "", "invalid_record"), (3, "u1", "conflict"), (4, "", "invalid_record"),
    ]  # fmt: skip
    sheet = here.room.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.duplicates) == (2, 1)
    assert [reason for reason, *_ in here.letters()] == [
        "conflict", "invalid_record", "invalid_record",
    ]  # fmt: skip


@pytest.mark.parametrize("is_stored", [False, True])
def test_what_came_before_is_known_in_the_log_and_in_the_store(here: Room, is_stored: bool) -> None:
    wait(here.way.records(records(GOOD), "http").futures)
    if is_stored:
        here.room.work()
        here.way = Intake(
            here.room.log, here.room.store, here.room.folder, space=SPACE, brokers=Brokers()
        )
    outcome = here.way.records(records(GOOD, {**GOOD, "tags": {"a": "b"}}), "http").outcome
    assert (outcome.accepted, outcome.duplicates) == (0, 1)
    assert [each.reason for each in outcome.problems] == ["conflict"]
    assert here.way.in_space("other").records(records(GOOD), "http").outcome.accepted == 1


def test_the_newest_records_are_remembered_and_no_more(here: Room) -> None:
    known = KnownRecords(here.room.store, most=2)
    known.add(SPACE, [check_record({**GOOD, "uid": uid}) for uid in ("a", "b", "c")])
    assert set(known.digests(SPACE, ["a", "b", "c"])) == {"b", "c"}


class NoStore:
    """Cannot be read."""

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        raise TransientError("no memory")


def test_an_answer_does_without_the_store() -> None:
    known = KnownRecords(NoStore())
    known.add(SPACE, [check_record(GOOD)])
    assert set(known.digests(SPACE, ["u1", "u2"])) == {"u1"}


# --- logs -------------------------------------------------------------------------------------


def test_logs_are_records_events_and_letters_in_either_form(tmp_path: Path) -> None:
    bodies: list[object] = [GOOD, "no JSON", 7]
    event = {
        "eventName": "gen_ai.choice", "timeUnixNano": "15", "traceId": trace_id(0),
        "spanId": IDS[0], "body": {"stringValue": "Canberra"},
    }  # fmt: skip
    sent = logs_request(bodies)
    more = logs_request(["Canberra"], event_name="gen_ai.choice", time_ns=15)
    (log,) = more.resource_logs[0].scope_logs[0].log_records
    log.trace_id, log.span_id = bytes.fromhex(trace_id(0)), bytes.fromhex(IDS[0])
    sent.MergeFrom(more)
    sent.MergeFrom(logs_request(["a line"], event_name=""))
    said = [
        {"eventName": "scouter.eval_record", "timeUnixNano": "1700000000000000000",
         "body": {"stringValue": each if isinstance(each, str) else json.dumps(each)}}
        for each in bodies
    ]  # fmt: skip
    text = {"resourceLogs": [{"scopeLogs": [
        {"logRecords": [*said, event, {"body": {"stringValue": "a line"}}, 5]}
    ]}]}  # fmt: skip
    protobuf, json_ = Room(tmp_path / "protobuf"), Room(tmp_path / "json")
    first = protobuf.way.logs(sent.SerializeToString(), "grpc")
    second = json_.way.logs(json.dumps(text).encode(), "http", is_json=True)
    assert (first.ignored, second.ignored) == (1, 1)
    first_outcome, second_outcome = protobuf.outcome(first), json_.outcome(second)
    assert first_outcome.problems[:2] == second_outcome.problems[:2]
    assert (first_outcome.accepted, len(first_outcome.problems)) == (1, 2)
    assert (second_outcome.accepted, len(second_outcome.problems)) == (1, 3)
    for each, letters in ((protobuf, 2), (json_, 3)):
        assert [reason for reason, *_ in each.letters()] == ["invalid_record"] * letters
        assert each.room.count("records") == 1
        (found,) = each.room.store.trace(SPACE, trace_id(0), 100).spans
        assert (found.name, found.parent_span_id) == ("gen_ai.choice", IDS[0])
        each.room.close()


def test_nothing_is_appended_of_logs_that_are_something_else(here: Room) -> None:
    taken = here.way.logs(logs_request(["a line"], event_name="").SerializeToString(), "http")
    assert (taken.ignored, taken.futures, here.room.log.end) == (1, (), 0)


# --- brokers ----------------------------------------------------------------------------------


def test_messages_of_brokers_are_appended_unread(here: Room) -> None:
    here.brokers.add("kafka")
    deliveries = [
        Delivery(kind=Kind.SPANS, data=request(1).SerializeToString(), source="kafka:s:0:1"),
        Delivery(kind=Kind.SPANS, data=b"\xff", source="kafka:s:0:2"),
        Delivery(kind=Kind.RECORD, data=json.dumps(GOOD).encode(), source="kafka:r:0:1"),
        Delivery(kind=Kind.RECORD, data=b"{", source="kafka:r:0:2"),
        Delivery(kind=Kind.RECORDS, data=records(GOOD, 5), source="redis:r:1-0"),
        Delivery(kind=Kind.LOGS, data=b"\xff", source="kafka:l:0:1"),
        Delivery(kind=Kind.SPANS, data=b"batch", source="kafka:s:0:3", unreadable="no codec"),
    ]
    wait(here.way.deliver(deliveries))
    assert all(each.item.is_of_broker and each.item.behind_ns > 0 for each in here.entries())
    here.room.work()
    assert stored_span_ids(here.room, 0) == [IDS[0], IDS[2]]
    assert here.room.count("records") == 1
    assert here.letters() == [
        ("invalid_message", "", "kafka:l:0:1"),
        ("invalid_message", "", "kafka:r:0:2"),
        ("invalid_message", "", "kafka:s:0:2"),
        ("invalid_record", "", "redis:r:1-0"),
        ("invalid_span", trace_id(0), "kafka:s:0:1"),
        ("unreadable_batch", "", "kafka:s:0:3"),
    ]


# --- this process -----------------------------------------------------------------------------


def test_an_agent_of_this_process(here: Room) -> None:
    sink = in_process_sink(here.way)
    drops = {("me", "full"): Count(0, 3)}
    assert sink(Batch(records=[GOOD, {"uid": "u9"}], spans=SPANS, drops=drops)) == 1
    here.room.work()
    assert here.room.count("records") == 1
    assert stored_span_ids(here.room, 0) == IDS
    assert here.letters() == [("invalid_record", "", "in_process")]
    assert here.dropped() == 3


def test_drops_are_counted_once_however_often_they_are_reported(here: Room) -> None:
    """Two reports in one commit, and one after it; one without a sender counts each time."""
    reports = [Count(0, 3), Count(0, 5)], [Count(3, 6)]
    for part, expected in zip(reports, (5 + 2, 6 + 3), strict=True):
        for count in part:
            dropped = {("me", "full"): count, (NOBODY, "full"): Count(0, 1)}
            wait([here.way.take_dropped(dropped)])
        here.room.work()
        assert here.dropped() == expected
    assert here.room.worker.is_idle


# --- reads wait for the worker ------------------------------------------------------------------


def test_a_read_waits_for_what_was_acknowledged_before_it(here: Room) -> None:
    worker = here.room.worker
    assert worker.catch_up(0)
    wait(here.way.traces(good_spans(), "http").futures)
    assert not worker.catch_up(0)
    assert worker.behind_bytes == here.way.behind_bytes == here.room.log.end
    worker.start()
    assert worker.catch_up(120)
    assert stored_span_ids(here.room, 0) == IDS


# --- no room ----------------------------------------------------------------------------------


def test_too_much_that_waits_for_the_worker(tmp_path: Path) -> None:
    here = Room(tmp_path, max_behind=100)
    with here.way.lease():
        wait(here.way.records(records(GOOD), "http").futures)
    assert here.way.behind_bytes == here.room.log.end > 100
    assert here.way.is_full
    with pytest.raises(FullError, match="behind"):
        here.way.lease()
    here.room.work()
    assert not here.way.is_full
    with here.way.lease():
        here.room.close()


def test_memory_of_requests(tmp_path: Path) -> None:
    here = Room(tmp_path, max_in_flight=1000)
    with here.way.lease() as lease:
        lease.take(1000)
        assert here.way.is_full
        with pytest.raises(FullError):
            here.way.lease()
    assert not here.way.is_full
    here.room.close()


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """A twentieth of it is for what was accepted before: here 2 MB of 40."""
    with small_disk(tmp_path / "disk", 40) as disk:
        here = Room(disk.folder / "data")
        with here.way.lease():
            pass
        disk.leave(1_900_000)
        assert here.way.is_full
        with pytest.raises(TransientError, match="Make room") as caught:
            here.way.lease()
        assert not isinstance(caught.value, FullError)
        disk.give_room()
        with here.way.lease():
            here.room.close()


def test_a_log_that_takes_nothing_lets_senders_come_again(here: Room) -> None:
    here.room.log.close()
    (future,) = here.way.traces(good_spans(), "http").futures
    with pytest.raises(TransientError, match="closed"):
        future.result(120)
    outcome = here.way.records(records(GOOD), "http")
    with pytest.raises(TransientError):
        wait(outcome.futures)
    assert here.way.records(records(GOOD), "http").outcome.accepted == 1  # not known by that
