"""Finished SDK spans as OTLP, where one span that cannot be written does not cost the others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_UNENCODABLE: Final = (ValueError, TypeError, OverflowError, AttributeError)
"""What protobuf raises for a name that is not Unicode or a time that is not a 64-bit number."""


def encode_sdk_spans(spans: Sequence["ReadableSpan"]) -> tuple[ExportTraceServiceRequest, int]:
    """Write spans as one OTLP export request.

    Args:
        spans: Finished spans.

    Returns:
        The request, and how many spans could not be written and are not in it.
    """
    try:
        return encode_spans(spans), 0
    except _UNENCODABLE:
        request = ExportTraceServiceRequest()
        lost = 0
        for span in spans:
            try:
                request.MergeFrom(encode_spans([span]))
            except _UNENCODABLE:
                lost += 1
        return request, lost
