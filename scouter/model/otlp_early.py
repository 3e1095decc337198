"""Spans of an OTLP request with a few attributes at hand; the others are read when asked for.

Reading the attributes is half of the work of taking a span, and most are never looked at. To
protobuf a repeated message of key and value is the same as a map: parsed as one, a span gives the
few without a step of ours for each of the others.

Source: Protocol Buffers language guide, "Maps: backwards compatibility".
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from scouter.model.otlp import DecodedSpans, LazyAttributes, decode_request, read_value
from scouter.model.span import AttributeValue

_SPAN: Final = trace_pb2.Span.DESCRIPTOR.full_name
_SHORT: Final = 64
"""Bytes of a value that is remembered."""
_VALUE: Final = common_pb2.AnyValue.DESCRIPTOR.full_name


@functools.cache
def early_request() -> type[ExportTraceServiceRequest]:
    """The message of a trace request in which the attributes of a span are a map.

    It reads and writes the same bytes as the one whose type it is said to have.
    """
    name = ExportTraceServiceRequest.DESCRIPTOR.full_name
    return cast(type[ExportTraceServiceRequest], _message(name))


@functools.cache
def _early_span() -> type[ProtoSpan]:
    return cast(type[ProtoSpan], _message(_SPAN))


def _message(name: str) -> type[Any]:
    return GetMessageClass(_messages().FindMessageTypeByName(name))


@functools.cache
def _messages() -> DescriptorPool:
    pool = DescriptorPool()
    trace = FileDescriptorProto.FromString(trace_pb2.DESCRIPTOR.serialized_pb)
    span = next(each for each in trace.message_type if each.name == trace_pb2.Span.DESCRIPTOR.name)
    entry = span.nested_type.add(name="AttributesEntry")
    entry.options.map_entry = True
    one = FieldDescriptorProto.LABEL_OPTIONAL
    text, message = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
    entry.field.add(name="key", number=1, label=one, type=text)
    entry.field.add(name="value", number=2, label=one, type=message, type_name=f".{_VALUE}")
    attributes = next(each for each in span.field if each.name == "attributes")
    attributes.type_name = f".{_SPAN}.{entry.name}"
    for file in (
        common_pb2.DESCRIPTOR.serialized_pb,
        resource_pb2.DESCRIPTOR.serialized_pb,
        trace.SerializeToString(),
        trace_service_pb2.DESCRIPTOR.serialized_pb,
    ):
        pool.AddSerializedFile(file)
    return pool


class EarlyAttributes(LazyAttributes):
    """Attributes of which some were read already.

    Args:
        span: The bytes of the whole `Span` message, which are read for any other key.
        size: Number of attributes of the span.
        keys: Keys that were looked for.
        known: Values of the keys that were found.
    """

    __slots__ = ("_keys", "_size", "known")

    def __init__(
        self,
        span: bytes,
        size: int,
        keys: Collection[str],
        known: Mapping[str, AttributeValue],
    ) -> None:
        self._source = span  # as `LazyAttributes` does; one is made for every span
        self._size, self._keys = size, keys
        self.known = known
        """The attributes that are at hand."""

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 as Mapping.get
        """The value of a key, or the default."""
        return (self.known if key in self._keys else self._all()).get(key, default)

    def get_rare(self, key: str) -> AttributeValue:
        """The value of a key that few spans have, or None."""
        return self.known.get(key) if key in self._keys else super().get_rare(key)

    def pick(self, keys: frozenset[str], prefixes: Sequence[bytes]) -> Mapping[str, AttributeValue]:
        """Read the attributes with these keys, and keep none; all where there is one of a prefix.

        Cost: while nothing is read, the parsing of the span and the reading of these attributes.
            The span takes no more memory than before.
        """
        source = self._source
        if not isinstance(source, bytes):
            return self._all()
        for prefix in prefixes:
            if prefix in source:
                return self._all()
        entries = cast(Mapping[str, AnyValue], _early_span().FromString(source).attributes)
        return {key: read_value(entries[key]) for key in keys.intersection(entries)}

    def __len__(self) -> int:
        return self._size


def _read_rare(value: AnyValue) -> AttributeValue:
    data = value.SerializeToString()
    return read_value(value) if len(data) > _SHORT else _read_short(data)


@functools.lru_cache(maxsize=256)
def _read_short(data: bytes) -> AttributeValue:
    """Read a value; lists of finish reasons are the same few on nearly every call of a model."""
    return read_value(AnyValue.FromString(data))


def decode_early(
    request: ExportTraceServiceRequest,
    data: bytes,
    places: Sequence[tuple[int, ...]],
    keys: frozenset[str],
) -> DecodedSpans:
    """Decode spans as `decode_request` does, with attributes that are read when asked for.

    Args:
        request: A message of `early_request`; it is only read.
        data: The bytes that it was parsed from.
        places: Offset and size of every span in these bytes, in the order of the request; bytes
            behind them are ignored.
        keys: Attributes to read at once: those that every span is asked for.

    Returns:
        All usable spans in the order of the request, and index and reason of each refused one.

    Cost: linear; about 7 µs for a span, however many attributes it has. A span keeps a copy of its
    own bytes and nothing of the others'.
    """

    def attributes(span: ProtoSpan, index: int) -> EarlyAttributes:
        at, size, *_ = places[index]
        entries = cast(Mapping[str, AnyValue], span.attributes)
        known: dict[str, AttributeValue] = {}
        for key in keys.intersection(entries):  # it asks for each that is there, not each of ours
            value = entries[key]
            # Only one field of a value is set: of most values no other question is asked.
            known[key] = value.string_value or value.int_value or _read_rare(value)
        return EarlyAttributes(data[at : at + size], len(entries), keys, known)

    return decode_request(request, attributes)
