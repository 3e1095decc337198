"""Entries of the log, item by item, and what a commit holds of them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.items.drop_reports import pack_dropped
from collector.items.letters import make_letter, pack_letter
from collector.items.limits import Limits
from collector.log.port import Entry, Item, Kind
from collector.metrics import TotalKey, TotalName
from collector.store.bodies import best_spans, compress
from collector.store.commit import Commit
from collector.store.file_store import FileStore
from collector.store.letters import LetterKind
from collector.store.store import Store
from collector.worker.prepare import Prepared
from collector.worker.take import Contents, read_entry, trace_body
from scouter.model.otlp import decode_request, encode_request
from scouter.model.span import NO_SCOPE, Resource, Scope, Span
from scouter.transport.drops import Count as Drops
from tests.support.worker_room import SPACE, record, registry_of, span, trace_id

REGISTRY: Final = registry_of({})
LIMITS: Final = Limits()
DESK, SHOP = Resource(attributes={"service.name": "desk"}), Resource(attributes={"a": (1, "b")})
SPANS: Final = [
    replace(
        span(number % 3, number, name=f"n{number}", attributes={"text": "é" * number, "n": number}),
        resource=(DESK, SHOP)[number % 2],
        scope=(NO_SCOPE, Scope(name="one"), Scope(name="two", version="2"))[number % 3],
    )
    for number in range(12)
]


def taken(
    kind: Kind, body: bytes, offset: int = 0, source: str = "http", limits: Limits = LIMITS
) -> Contents:
    item = Item(kind=kind, space=SPACE, received_ns=7, body=body, source=source)
    return read_entry(Entry(offset, offset + len(body), item), REGISTRY, limits)


def request(spans: Iterable[Span]) -> bytes:
    return encode_request(spans).SerializeToString()


def by_id(spans: Iterable[Span]) -> dict[str, Span]:
    return {each.span_id: each for each in spans}


def unusual(body: bytes) -> bytes:
    """The same with a field in each resource that no version of OTLP has."""
    message = ExportTraceServiceRequest.FromString(body)
    for group in message.resource_spans:
        group.MergeFromString(b"\xfa\x3e\x01x")  # number 1007, a text
    return message.SerializeToString()


@pytest.mark.parametrize("is_unusual", [False, True])
def test_the_body_of_a_trace_has_its_spans_and_no_others(is_unusual: bool) -> None:
    body = request(SPANS)
    found = taken(Kind.SPANS, unusual(body) if is_unusual else body).spans
    assert len(found) == len(SPANS)
    for trace in range(3):
        own = [each for each in found if each.span.trace_id == trace_id(trace)]
        message = trace_body(own)
        assert by_id(best_spans([compress(message)])) == by_id(
            each for each in SPANS if each.trace_id == trace_id(trace)
        )
        assert by_id(decode_request(ExportTraceServiceRequest.FromString(message)).spans)


def test_a_text_that_is_no_text_costs_one_span_a_character() -> None:
    """A request that cannot be parsed as a whole is split until it can."""
    body = request(SPANS).replace("é".encode() * 11, b"\xff" + b"e" * 21)
    found = taken(Kind.SPANS, body)
    texts = {each.span.name: str(each.span.attributes["text"]) for each in found.spans}
    assert (len(texts), found.letters) == (12, [])
    assert texts["n11"] == "\ufffd" + "e" * 21
    assert texts["n10"] == "é" * 10


def test_logs_are_records_and_events() -> None:
    message = ExportLogsServiceRequest()
    logs = message.resource_logs.add().scope_logs.add().log_records
    sent = logs.add(event_name="scouter.eval_record", time_unix_nano=5)
    sent.body.string_value = json.dumps(record("r", "right", answer=42))
    event = logs.add(event_name="gen_ai.user.message", time_unix_nano=6)
    event.trace_id, event.span_id = bytes.fromhex(trace_id(1)), bytes.fromhex(f"{2:016x}")
    logs.add(event_name="something.else")
    broken = logs.add(event_name="scouter.eval_record")
    broken.body.string_value = "[]"
    found = taken(Kind.LOGS, message.SerializeToString())

    assert [(each.uid, each.created_ns) for each in found.records] == [("r", 5)]
    assert [(each.span.name, each.span.parent_span_id) for each in found.spans] == [
        ("gen_ai.user.message", f"{2:016x}")
    ]
    assert [each.reason for each in found.letters] == ["invalid_record"]


def test_a_single_record_is_one_as_in_a_list() -> None:
    said = record("r", "right", answer=42)
    (alone,) = taken(Kind.RECORD, json.dumps(said).encode()).records
    (listed,) = taken(Kind.RECORDS, json.dumps({"records": [said]}).encode()).records
    assert alone == listed


def test_letters_name_where_their_item_came_from() -> None:
    """What a receiver refused is stored as it refused it; what is refused here gets its source."""
    made = make_letter(
        SPACE,
        LetterKind.SPAN,
        "invalid_span",
        "half a \ud800",
        "http",
        b"\n{\n",
        7,
        uid=trace_id(3),
    )
    assert taken(Kind.LETTER, pack_letter(made)).letters == [made]
    (found,) = taken(Kind.RECORD, b"{", source="kafka:records:0:5").letters
    assert (found.kind, found.reason) == (LetterKind.RECORDS_MESSAGE, "invalid_message")
    assert (found.source, found.payload) == ("kafka:records:0:5", b"{")


def test_drops_are_read_as_they_were_reported() -> None:
    dropped = {("a", "full"): Drops(3, 5), ("", "other"): Drops(0, 1)}
    assert taken(Kind.DROPS, pack_dropped(dropped)).dropped == dropped


@pytest.mark.parametrize("kind", [Kind.LETTER, Kind.DROPS])
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"[[1]]", b'["x", "", "", ""]'])
def test_what_no_receiver_writes_is_a_letter(kind: Kind, body: bytes) -> None:
    found = taken(kind, body)
    assert [(each.reason, each.payload) for each in found.letters] == [("invalid_message", body)]


def test_limits_are_those_of_the_collector() -> None:
    """A message that no receiver has looked at is refused as a whole, and a large record alone."""
    found = taken(Kind.SPANS, request(SPANS), limits=Limits(max_items=11))
    assert [each.reason for each in found.letters] == ["invalid_message"]
    said = {"records": [record("r", "right", text="x" * 500), record("s", "right", answer=42)]}
    found = taken(Kind.RECORDS, json.dumps(said).encode(), limits=Limits(max_item=400))
    assert [each.uid for each in found.records] == ["s"]
    assert [each.reason for each in found.letters] == ["invalid_record"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that has nothing."""
    opened = FileStore(tmp_path / "data")
    yield opened
    opened.close()


