"""Spans as rows of the store and bytes of its log, exact both ways.

A row holds what spans are found by, and the place of the span's own bytes; all else is read there.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast
from zlib import crc32

from google.protobuf.message import DecodeError, EncodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.storage.attribute_hashes import attribute_hashes
from collector.storage.span_log import SpanLog
from collector.storage.span_places import PLACE_COLUMNS, SpanPlace, span_places
from scouter.errors import DataError
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.genai import early as genai
from scouter.model.otlp import SpanReader, encode_request
from scouter.model.otlp_early import EarlyAttributes
from scouter.model.otlp_json import MAX_TIME_NS
from scouter.model.span import Attributes, Resource, Scope, Span

_log: Final = logging.getLogger(__name__)

PROMOTED: Final = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "request_model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "agent_name": "gen_ai.agent.name",
    "tool_name": "gen_ai.tool.name",
    "conversation_id": "gen_ai.conversation.id",
    "error_type": "error.type",
    "session_id": "session.id",
}
"""Columns of their own for the span attributes that people filter by."""

_TEXT: Final = frozenset((str, type(None)))
_PROMOTED_KEYS: Final = tuple(PROMOTED.values())
EARLY_KEYS: Final = tuple(dict.fromkeys((*_PROMOTED_KEYS, PROCESS_SPAN_COUNT, *genai.USAGE_KEYS)))
"""Attributes that every span is asked for on its way into the store and to its judgement."""
_MAX_TOKENS: Final = 2**32 - 1
_AHEAD: Final = 100
"""Spans that are read from the log together."""
_GAP: Final = 4096
"""Bytes between two spans that are read together."""

SPAN_COLUMNS: Final = (
    "trace_hash", "trace_id", "span_id", "parent_span_id", "name", "kind", "start_ns", "end_ns",
    "status", "service_name", "service_version", "environment", "process", *PROMOTED,
    *PLACE_COLUMNS, "checksum", "is_model_call", "input_tokens", "output_tokens",
    "attribute_hashes",
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
    """How each compares with another one of the same key."""
    traces: Mapping[str, Mapping[str, int]]
    """By trace id and span id: which span it is, the best one if it is there more than once."""
    repeated: Sequence[int]
    """The spans that another one of the batch is better than, or as good."""

    def only(self, kept: Sequence[int]) -> "EncodedBatch":
        """The rows of some spans, by their positions; the bytes stay where they are."""
        spans = [self.spans[at] for at in kept]
        preferences = [self.preferences[at] for at in kept]
        columns = {name: [values[at] for at in kept] for name, values in self.columns.items()}
        traces, repeated = _by_trace(spans, preferences)
        return EncodedBatch(self.body, spans, columns, preferences, traces, repeated)

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
        spans: The spans.
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
    attributes = [_early(span.attributes) for span in spans]
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
        *_promoted(attributes),
        *of_places,
        checksums,
        *_usage(attributes),
        hashed,
    ]
    columns = dict(zip(SPAN_COLUMNS, values, strict=True)) if spans else {}
    return EncodedBatch(wire, spans, columns, preferences, traces, repeated)


def _checksums(wire: bytes, places: Iterable[SpanPlace]) -> list[int]:
    """Of every span, its resource and scope included."""
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
    """Where the best version of each span is, by trace, and which are not the best."""
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


def _early(attributes: Attributes) -> Attributes:
    """The promoted attributes at least."""
    return attributes.known if isinstance(attributes, EarlyAttributes) else attributes


def _promoted(attributes: Sequence[Attributes]) -> Iterator[Sequence[str | None]]:
    """The columns of `PROMOTED`, with anything but text written as text."""
    present = set[str]().union(*attributes)
    for key in _PROMOTED_KEYS:
        if key not in present:
            yield (None,) * len(attributes)
            continue
        values = [each.get(key) for each in attributes]
        if _TEXT.issuperset(map(type, values)):
            yield cast(list[str | None], values)
        else:
            yield [each if each is None or isinstance(each, str) else str(each) for each in values]


def _usage(attributes: Sequence[Attributes]) -> Iterator[Sequence[bool | int | None]]:
    """Whether each span is a call of a model, and its tokens in and out."""
    calls = [genai.is_model_call(each) for each in attributes]
    yield calls
    present = set[str]().union(*attributes)
    for names in (genai.INPUT_TOKENS, genai.OUTPUT_TOKENS):
        given = [name for name in names if name in present]
        yield [
            _count(genai.tokens(each, given)) if is_call else None
            for each, is_call in zip(attributes, calls, strict=True)
        ]


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
        """What a span has in common with others."""
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
