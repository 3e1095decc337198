"""Reads what a dead letter is of, so that nothing comes back as one after it was erased."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.store.letters import DeadLetter, LetterKind
from scouter.model.ids import is_trace_id

_MOST: Final = 10_000
"""Values looked at in a payload, as the thread that commits waits: 0.1 s at worst."""
_PARTS: Final = (
    "records", "body", "stringValue",
    "resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords",
)  # fmt: skip
"""Keys under which requests hold records, spans and log records.

An id anywhere else is the id of something else.
"""
_UID: Final = re.compile(rb'"uid\\{0,9}"\s{0,9}:\s{0,9}\\{0,9}"([^"\\]+)')
_TRACE: Final = re.compile(
    rb'"trace_?id\\{0,9}"\s{0,9}:\s{0,9}\\{0,9}"([0-9a-f]{32})', re.IGNORECASE
)
_WIRE_TRACE: Final = re.compile(rb"(?=[\x0a\x4a]\x10(.{16}))", re.DOTALL)
"""Trace id of a protobuf span (field 1) or log record (field 9)."""


class LetterKey(NamedTuple):
    """A record, a trace or a span that a letter is of; what it is not of is empty."""

    uid: str = ""
    trace_id: str = ""
    """Of the trace or the span."""
    span_id: str = ""


def is_of_spans(letter: DeadLetter) -> bool:
    """Tell whether a letter is of spans; else it is of records."""
    return letter.kind in (LetterKind.SPAN, LetterKind.SPANS_MESSAGE)


def letter_keys(letter: DeadLetter) -> Iterator[LetterKey]:
    """What a letter is of.

    A payload that is cut off or damaged is searched for what looks like such an id: it is better
    to leave out a letter too much than to show again what was erased.
    """
    if letter.uid:
        yield LetterKey(uid=letter.uid)
    try:
        value = json.loads(letter.payload)
    except (ValueError, RecursionError):
        if is_of_spans(letter):
            yield from _of_protobuf(letter.payload)
        else:
            yield from _of_bytes(letter.payload)
    else:
        yield from _of_value(value)


def _of_protobuf(payload: bytes) -> Iterator[LetterKey]:
    try:
        request = ExportTraceServiceRequest.FromString(payload)
    except DecodeError:
        yield from _of_bytes(payload)
        return
    scopes = chain.from_iterable(group.scope_spans for group in request.resource_spans)
    for span in chain.from_iterable(scope.spans for scope in scopes):
        yield from _of_span(span.trace_id.hex(), span.span_id.hex())


def _of_value(value: object) -> Iterator[LetterKey]:
    """The ids in a record, in a request's body, or in the JSON text of one."""
    left = [value]
    for _ in range(_MOST):
        if not left:
            return
        value = left.pop()
        if isinstance(value, str):
            try:
                left.append(json.loads(value))
            except (ValueError, RecursionError):
                yield from _of_bytes(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, list):
            left += cast(list[object], value)
        elif isinstance(value, dict):
            fields = cast(Mapping[str, Any], value)
            if isinstance(uid := fields.get("uid"), str):
                yield LetterKey(uid=uid)
            trace_id = fields.get("trace_id") or fields.get("traceId")
            yield from _of_span(trace_id, fields.get("spanId"))
            left += [fields[name] for name in _PARTS if name in fields]


def _of_span(trace_id: object, span_id: object) -> Iterator[LetterKey]:
    if isinstance(trace_id, str) and is_trace_id(trace_id.lower()):
        yield LetterKey(trace_id=trace_id.lower())
        if isinstance(span_id, str):
            yield LetterKey(trace_id=trace_id.lower(), span_id=span_id.lower())


def _of_bytes(payload: bytes) -> Iterator[LetterKey]:
    for found in islice(_UID.finditer(payload), _MOST):
        yield LetterKey(uid=found[1].decode("utf-8", "replace"))
    for found in islice(_TRACE.finditer(payload), _MOST):
        yield from _of_span(found[1].decode(), None)
    for found in islice(_WIRE_TRACE.finditer(payload), _MOST):
        yield from _of_span(found[1].hex(), None)