def test_what_is_on_its_way_into_the_store_is_known(store: Store) -> None:
    """The commit before may be there, or not yet: the next one is the same."""
    records = json.dumps({"records": [record("r", "right", answer=42)]}).encode()
    first, second = Prepared(), Prepared()
    first.add(taken(Kind.SPANS, request(SPANS)))
    first.add(taken(Kind.RECORDS, records))
    first.settle(store, None)
    better = replace(SPANS[0], end_ns=SPANS[0].end_ns + 1)
    second.add(taken(Kind.SPANS, request([*SPANS[1:3], better, span(1, 99)])))
    second.add(taken(Kind.RECORDS, records))
    second.settle(store, first)
    commit = Commit(offset=0, low_seq=0)
    second.fill(commit)

    assert [(row.span_id, row.end_ns) for row in commit.spans] == [
        (better.span_id, better.end_ns), (f"{100:016x}", 9),
    ]  # fmt: skip
    assert [each.span_id for each in commit.replaced] == [better.span_id]
    assert (commit.records, commit.letters) == ([], [])
    assert commit.totals == {
        TotalKey(TotalName.DUPLICATES, SPACE, label="span"): 3,
        TotalKey(TotalName.DUPLICATES, SPACE, label="record"): 1,
    }
    assert second.by_space[SPACE].known.keys() >= {trace_id(0), trace_id(1)}


def test_of_versions_in_one_commit_the_best_is_stored(store: Store) -> None:
    prepared, commit = Prepared(), Commit(offset=0, low_seq=0)
    for end_ns in (5, 9, 7):
        prepared.add(taken(Kind.SPANS, request([replace(SPANS[0], end_ns=end_ns)])))
    prepared.settle(store, None)
    prepared.fill(commit)

    assert [row.end_ns for row in commit.spans] == [9]
    (body,) = commit.bodies
    assert [each.end_ns for each in best_spans([compress(body.body)])] == [9]
    assert (body.spans, commit.replaced) == (1, [])
