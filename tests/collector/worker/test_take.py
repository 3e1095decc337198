"""Entries of the log, item by item, and what a commit holds of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.log.port import Entry, Item, Kind
from collector.store.bodies import best_spans, compress
from collector.store.commit import Commit, Count, CountName
from collector.store.span_rows import SpanKey
from collector.worker.prepare import Prepared
from collector.worker.take import Contents, read_entry, trace_body
from scouter.model.otlp import decode_request, encode_request
from scouter.model.span import NO_SCOPE, Resource, Scope, Span
from tests.support.worker_room import SPACE, record, registry_of, span, trace_id

REGISTRY: Final = registry_of({})
DESK, SHOP = Resource(attributes={"service.name": "desk"}), Resource(attributes={"a": (1, "b")})
SPANS: Final = [
    replace(
        span(number % 3, number, name=f"n{number}", attributes={"text": "é" * number, "n": number}),
        resource=(DESK, SHOP)[number % 2],
        scope=(NO_SCOPE, Scope(name="one"), Scope(name="two", version="2"))[number % 3],
    )
    for number in range(12)
]


def taken(kind: Kind, body: bytes, offset: int = 0) -> Contents:
    item = Item(kind=kind, space=SPACE, received_ns=7, body=body)
    return read_entry(Entry(offset, offset + len(body), item), REGISTRY)


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


class NothingStored:
    """A store that has nothing."""

    def stored_spans(
        self, space: str, trace_ids: Iterable[str]
    ) -> Mapping[str, Mapping[str, SpanKey]]:
        """None."""
        return {}

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """None."""
        return {}


def test_what_is_on_its_way_into_the_store_is_known() -> None:
    """The commit before may be there, or not yet: the next one is the same."""
    store = NothingStored()
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
    assert commit.counts == {
        CountName(SPACE, Count.DUPLICATE_SPAN): 3,
        CountName(SPACE, Count.ACCEPTED_SPAN): 1,
        CountName(SPACE, Count.DUPLICATE_RECORD): 1,
    }
    assert second.by_space[SPACE].known >= {trace_id(0), trace_id(1)}


def test_of_versions_in_one_commit_the_best_is_stored() -> None:
    prepared, commit = Prepared(), Commit(offset=0, low_seq=0)
    for end_ns in (5, 9, 7):
        prepared.add(taken(Kind.SPANS, request([replace(SPANS[0], end_ns=end_ns)])))
    prepared.settle(NothingStored(), None)
    prepared.fill(commit)

    assert [row.end_ns for row in commit.spans] == [9]
    (body,) = commit.bodies
    assert [each.end_ns for each in best_spans([compress(body.body)])] == [9]
    assert (body.spans, commit.replaced) == (1, [])
