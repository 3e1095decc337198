"""A span that protobuf, or a limit, does not take as it is: read all the same, and made to fit.

Protobuf refuses a whole message for one text that is not UTF-8 and for nesting beyond a hundred
levels. Here texts are read as bytes, and lists and objects are opened one by one.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.items.limits import Limits
from scouter.model.attributes import TRUNCATED
from scouter.model.json_value import plain_text
from scouter.model.log_event import BODY, is_genai_event
from scouter.model.otlp_cut import cut_span
from scouter.model.otlp_logs import event_name
from scouter.model.span import ARRAY_LEVELS, CUT, LIST_LEVELS, MAX_DEPTH

_VALUE: Final = common_pb2.AnyValue.DESCRIPTOR.full_name
_GROUPS: Final = {
    "array_value": (common_pb2.ArrayValue.DESCRIPTOR.full_name, ARRAY_LEVELS),
    "kvlist_value": (common_pb2.KeyValueList.DESCRIPTOR.full_name, LIST_LEVELS),
}


def mended_spans(data: bytes, limits: Limits) -> bytes | None:
    """Write a request anew so that it can be parsed and every span is within the limits.

    Args:
        data: An `ExportTraceServiceRequest`.
        limits: Of one span.

    Returns:
        The request with what was half a character as U+FFFD, and what was nested too deeply or
        was too large cut and marked as `cut_span` does; None if it is no such request.

    Cost: linear in its size, times the levels of nesting.
    """
    try:
        request = _kind(ExportTraceServiceRequest.DESCRIPTOR.full_name).FromString(data)
        cut = [_repair(span) for span in _spans(request)]
        _repair(request)
        fitting = ExportTraceServiceRequest.FromString(request.SerializeToString())
    except (DecodeError, RecursionError):
        return None
    for span, already in zip(_spans(fitting), cut, strict=True):
        cut_span(span, limits.max_item, limits.max_attributes, already)
    return fitting.SerializeToString()


def mended_events(data: bytes) -> bytes | None:
    """Write a request of logs anew so that it can be parsed, if all of them are GenAI events.

    Args:
        data: An `ExportLogsServiceRequest`.

    Returns:
        The request, repaired as by `mended_spans`, but of any size; None if it is no such request
        or holds something else: what is not whole is no record of ours.

    Cost: as of `mended_spans`.
    """
    try:
        request = _kind(ExportLogsServiceRequest.DESCRIPTOR.full_name).FromString(data)
        logs = [log for group in request.resource_logs for scope in group.scope_logs
                for log in scope.log_records]  # fmt: skip
        for log in logs:
            if cut := _repair(log):
                mark = log.attributes.add(key=TRUNCATED.encode())
                mark.value.array_value = ArrayValue(
                    values=[AnyValue(string_value=key or BODY) for key in cut]
                ).SerializeToString()
        _repair(request)
        fitting = ExportLogsServiceRequest.FromString(request.SerializeToString())
    except (DecodeError, RecursionError):
        return None
    repaired = [log for group in fitting.resource_logs for scope in group.scope_logs
                for log in scope.log_records]  # fmt: skip
    is_whole = all(is_genai_event(event_name(log)) for log in repaired)
    return fitting.SerializeToString() if is_whole else None


def _spans(request: Any) -> Iterator[Any]:  # noqa: ANN401 - of either form
    for group in request.resource_spans:
        for scope in group.scope_spans:
            yield from scope.spans


@functools.cache
def _pool() -> DescriptorPool:
    """OTLP in which every text, and the inside of every list and object, is bytes."""
    pool = DescriptorPool()
    modules = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2, logs_pb2, logs_service_pb2)
    for module in modules:
        file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for message in file.message_type:
            _to_bytes(message)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _to_bytes(message: DescriptorProto) -> None:
    for field in message.field:
        if field.type == FieldDescriptorProto.TYPE_STRING or field.name in _GROUPS:
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
    for inner in message.nested_type:
        _to_bytes(inner)


@functools.cache
def _kind(name: str) -> type[Any]:
    return GetMessageClass(_pool().FindMessageTypeByName(name))


@functools.cache
def _texts(name: str) -> frozenset[str]:
    """The fields of a message that OTLP has as texts."""
    known = trace_service_pb2.DESCRIPTOR.pool.FindMessageTypeByName(name)
    return frozenset(f.name for f in known.fields if f.type == FieldDescriptor.TYPE_STRING)


def _repair(message: Message, depth: int = 0) -> list[str]:
    """Make a message's texts UTF-8, and cut what is too deep; returns the keys of what was cut."""
    cut: list[str] = []
    texts = _texts(message.DESCRIPTOR.full_name)
    for field, value in message.ListFields():
        if field.name in _GROUPS:
            if not _open(message, field.name, depth):
                cut.append("")
        elif field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                below = _repair(inner, depth)
                is_pair = inner.DESCRIPTOR.name == common_pb2.KeyValue.DESCRIPTOR.name
                cut += [inner.key.decode()] if below and is_pair else below
        elif field.name in texts:
            if field.is_repeated:
                value[:] = [_text(each) for each in value]
            else:
                setattr(message, field.name, _text(value))
    return list(dict.fromkeys(cut))


def _open(value: Message, name: str, depth: int) -> bool:
    """Repair the inside of a list or object, or cut it; says whether nothing in it was cut."""
    kind, levels = _GROUPS[name]
    if depth + levels > MAX_DEPTH:
        setattr(value, "string_value", CUT.encode())  # noqa: B010 - its type is not known
        return False
    group = _kind(kind).FromString(getattr(value, name))
    cut = _repair(group, depth + levels)
    setattr(value, name, group.SerializeToString())
    return not cut


def _text(raw: bytes) -> bytes:
    try:
        raw.decode()
    except UnicodeDecodeError:
        try:
            return plain_text(raw.decode("utf-8", "surrogatepass")).encode()
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace").encode()
    return raw
