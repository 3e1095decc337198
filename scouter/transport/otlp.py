"""Spans and records as OTLP protobuf.

Spans are written byte by byte, in a third of the time of messages. Only what nearly all spans are
made of is written here. A span with links, a trace state or a rare kind of attribute goes through
OpenTelemetry's own encoder, after what OTLP has no form for is repaired, and so do resources and
scopes, once per request. `tests.bench.sdk` compares the two for each kind of span.

Source: the field numbers of opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto,
    and https://protobuf.dev/programming-guides/encoding/.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from scouter.errors import DataError
from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.port import NOTHING_WRITTEN, RecordItem, encode_record
from scouter.transport.span_copy import plain_span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan


class OtlpSpans(ABC):
    """Base of transports; gives `send_spans` by means of `send_otlp`."""

    @classmethod  # noqa: B027 - most have nothing to add
    def prepare(cls) -> None:
        """Import what is imported at the first use otherwise."""

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one request; see `Transport`."""
        data, unencodable = write_request(spans)
        if unencodable == len(spans):
            raise DataError(NOTHING_WRITTEN)
        return unencodable + self.send_otlp(data, len(spans) - unencodable, dropped)

    @abstractmethod
    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans that are written already; see `Transport`."""


_MAX_KEYS: Final = 4_096
_INT64: Final = range(-(2**63), 2**63)
_MASK: Final = 2**64 - 1
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200
_TIME: Final = Struct("<cQ")
_TIMES: Final = Struct("<cQcQ")
_FLAGS: Final = Struct("<2sI")
_DOUBLE: Final = Struct("<cd")

_UNWRITABLE: Final = (ValueError, TypeError, OverflowError, AttributeError)
"""Errors of protobuf for a time that is not a 64-bit number, or for a value that is not a span."""


def write_request(spans: Sequence["ReadableSpan"]) -> tuple[bytes, int]:
    """Write spans as one `ExportTraceServiceRequest`.

    Args:
        spans: Finished spans.

    Returns:
        The request, and how many spans could not be written and are not in it.

    Cost: about a microsecond for each attribute.
    """
    groups: dict[tuple[int, int], tuple[ReadableSpan, list[bytes]]] = {}
    lost = 0
    for span in spans:
        try:
            written = _span(span)
        except _UNWRITABLE:
            lost += 1
            continue
        key = id(span.resource), id(span.instrumentation_scope)
        group = groups.get(key)
        if group is None:
            group = groups[key] = span, []
        group[1].append(_field(b"\x12", written))
    return b"".join(_resource_spans(first, texts) for first, texts in groups.values()), lost


def read_back(spans: Sequence["ReadableSpan"]) -> list[Span]:
    """Give finished spans as a receiver reads them, in order; without those that nobody can write.

    Cost: that of writing and of reading, about 20 µs for a span of ten attributes.
    """
    data, _ = write_request(spans)
    decoded = decode_request(ExportTraceServiceRequest.FromString(data))
    found = {(span.trace_id, span.span_id): span for span in decoded.spans}
    contexts = [span.get_span_context() for span in spans]
    keys = [(f"{each.trace_id:032x}", f"{each.span_id:016x}") for each in contexts if each]
    return [found[key] for key in keys if key in found]


def _resource_spans(first: "ReadableSpan", spans: list[bytes]) -> bytes:
    """The spans of one resource and scope, framed as OpenTelemetry frames the first of them."""
    (resource,) = encode_spans([plain_span(first)]).resource_spans
    (scope,) = resource.scope_spans
    del scope.spans[:]
    del resource.scope_spans[:]
    in_scope = _field(b"\x12", scope.SerializeToString() + b"".join(spans))
    return _field(b"\x0a", resource.SerializeToString() + in_scope)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SIZES: Final = [_varint(number) for number in range(16_384)]


def _field(tag: bytes, data: bytes) -> bytes:
    size = len(data)
    return tag + (_SIZES[size] if size < 16_384 else _varint(size)) + data


def _span(span: "ReadableSpan") -> bytes:
    context, parent = span.get_span_context(), span.parent
    if context is None:
        raise AttributeError(f"span {span.name!r} has no context")
    if span.links or span.dropped_links or context.trace_state:
        return _by_opentelemetry(span)
    status = span.status
    try:
        attributes = _attributes(b"\x4a", span.attributes)
        events = [_event(event) for event in span.events]
        name = span.name.encode()
        message = (status.description or "").encode()
    except (_RareError, UnicodeEncodeError, AttributeError):
        return _by_opentelemetry(span)
    flags = _HAS_IS_REMOTE
    parts = [
        b"\x0a\x10",
        context.trace_id.to_bytes(16),
        b"\x12\x08",
        context.span_id.to_bytes(8),
    ]
    if parent is not None:
        parts += b"\x22\x08", parent.span_id.to_bytes(8)
        if parent.is_remote:
            flags |= _IS_REMOTE
    said = _field(b"\x12", message) if message else b""
    if code := status.status_code.value:
        said += b"\x18" + _SIZES[code]
    parts += (
        _field(b"\x2a", name),
        b"\x30",
        _SIZES[span.kind.value + 1],
        _packed(_TIMES, span.name, b"\x39", span.start_time or 0, b"\x41", span.end_time or 0),
        *attributes,
        *events,
        _field(b"\x7a", said),
        _FLAGS.pack(b"\x85\x01", flags),
    )
    if dropped := span.dropped_attributes:
        parts += b"\x50", _varint(dropped)
    if dropped := span.dropped_events:
        parts += b"\x60", _varint(dropped)
    return b"".join(parts)


def _event(event: "Event") -> bytes:
    parts = [
        _packed(_TIME, event.name, b"\x09", event.timestamp or 0),
        _field(b"\x12", event.name.encode()),
        *_attributes(b"\x1a", event.attributes),
    ]
    if dropped := event.dropped_attributes:
        parts += b"\x20", _varint(dropped)
    return _field(b"\x5a", b"".join(parts))


def _packed(form: Struct, name: str, *numbers: bytes | int) -> bytes:
    try:
        return form.pack(*numbers)
    except Exception as error:
        raise ValueError(f"{name!r}: a time is no 64-bit number") from error


class _RareError(Exception):
    """An attribute that is left to OpenTelemetry's encoder."""


