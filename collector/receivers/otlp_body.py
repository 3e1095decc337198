"""OTLP bodies to spans, and the refused spans of a request as dead letters of their own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.receivers.record_items import read_json
from scouter.errors import DataError
from scouter.model.otlp import decode_request
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.span import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSpan:
    """A span that could not be used: why, and the smallest request that holds it."""

    message: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpBody:
    """What a request held."""

    spans: Sequence[Span]
    refused: Sequence[RefusedSpan]


def decode_protobuf(data: bytes) -> OtlpBody:
    """Read a protobuf `ExportTraceServiceRequest`.

    Raises:
        DataError: The bytes are something else.
    """
    try:
        request = ExportTraceServiceRequest.FromString(data)
        decoded = decode_request(request)
    except (DecodeError, RecursionError) as error:
        raise DataError(f"not an OTLP ExportTraceServiceRequest: {error}") from error
    refused = [
        RefusedSpan(message=message, payload=_one_of(request, index))
        for index, message in decoded.rejected
    ]
    return OtlpBody(spans=decoded.spans, refused=refused)


def decode_json(data: bytes) -> OtlpBody:
    """Read the JSON form of an `ExportTraceServiceRequest`.

    Raises:
        DataError: It is not JSON, or has another shape; names the place.
    """
    body = read_json(data)
    if not isinstance(body, dict) or (body and "resourceSpans" not in body):
        raise DataError('expected an object with "resourceSpans"')
    try:
        decoded = spans_from_otlp_json(body)
    except RecursionError as error:
        raise DataError("attributes are nested too deeply") from error
    refused = [
        RefusedSpan(message=message, payload=_one_of_json(body, index))
        for index, message in decoded.rejected
    ]
    return OtlpBody(spans=decoded.spans, refused=refused)


def _one_of(request: ExportTraceServiceRequest, wanted: int) -> bytes:
    """The request with only its span number `wanted`."""
    index = 0
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            if wanted < index + len(scope_spans.spans):
                one = ExportTraceServiceRequest()
                group = one.resource_spans.add()
                group.resource.CopyFrom(resource_spans.resource)
                scope = group.scope_spans.add()
                scope.scope.CopyFrom(scope_spans.scope)
                scope.spans.append(scope_spans.spans[wanted - index])
                return one.SerializeToString()
            index += len(scope_spans.spans)
    return b""


def _one_of_json(body: Mapping[str, object], wanted: int) -> bytes:
    """The request with only its span number `wanted`; its shape was checked before."""
    index = 0
    for group in cast(list[dict[str, object]], body["resourceSpans"]):
        for scope in cast(list[dict[str, object]], group.get("scopeSpans") or []):
            spans = cast(list[object], scope.get("spans") or [])
            if wanted < index + len(spans):
                one = {
                    "resourceSpans": [
                        {**group, "scopeSpans": [{**scope, "spans": [spans[wanted - index]]}]}
                    ]
                }
                return json.dumps(one).encode()
            index += len(spans)
    return b""
