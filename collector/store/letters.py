"""Rows of what could not be used, and the question that lists them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.split import split
from scouter.model.ids import is_trace_id


class LetterKind(StrEnum):
    """Kind of data that a dead letter holds."""

    SPAN = "span"
    RECORD = "record"
    LOG = "log"
    SPANS_MESSAGE = "spans_message"
    RECORDS_MESSAGE = "records_message"


INVALID_EVENT: Final = "invalid_event"
"""Reason of a log record that is a GenAI event and cannot be read."""
UNKNOWN_PROFILE: Final = "unknown_profile"
"""Reason of an accepted record whose profile nobody registered in time."""
UNUSABLE_PROFILE: Final = "unusable_profile"
"""Reason of one whose profile an earlier release took, and this one refuses."""
NO_PROFILE: Final = frozenset({UNKNOWN_PROFILE, UNUSABLE_PROFILE})
LARGE: Final = frozenset({LetterKind.SPANS_MESSAGE, LetterKind.RECORDS_MESSAGE})
"""Messages of brokers are stored whole: each may take a third of the store's memory."""
_FEW: Final = 16
"""Payloads in memory at a time; each of the other kinds may have a megabyte."""


def few_at_a_time(
    letters: Iterable[tuple[str, LetterKind]],
) -> Iterator[list[tuple[str, LetterKind]]]:
    """Ids and kinds of letters in parts whose payloads fit into memory."""
    return split(letters, lambda each: (_FEW if each[1] in LARGE else 1,), (_FEW,))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be used, stored with the reason."""

    space: str
    kind: LetterKind
    reason: str
    """One word, for counting."""
    message: str
    """A sentence, for people."""
    source: str
    """Place at which it came in: `http`, or `kafka:TOPIC:PARTITION:OFFSET`."""
    payload: bytes
    uid: str = ""
    """Uid of the record; for a refused span its trace id, if that could be read."""
    received_ns: int
    was_accepted: bool = False
    """True for a record that had been accepted: the letter is then its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLetter:
    """A dead letter and its place in the store."""

    letter_id: str
    seq: int
    letter: DeadLetter
    """The letter; its payload is cut to the number of bytes that was requested."""
    size_bytes: int
    """Size of the whole payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterQuery:
    """Filter of the dead letters to list; None means any."""

    space: str
    reason: str | None = None
    kind: LetterKind | None = None
    letter_id: str | None = None
    uid: str | None = None
    was_accepted: bool | None = None
    limit: int = 100
    before: tuple[int, str] | None = None
    """Continue below this position: (commit, letter id)."""
    payload_bytes: int | None = None
    """Most bytes of each payload, at least 1; None for the whole payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersRemoved:
    """Dead letters that were taken out of the store."""

    seq: int
    letter_ids: tuple[str, ...]
    """Ids of the letters that were still there."""


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
    """Ids that a letter is about: of records, traces and spans.

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
