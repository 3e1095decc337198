"""Spans out of the log, whatever order a sender wrote the parts of its request in."""

import itertools
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from collector.storage.log.span_codec import READ_COLUMNS, decode_spans, encode_batch
from collector.storage.log.span_log import Frame, SpanLog
from scouter.model.otlp import decode_request

FAR = 10_000


def field(number: int, body: bytes) -> bytes:
    """A message inside another one; protobuf itself would choose the order of such fields."""
    size, left = bytearray(), len(body)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return bytes([number << 3 | 2, *size, left]) + body


def request(resource: str, scope: str, is_resource_last: bool, is_scope_last: bool) -> bytes:
    """Three spans of one scope and resource, which are left out where they have no name."""
    spans = [
        ProtoSpan(trace_id=bytes(15) + b"\1", span_id=bytes([number] * 8), name="n" * FAR)
        for number in range(1, 4)
    ]
    service = KeyValue(key="service.name", value=AnyValue(string_value=resource))
    host = Resource(attributes=[service]).SerializeToString() if resource else b""
    library = InstrumentationScope(name=scope).SerializeToString()
    of_scope = [field(1, library)] if library else []
    members = b"".join(field(2, each.SerializeToString()) for each in spans)
    of_scope.insert(0 if is_scope_last else 1, members)
    of_resource = [field(1, host)] if host else []
    of_resource.insert(0 if is_resource_last else 1, field(2, b"".join(of_scope)))
    return field(1, b"".join(of_resource))


@pytest.mark.parametrize("resource", ["", "shop", "s" * FAR])
@pytest.mark.parametrize("scope", ["", "library", "l" * FAR])
def test_parts_are_read_in_any_order(tmp_path: Path, resource: str, scope: str) -> None:
    """A scope before, right behind and far behind its resource; and where one is missing."""
    log = SpanLog(tmp_path, 0)
    for orders in itertools.product([False, True], repeat=2):
        wire = request(resource, scope, *orders)
        sent = decode_request(ExportTraceServiceRequest.FromString(wire)).spans
        assert [span.service_name for span in sent] == [resource] * 3
        batch = encode_batch(sent, wire)
        assert batch.body == wire  # nothing was written anew
        (place,) = log.append([Frame(space="default", received_ns=1, body=wire)])
        columns = [batch.columns[name] for name in READ_COLUMNS[1:]]
        rows = [(place.body, *values) for values in zip(*columns, strict=True)]
        assert decode_spans(rows, log) == sent
        assert [span.scope.name for span in sent] == [scope] * 3
    log.close()
