"""Spans as rows of the store and bytes of its log, exact both ways.

A row holds what spans are found by, and the place of the span's own bytes; all else is read there.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from zlib import crc32

from google.protobuf.message import DecodeError, EncodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.storage.log.attribute_hashes import attribute_hashes
from collector.storage.log.span_log import SpanLog
from collector.store.span_places import PLACE_COLUMNS, SpanPlace, span_places
from scouter.errors import DataError
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT, TRUNCATED
from scouter.model.genai import early as genai
from scouter.model.genai.early_arguments import arguments_hash
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.log_event import is_log_event
from scouter.model.otlp import SpanReader, encode_request
from scouter.model.otlp_json import MAX_TIME_NS
from scouter.model.short_text import short_text
from scouter.model.span import Resource, Scope, Span

_log: Final = logging.getLogger(__name__)

PROMOTED: Final[tuple[str, ...]] = (
    "operation", "provider", "request_model", "response_model", "agent_name", "tool_name",
    "conversation_id", "error_type", "session_id", "finish_reason",
)  # fmt: skip
"""Columns of what any convention tells by attributes and people filter by."""
FACT_COLUMNS: Final[tuple[str, ...]] = (
    *PROMOTED, "genai_kind", "is_model_call", "input_tokens", "output_tokens", "cached_tokens",
    "reasoning_tokens", "act_hash", "arguments_hash", "scope_hash",
)  # fmt: skip
"""Columns of what a span tells about an agent."""
EARLY_KEYS: Final = frozenset((*genai.EARLY_KEYS, PROCESS_SPAN_COUNT, TRUNCATED))

SPAN: Final = "span"
EVENT: Final = "event"
"""Names for counting rows of spans: a log event is stored as a span, and is none."""
IS_SPAN: Final = "is_event IS NOT TRUE"
"""SQL for the rows of `spans` that are no log events."""
KIND: Final = f"CASE WHEN is_event THEN '{EVENT}' ELSE '{SPAN}' END"
"""SQL for what a row of `spans` is counted as."""

"""Attributes that every span is asked for on its way into the store and to its judgement."""
_NO_KIND: Final = (Kind.OTHER.value, False, *(None,) * 6)
_NO_FACTS: Final = (*(None,) * len(PROMOTED), *_NO_KIND)
_MAX_TOKENS: Final = 2**32 - 1
_AHEAD: Final = 100
"""Spans that are read from the log together."""
_GAP: Final = 4096
"""Bytes between two spans that are read together."""

SPAN_COLUMNS: Final[tuple[str, ...]] = (
    "trace_hash", "trace_id", "span_id", "parent_span_id", "name", "kind", "start_ns", "end_ns",
    "status", "service_name", "service_version", "environment", "process", *FACT_COLUMNS,
    *PLACE_COLUMNS, "checksum", "attribute_hashes", "is_event",
)  # fmt: skip
"""Columns that come from the span itself."""

READ_COLUMNS: Final = ("frame", *PLACE_COLUMNS, "checksum")
"""Columns that `decode_spans` needs, in its order."""


_Wanted = tuple[int, SpanPlace, int]
"""Place of the frame, place in it, checksum."""


Preference = tuple[int, int, int]
"""End, bytes, checksum: of two spans with one key the one with the larger preference is kept."""


class EncodedBatch(NamedTuple):
    """Spans as they are stored."""

    body: bytes
    """An OTLP request with just these spans."""
    spans: Sequence[Span]
    columns: Mapping[str, Sequence[Any]]
    """Values of `SPAN_COLUMNS`, one for each span."""
    preferences: Sequence[Preference]
    """Preference of each span, by which two versions of one span are compared."""
    traces: Mapping[str, Mapping[str, int]]
    """By trace id and span id: which span it is, the best one if it is there more than once."""
    repeated: Sequence[int]
    """The spans that another one of the batch is better than, or as good."""
    kind: str
    """The kind that they are counted as: `SPAN` or `EVENT`."""

    def only(self, kept: Sequence[int]) -> "EncodedBatch":
        """The rows of some spans, by their positions; the bytes stay where they are."""
        spans = [self.spans[at] for at in kept]
        preferences = [self.preferences[at] for at in kept]
        columns = {name: [values[at] for at in kept] for name, values in self.columns.items()}
        traces, repeated = _by_trace(spans, preferences)
        return EncodedBatch(self.body, spans, columns, preferences, traces, repeated, self.kind)

    def without_body(self) -> "EncodedBatch":
        """The same for the database, once the bytes are in the log."""
        return self._replace(body=b"")


def trace_hash(trace_id: str) -> int:
    """A signed 64-bit number to look traces up by: the lower half of the id, which is random."""
    number = int(trace_id[16:], 16)
    return number - (1 << 64) if number >= 1 << 63 else number


def encode_batch(spans: Sequence[Span], wire: bytes | None = None) -> EncodedBatch:
    """Make rows of spans.

    Args:
        spans: The spans, or log events and nothing else.
        wire: The OTLP request that they were decoded from, if it holds these in this order and
            nothing else; without it one is written.

    Raises:
        DataError: A span holds what OTLP cannot say: half a character, an integer of more than 64
            bits, or values that are nested too deeply.
    """
    places = None if wire is None else span_places(wire)
    if wire is None or places is None or len(places) != len(spans):
        wire, order = _write(spans)
        places = _in_order(order, span_places(wire) or ())
        hashed = _in_order(order, attribute_hashes(wire))
    else:
        hashed = attribute_hashes(wire)
    spans = tuple(spans)
    checksums = _checksums(wire, places)
    of_places: list[tuple[int, ...]] = list(zip(*places, strict=True))
    ends = [span.end_ns for span in spans]
    preferences = list(zip(ends, of_places[1], checksums, strict=True)) if spans else []
    traces, repeated = _by_trace(spans, preferences)
    hashes = {trace_id: trace_hash(trace_id) for trace_id in traces}
    resources = {id(span.resource): span.resource for span in spans}
    texts = {key: _resource(resource) for key, resource in resources.items()}
    is_events = bool(spans) and all(map(is_log_event, spans))
    values: list[Sequence[Any]] = [
        [hashes[span.trace_id] for span in spans],
        [span.trace_id for span in spans],
        [span.span_id for span in spans],
        [span.parent_span_id for span in spans],
        [span.name for span in spans],
        [int(span.kind) for span in spans],
        [span.start_ns for span in spans],
        ends,
        [int(span.status) for span in spans],
        *zip(*[texts[id(span.resource)] for span in spans], strict=True),
        *(fact_columns(spans) if not is_events else zip(*map(_event_row, spans), strict=True)),
        *of_places,
        checksums,
        hashed,
        [is_events or None] * len(spans),
    ]
    columns: dict[str, Sequence[Any]] = {}
    if spans:
        columns.update(zip(SPAN_COLUMNS, values, strict=True))
    kind = EVENT if is_events else SPAN
    return EncodedBatch(wire, spans, columns, preferences, traces, repeated, kind)


def _checksums(wire: bytes, places: Iterable[SpanPlace]) -> list[int]:
    """Compute the checksum of every span; it covers its resource and scope."""
    view = memoryview(wire)
    heads: dict[tuple[int, int], int] = {}
    found: list[int] = []
    for at, size, resource_at, resource_size, scope_at, scope_size in places:
        head = heads.get((resource_at, scope_at))
        if head is None:
            head = crc32(view[resource_at : resource_at + resource_size])
            head = crc32(view[scope_at : scope_at + scope_size], head)
            heads[resource_at, scope_at] = head
        found.append(crc32(view[at : at + size], head))
    return found


def _by_trace(
    spans: Sequence[Span], preferences: Sequence[Preference]
) -> tuple[dict[str, dict[str, int]], list[int]]:
    """Find the best version of each span of a batch, by trace id and span id.

    Returns:
        Position of the best version of each span, and the positions of all others.
    """
    traces: dict[str, dict[str, int]] = {}
    repeated: list[int] = []
    for at, span in enumerate(spans):
        trace = traces.get(span.trace_id)
        if trace is None:
            trace = traces[span.trace_id] = {}
        before = trace.setdefault(span.span_id, at)
        if before != at:
            is_better = preferences[at] > preferences[before]
            repeated.append(before if is_better else at)
            if is_better:
                trace[span.span_id] = at
    return traces, repeated


def fact_columns(spans: Sequence[Span]) -> Iterator[Sequence[Any]]:
    """The columns `FACT_COLUMNS` of some spans, one at least."""
    scopes = {scope: crc32(scope.encode()) for scope in {span.scope.name for span in spans}}
    return zip(*(_fact_row(span, scopes[span.scope.name]) for span in spans), strict=True)


def _fact_row(span: Span, scope_hash: int) -> tuple[Any, ...]:
    facts = genai.read_early(span, genai.early_attributes(span.attributes))
    if facts is None:
        return (*_NO_FACTS, scope_hash)
    if facts.conversation or facts.session:  # as records have theirs, so that they are found by it
        facts = facts._replace(
            conversation=facts.conversation and short_text(facts.conversation),
            session=facts.session and short_text(facts.session),
        )
    return (
        *facts[: len(PROMOTED)],
        facts.kind.value,
        facts.kind in MODEL_CALLS,
        _count(facts.input_tokens),
        _count(facts.output_tokens),
        _count(facts.cached_tokens),
        _count(facts.reasoning_tokens),
        crc32(facts.act.encode()) if facts.act else None,
        arguments_hash(span) if facts.kind is Kind.TOOL else None,
        scope_hash,
    )


def _event_row(span: Span) -> tuple[Any, ...]:
    """The ids that a log event is erased by; by all else its span is found."""
    session = span.attributes.get("session.id")
    session = None if session is None else short_text(str(session))
    return (*(session if name == "session_id" else None for name in PROMOTED), *_NO_KIND, 0)


def _count(number: int | None) -> int | None:
    """A number of tokens; None if nobody can have counted so many."""
    return number if number is not None and 0 <= number <= _MAX_TOKENS else None


T = TypeVar("T")


def _in_order(order: Sequence[int], values: Sequence[T]) -> list[T]:
    """Put values that are in the order of a request into that of the spans."""
    found = dict(zip(order, values, strict=True))
    return [found[index] for index in range(len(order))]


def _write(spans: Sequence[Span]) -> tuple[bytes, list[int]]:
    """Write spans as a request that can be read back; tells which span is where in it."""
    groups: dict[int, dict[Scope, list[int]]] = {}
    for index, span in enumerate(spans):
        if not (0 <= span.start_ns <= MAX_TIME_NS and 0 <= span.end_ns <= MAX_TIME_NS):
            raise DataError("start or end time: beyond a signed 64-bit number of nanoseconds")
        groups.setdefault(id(span.resource), {}).setdefault(span.scope, []).append(index)
    order = [index for scopes in groups.values() for each in scopes.values() for index in each]
    try:
        data = encode_request(spans[index] for index in order).SerializeToString()
        ExportTraceServiceRequest.FromString(data)
    except UnicodeEncodeError as error:
        raise DataError("a text holds half a character (a lone surrogate)") from error
    except (EncodeError, DecodeError, RecursionError) as error:
        raise DataError("attributes are nested too deeply") from error
    except (ValueError, TypeError) as error:
        raise DataError(f"a span that OTLP cannot say: {error}") from error
    return data, order


def _resource(resource: Resource) -> tuple[str, ...]:
    process = resource.attributes.get(PROCESS_ID)
    return (
        resource.service_name,
        resource.service_version,
        resource.environment,
        process if isinstance(process, str) else "",
    )


def decode_spans(rows: Iterable[tuple[Any, ...]], log: SpanLog) -> list[Span]:
    """Read spans of rows of `READ_COLUMNS`; equal resources and scopes share one object.

    A span whose bytes are damaged or gone is left out, and the program's log says so.
    """
    reader, window = SpanReader(), _Window(log)
    found: list[Span] = []
    wanted: list[_Wanted] = [(row[0], row[1:-1], row[-1]) for row in sorted(rows)]
    for index, (frame, place, checksum) in enumerate(wanted):
        try:
            span = window.span(wanted, index)
            head = window.head(frame, place)
            if crc32(span, head.checksum) != checksum:
                raise DataError("its bytes have another checksum")
            found.append(reader.read(span, head.resource, head.scope))
        except (OSError, EOFError, DecodeError, DataError) as error:
            _log.error("the span at place %d of the log is lost: %s", frame + place[0], error)
    return found


class _Head(NamedTuple):
    """The bytes of a resource and a scope, which many spans share."""

    resource: bytes
    scope: bytes
    checksum: int


class _Window:
    """Reads neighbouring spans together, and what they share once."""

    def __init__(self, log: SpanLog) -> None:
        self._log = log
        self._start, self._bytes = 0, b""
        self._heads: dict[tuple[int, tuple[int, ...]], _Head] = {}

    def span(self, wanted: Sequence[_Wanted], index: int) -> bytes:
        """The bytes of one span; reads on over those behind it that are close."""
        frame, place, _ = wanted[index]
        at = frame + place[0]
        end = stop = at + place[1]
        if not self._start <= at or stop > self._start + len(self._bytes):
            for next_frame, following, _ in wanted[index + 1 : index + _AHEAD]:
                next_at = next_frame + following[0]
                if next_frame != frame or next_at > end + _GAP:
                    break
                end = next_at + following[1]
            self._start, self._bytes = at, self._log.read(at, end - at)
        return self._bytes[at - self._start : stop - self._start]

    def head(self, frame: int, place: SpanPlace) -> _Head:
        """Read the resource and scope of a span, which other spans share."""
        key = frame, place[2:]
        found = self._heads.get(key)
        if found is None:
            resource, scope = self._parts(frame, *place[2:])
            checksum = crc32(scope, crc32(resource))
            found = self._heads[key] = _Head(resource, scope, checksum)
        return found

    def _parts(
        self, frame: int, resource_at: int, resource_size: int, scope_at: int, scope_size: int
    ) -> tuple[bytes, bytes]:
        """A resource and a scope, by one look into the log where the scope follows closely."""
        offset = scope_at - resource_at
        if not resource_size <= offset <= resource_size + _GAP:
            resource = self._log.read(frame + resource_at, resource_size)
            return resource, self._log.read(frame + scope_at, scope_size)
        both = self._log.read(frame + resource_at, offset + scope_size)
        return both[:resource_size], both[offset:]
