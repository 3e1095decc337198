"""The common part of OTLP/HTTP and OTLP/gRPC: bytes of a request in, fate of its items out."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.items.logs import decode_logs_json, decode_logs_protobuf
from collector.items.traces import decode_json, decode_protobuf
from collector.receivers.ingest import Ingest
from collector.receivers.telemetry import IngestTelemetry, Signal

_JSON_NAMES: Final = {Signal.TRACES: "rejectedSpans", Signal.LOGS: "rejectedLogRecords"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The items of a request that were not accepted: how many, and why the first was not."""

    signal: Signal
    count: int
    message: str

    def to_protobuf(self) -> bytes:
        """The answer of the service, serialized; text in it has to be Unicode."""
        if not self.count:
            return b""  # a message without fields
        message = self.message.encode("utf-8", "replace").decode()
        if self.signal is Signal.TRACES:
            traces = ExportTraceServiceResponse()
            traces.partial_success.rejected_spans = self.count
            traces.partial_success.error_message = message
            return traces.SerializeToString()
        logs = ExportLogsServiceResponse()
        logs.partial_success.rejected_log_records = self.count
        logs.partial_success.error_message = message
        return logs.SerializeToString()

    def to_json(self) -> dict[str, object]:
        """The answer of the service as OTLP/JSON."""
        if not self.count:
            return {}
        partial = {_JSON_NAMES[self.signal]: str(self.count), "errorMessage": self.message}
        return {"partialSuccess": partial}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A request on its way into the store."""

    futures: "tuple[Future[Any], ...]"
    """All have to be done before the request may be acknowledged."""
    rejected: Callable[[], Rejected]
    """Sums up, once every future is done."""


_DROPPED: Final = Taken(
    futures=(), rejected=lambda: Rejected(signal=Signal.METRICS, count=0, message="")
)
"""Answer to a request of metrics: success, since an autoconfigured SDK logs an error otherwise."""


class OtlpIntake:
    """Decodes requests of traces and logs and hands them to the ingest; drops those of metrics.

    Args:
        telemetry: Counts bytes, and what is ignored.
    """

    def __init__(self, telemetry: IngestTelemetry) -> None:
        self._telemetry = telemetry

    def take(
        self, ingest: Ingest, signal: Signal, data: bytes, source: str, *, is_json: bool = False
    ) -> Taken:
        """Decode a request and store its good items.

        Args:
            ingest: The way in, of the sender's space.
            signal: `TRACES`, `LOGS` or `METRICS`, of which nothing is decoded.
            data: The request, decompressed.
            source: Name of the receiver, `http` or `grpc`.
            is_json: True for OTLP/JSON, else protobuf.

        Raises:
            DataError: The bytes are no such request.
            TooLargeError: It is beyond a limit as a whole.
        """
        self._telemetry.body(source, signal, len(data))
        if signal is Signal.METRICS:
            self._telemetry.ignored_metrics(source)
            return _DROPPED
        take = self._traces if signal is Signal.TRACES else self._logs
        return take(ingest, data, source, is_json)

    def _traces(self, ingest: Ingest, data: bytes, source: str, is_json: bool) -> Taken:
        decode = decode_json if is_json else decode_protobuf
        body = decode(data, ingest.limits)
        futures = ingest.take_body(body, source, len(data))
        message = body.refused[0].message if body.refused else ""
        rejected = Rejected(signal=Signal.TRACES, count=len(body.refused), message=message)
        return Taken(futures=tuple(futures), rejected=lambda: rejected)

    def _logs(self, ingest: Ingest, data: bytes, source: str, is_json: bool) -> Taken:
        decode = decode_logs_json if is_json else decode_logs_protobuf
        body = decode(data, ingest.limits)
        if body.ignored:
            self._telemetry.ignored(source, body.ignored)
        taken = ingest.take_logs(body, source, len(data))

        def rejected() -> Rejected:
            problems = taken.outcome().problems
            message = problems[0].message if problems else ""
            return Rejected(signal=Signal.LOGS, count=len(problems), message=message)

        return Taken(futures=taken.futures, rejected=rejected)