_KEYS: Final[dict[str, bytes]] = {}


def _attributes(tag: bytes, attributes: Any) -> list[bytes]:  # noqa: ANN401 - a mapping with `copy`
    if not attributes:
        return []
    out: list[bytes] = []
    for key, value in attributes.copy().items():
        data = _value(value)
        if not data:
            continue
        name = _KEYS.get(key) or _key(key)
        out.append(_field(tag, name + _field(b"\x12", data)))
    return out


def _key(key: str) -> bytes:
    if type(key) is not str:
        raise _RareError
    if len(_KEYS) >= _MAX_KEYS:
        _KEYS.clear()
    data = _field(b"\x0a", key.encode())
    if len(data) < 256:
        _KEYS[key] = data
    return data


def _value(given: object) -> bytes:
    """An `AnyValue`; empty for None, which is no attribute, but an item of a list."""
    value: Any = given  # without `cast`, which is a call
    kind = type(given)
    if kind is str:
        text: bytes = value.encode()
        return _field(b"\x0a", text)
    if kind is bool:
        return b"\x10\x01" if given else b"\x10\x00"
    if kind is int and value in _INT64:
        number: int = value
        return b"\x18" + (_SIZES[number] if 0 <= number < 16_384 else _varint(number & _MASK))
    if kind is float:
        return _DOUBLE.pack(b"\x21", value)
    if kind is tuple:
        items: tuple[object, ...] = value
        if tuple not in map(type, items):  # how deep they go is not for this module
            return _field(b"\x2a", b"".join([_field(b"\x0a", _value(item)) for item in items]))
    if given is None:
        return b""
    raise _RareError


def _by_opentelemetry(span: "ReadableSpan") -> bytes:
    return (
        encode_spans([plain_span(span)])
        .resource_spans[0]
        .scope_spans[0]
        .spans[0]
        .SerializeToString()
    )


EVENT_NAME: Final = "scouter.eval_record"
"""Event name of a log record that holds an EvalRecord."""


def encode_logs(items: Sequence[RecordItem]) -> tuple[bytes, int]:
    """Write records as one OTLP export request.

    Each body is the record's JSON object as text: attributes of OTLP have no null and no large
    integer, so that a body of OTLP maps would not come back as it was.

    Args:
        items: The records.

    Returns:
        An `ExportLogsServiceRequest`, and how many records could not be written and are not in it.

    Raises:
        DataError: None can be written.
    """
    request = ExportLogsServiceRequest()
    scope_logs = request.resource_logs.add().scope_logs.add()
    scope_logs.scope.name = "scouter"
    for item in items:
        log = _log(item)
        if log is not None:
            scope_logs.log_records.append(log)
    if not scope_logs.log_records:
        raise DataError(NOTHING_WRITTEN)
    return request.SerializeToString(), len(items) - len(scope_logs.log_records)


def _log(item: RecordItem) -> LogRecord | None:
    text = encode_record(item)
    if text is None:
        return None
    try:
        log = LogRecord(
            time_unix_nano=item.created_ns,
            observed_time_unix_nano=item.created_ns,
            severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
            event_name=EVENT_NAME,
            trace_id=bytes.fromhex(item.trace_id or ""),
        )
    except (ValueError, TypeError, OverflowError):
        return None
    log.body.string_value = text.decode("utf-8")
    return log
