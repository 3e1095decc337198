"""The item that a dead letter is of: every form in which payloads are stored, whole or cut off."""

import json
from typing import Any

import pytest

from collector.store.letters import LetterKey, LetterKind, letter_keys
from scouter.model.otlp import encode_request
from scouter.model.span import SpanLink
from tests.contracts.store_data import TRACE, letter, span

OTHER = "1" * 32
UID = LetterKey(uid="u-7")
OF_TRACE = LetterKey(trace_id=TRACE)
OF_SPAN = LetterKey(trace_id=TRACE, span_id="0000000000000001")
ITEM = {"uid": "u-7", "profile": 7, "trace_id": TRACE.upper(), "context": {"uid": "other"}}
WIRE = encode_request(
    [span(1, links=(SpanLink(trace_id=OTHER, span_id="1" * 16),))]
).SerializeToString()
OTLP: dict[str, Any] = {
    "resourceSpans": [
        {"scopeSpans": [{"spans": [{
            "traceId": TRACE, "spanId": "0000000000000001", "links": [{"traceId": OTHER}]
        }]}]}
    ]
}  # fmt: skip
LOGS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [
    {"traceId": TRACE, "body": {"stringValue": json.dumps(ITEM)}}
]}]}]}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        pytest.param("record", json.dumps(ITEM).encode(), {UID, OF_TRACE}, id="record"),
        pytest.param(
            "record", json.dumps(json.dumps(ITEM)).encode(), {UID, OF_TRACE}, id="json-text"
        ),
        pytest.param(
            "records_message", json.dumps({"records": [1, ITEM]}).encode(), {UID, OF_TRACE},
            id="several",
        ),
        pytest.param("record", b'{"uid" : "u-7", "cut off', {UID}, id="cut-off"),
        pytest.param("log", b'{"body": "{\\"uid\\": \\"u-7\\", cut', {UID}, id="inside-cut-off"),
        pytest.param("log", json.dumps(LOGS).encode(), {UID, OF_TRACE}, id="log-json"),
        pytest.param("log", b"J\x10" + bytes.fromhex(TRACE), {OF_TRACE}, id="log-protobuf"),
        pytest.param("span", WIRE, {OF_TRACE, OF_SPAN}, id="span"),
        pytest.param("span", json.dumps(OTLP).encode(), {OF_TRACE, OF_SPAN}, id="span-json"),
        pytest.param(
            "span", WIRE[:-1], {OF_TRACE, LetterKey(trace_id=OTHER)}, id="span-cut-off"
        ),
        pytest.param("record", b'{"uid": 7, "trace_id": "short"}', set[Any](), id="no-ids"),
        pytest.param("record", b"[" * 100_000, set[Any](), id="deep"),
        pytest.param("record", b"", set[Any](), id="empty"),
    ],
)  # fmt: skip
def test_what_a_letter_is_of(kind: str, payload: bytes, expected: set[Any]) -> None:
    """Ids inside what a record says, or of links, are those of something else."""
    assert {*letter_keys(letter(kind=LetterKind(kind), payload=payload))} == expected


def test_the_uid_that_the_collector_put_beside_it_counts() -> None:
    assert [*letter_keys(letter(uid="u-7", payload=b"{}"))] == [UID]
