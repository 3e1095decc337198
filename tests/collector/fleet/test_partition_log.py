"""A partition of the log, as its owner sees it."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.fleet.message import headers_of
from collector.fleet.partition_log import PartitionLog
from collector.items.drop_reports import unpack_dropped
from collector.items.letters import UNREADABLE, unpack_letter
from collector.log.port import Entry, Item, Kind
from collector.metrics import OVERTAKEN
from collector.receivers.kafka.intake import UnreadableBatch
from collector.receivers.kafka.settings import KafkaSettings
from collector.store.file_store import FileStore
from collector.worker.open_trace import JoinTimes
from collector.worker.worker import Worker
from scouter.errors import TransientError
from scouter.model.otlp import encode_request
from scouter.transport.drops import Count
from tests.support.worker_room import registry_of, span

SETTINGS: Final = KafkaSettings(servers=("nowhere:1",), group="g", topic="work", space="shop")
_SECOND_NS: Final = 10**9


@dataclass
class Elsewhere:
    """Where things are appended; a test says when they are there."""

    partitions: int = 4
    topic_id: str = "topic"
    items: list[Item] = field(default_factory=list[Item])
    futures: "list[Future[int]]" = field(default_factory=list["Future[int]"])

    def append(self, item: Item) -> "Future[int]":
        future: Future[int] = Future()
        self.items.append(item)
        self.futures.append(future)
        return future


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ns(self) -> int:
        return int(self.seconds * _SECOND_NS)

    def __call__(self) -> float:
        return self.seconds


def log_of(begin: int = 0, end: int = 0, **more: Any) -> PartitionLog:
    return PartitionLog(3, SETTINGS, more.pop("there", Elsewhere()), begin, end, **more)


def message(offset: int, value: bytes = b"[]", headers: object = ()) -> Any:
    ours = headers_of(Item(Kind.DROPS, "shop", 5, value, "http"), 4)
    return SimpleNamespace(
        topic="work", partition=3, offset=offset, value=value, key=None,
        headers=ours if headers == () else headers,
    )  # fmt: skip


def messages(*offsets: int) -> list[Any]:
    return [message(each, json.dumps(each).encode()) for each in offsets]


def bodies(entries: Sequence[Entry]) -> list[object]:
    return [json.loads(bytes(each.item.body)) for each in entries]


def lost_in(entry: Entry) -> dict[tuple[str, str], Count]:
    return dict(unpack_dropped(bytes(entry.item.body)))


# --- reading ------------------------------------------------------------------------------------


def test_messages_are_read_at_their_offsets_and_again_until_they_are_stored() -> None:
    log = log_of(5, 8)
    assert log.start(None) == 5
    assert (log.begin, log.end) == (5, 8)
    assert not log.wait(0, 0)
    log.put(messages(5, 6, 7), 0)
    assert log.wait(0, 0)
    chunk = log.read(0, 10**6)
    assert bodies(chunk.entries) == [5, 6, 7]
    assert [(each.offset, each.next) for each in chunk.entries] == [(5, 6), (6, 7), (7, 8)]
    assert (chunk.next, chunk.damaged, log.wait(8, 0)) == (8, (), False)
    assert bodies(log.read(6, 10**6).entries) == [6, 7]
    log.trim(7)
    assert (log.begin, log.stored) == (7, 7)
    assert bodies(log.read(7, 10**6).entries) == [7]
    with pytest.raises(TransientError, match="before 7"):
        log.read(6, 10**6)


def test_a_chunk_has_one_entry_at_least_and_no_more_than_requested() -> None:
    log = log_of()
    log.start(None)
    log.put([message(each, b" " * 1_000 + b"[]") for each in range(5)], 0)
    assert len(log.read(0, 1).entries) == 1
    assert len(log.read(0, 2 * log.size_bytes // 5).entries) == 2


def test_room_comes_back_as_the_store_has_things() -> None:
    log = log_of(buffer_bytes=3_000)
    log.start(None)
    log.put(messages(0, 1, 2), 0)
    assert not log.is_full
    log.put([message(3, b" " * 2_000)], 0)
    assert log.is_full
    log.read(0, 10**6)
    assert log.is_full
    log.trim(2)
    assert log.is_full
    log.trim(4)
    assert not log.is_full
    assert log.size_bytes == 0


def test_who_waits_is_woken_by_a_message_and_by_the_end() -> None:
    log = log_of()
    log.start(None)
    found: list[bool] = []
    for wake in (lambda: log.put(messages(0), 0), log.close):
        waiting = threading.Thread(target=lambda: found.append(log.wait(len(found), 60)))
        waiting.start()
        wake()
        waiting.join(120)
    assert found == [True, False]


# --- offsets without messages -------------------------------------------------------------------


def test_what_was_deleted_before_it_was_read_is_counted() -> None:
    """Twice read it is counted once: the sender of the count names the place."""
    log = log_of()
    log.start(10)
    log.put(messages(15, 16), 15)
    first, *rest = log.read(10, 10**6).entries
    assert (first.offset, first.next, first.item.kind) == (10, 15, Kind.DROPS)
    assert lost_in(first) == {("kafka:g:work-3:10", OVERTAKEN): Count(0, 5)}
    assert bodies(rest) == [15, 16]


def test_a_partition_never_read_has_lost_nothing() -> None:
    log = log_of(7, 9)
    log.start(None)
    log.put(messages(7, 8), 7)
    assert bodies(log.read(0, 10**6).entries) == [7, 8]


def test_offsets_that_never_had_a_message_are_passed() -> None:
    """Marks of transactions, and what compaction took."""
    log = log_of()
    log.start(10)
    log.put(messages(12), 3)
    chunk = log.read(10, 10**6)
    assert (bodies(chunk.entries), chunk.next) == ([12], 13)
    log.pass_to(15, 3)
    assert log.wait(13, 0)
    chunk = log.read(13, 10**6)
    assert (chunk.entries, chunk.next) == ([], 15)
    log.trim(15)
    assert (log.begin, log.size_bytes) == (log.end, 0)


def test_some_lost_and_some_that_never_were() -> None:
    log = log_of()
    log.start(10)
    log.pass_to(20, 14)
    (entry,) = log.read(10, 10**6).entries
    assert (entry.next, lost_in(entry)) == (
        14, {("kafka:g:work-3:10", OVERTAKEN): Count(0, 4)}
    )  # fmt: skip
    assert log.read(14, 10**6).next == 20


ACTIONS: Final = st.sampled_from(["put", "pass", "read", "trim"])
STEPS: Final = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), ACTIONS), max_size=30)


@given(steps=STEPS, start=st.integers(0, 5))
def test_each_offset_is_an_entry_a_loss_or_nothing_once(
    steps: list[tuple[int, int, str]], start: int
) -> None:
    """Whatever jumps there are, and however often a worker begins anew at what is stored."""
    log, at, stored, read_at = log_of(), start, start, start
    log.start(start)
    sent: list[int] = []
    lost: list[int] = []
    seen: dict[int, object] = {}
    for gap, deleted, step in steps:
        if step in {"put", "pass"}:
            offset, first = at + gap, at + min(gap, deleted)
            lost += range(at, first)
            if step == "put":
                log.put(messages(offset), first)
                sent.append(offset)
                at = offset + 1
            else:
                log.pass_to(offset, first)
                at = offset
        elif step == "read":
            chunk = log.read(read_at, 700)
            for entry in chunk.entries:
                seen[entry.offset] = entry
            assert read_at <= chunk.next <= at
            read_at = chunk.next
        else:
            stored = read_at if gap % 2 else stored
            log.trim(stored)
            read_at = stored
    while (chunk := log.read(read_at, 700)).next > read_at:
        seen.update((entry.offset, entry) for entry in chunk.entries)
        read_at = chunk.next
    assert read_at == at
    found: list[int] = []
    counted: list[int] = []
    for entry in seen.values():
        assert isinstance(entry, Entry)
        value = json.loads(bytes(entry.item.body))
        if isinstance(value, int):
            assert value == entry.offset
            found.append(value)
        else:
            ((_, count),) = lost_in(entry).items()
            counted += range(entry.offset, entry.offset + count.total)
    assert (sorted(found), sorted(counted)) == (sent, lost)


# --- messages of others -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "kind", "source"),
    [
        pytest.param(None, Kind.SPANS, "kafka:work:3:0", id="none"),
        pytest.param([("other", None)], Kind.SPANS, "kafka:work:3:0", id="others"),
        pytest.param([("scouter-kind", b"record")], Kind.RECORD, "kafka:work:3:0", id="kind"),
        pytest.param([("scouter-kind", b"?")], Kind.SPANS, "kafka:work:3:0", id="odd"),
        pytest.param(
            headers_of(Item(Kind.LOGS, "shop", 5, b"", "http"), 5), Kind.LOGS, "http", id="parts"
        ),
    ],
)
def test_messages_of_others_are_appended_where_they_belong(
    headers: object, kind: Kind, source: str
) -> None:
    """Their offset is not passed before the brokers have them again."""
    there = Elsewhere()
    log = log_of(there=there)
    log.start(None)
    log.put([message(0, b"body", headers), *messages(1)], 0)
    (item,) = there.items
    assert (item.kind, item.body, item.space, item.source) == (kind, b"body", "shop", source)
    assert not log.wait(0, 0)
    assert (log.read(0, 10**6).entries, log.read(0, 10**6).next) == ([], 0)
    there.futures[0].set_exception(TransientError("not now"))
    log.append_again()
    assert not log.wait(0, 0)
    log.append_again()
    assert len(there.items) == 2
    there.futures[1].set_result(0)
    assert log.wait(0, 0)
    log.append_again()
    assert len(there.items) == 2
    chunk = log.read(0, 10**6)
    assert (bodies(chunk.entries), chunk.next) == ([1], 2)


def test_a_batch_that_cannot_be_read_is_a_letter() -> None:
    log = log_of()
    log.start(None)
    value = UnreadableBatch(b"batch")
    value.why, value.first_offset = "the checksum is wrong", 2
    log.put([message(4, value, [])], 0)
    (entry,) = log.read(0, 10**6).entries
    letter = unpack_letter(bytes(entry.item.body), "shop", entry.item.source, 5)
    assert (letter.reason, letter.message) == (UNREADABLE, "the checksum is wrong")
    assert (letter.payload, letter.source) == (b"batch", "kafka:work:3:4")
    assert (entry.offset, entry.next) == (4, 5)


# --- lag ----------------------------------------------------------------------------------------


def test_what_was_not_read_is_behind() -> None:
    clock = Clock()
    log = log_of(0, 4, clock=clock, now_ns=clock.now_ns)
    assert log.brokers.behind_ns() > 0
    log.start(None)
    log.report(4)
    clock.seconds += 5
    log.report(4)
    assert log.brokers.behind_ns() >= 5 * _SECOND_NS
    log.put(messages(0, 1, 2, 3), 0)
    log.report(4)
    assert log.brokers.behind_ns() == 0
    clock.seconds += 3
    assert log.brokers.behind_ns() == 3 * _SECOND_NS


def test_what_is_not_where_it_belongs_is_behind() -> None:
    """Its spans are read by nobody yet."""
    clock, there = Clock(), Elsewhere()
    log = log_of(0, 1, there=there, clock=clock, now_ns=clock.now_ns)
    log.start(None)
    log.put([message(0, b"body", None)], 0)
    clock.seconds += 5
    log.report(1)
    assert log.brokers.behind_ns() > 0
    there.futures[0].set_result(0)
    log.report(1)
    assert log.brokers.behind_ns() == 0


def test_a_worker_notes_nothing_while_messages_are_on_their_way(tmp_path: Path) -> None:
    """What it notes counts against the message: three times, and it would be put aside."""
    log = log_of(7, 9)
    store = FileStore(tmp_path)
    worker = Worker(log, store, registry_of({}), JoinTimes(), brokers=log.brokers)
    try:
        for _ in range(5):
            assert not worker.turn(0.0)
        assert store.read("SELECT count(*) FROM begun") == [(0,)]
        log.start(None)
        spans = encode_request([span(0, 1), span(0, 2)]).SerializeToString()
        ours = [headers_of(Item(kind, "shop", 5, b""), 4) for kind in (Kind.SPANS, Kind.DROPS)]
        log.put([message(7, spans, ours[0]), message(8, b"[]", ours[1])], 0)
        while store.offset < 9:
            worker.turn(0.0)
        assert store.read("SELECT count(*) FROM spans") == [(2,)]
        assert store.read("SELECT count(*) FROM dead_letters") == [(0,)]
        assert (log.stored, log.size_bytes) == (9, 0)
    finally:
        worker.stop()
        store.close()


def test_the_end_is_what_brokers_or_messages_say() -> None:
    log = log_of(0, 2)
    log.start(None)
    log.report(9)
    assert log.end == 9
    log.put(messages(*range(12)), 0)
    log.report(11)
    assert log.end == 12
