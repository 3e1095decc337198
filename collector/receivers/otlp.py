"""The common part of OTLP/HTTP and OTLP/gRPC: bytes of a request in, fate of its items out."""

from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.receivers.intake import Intake, Taken
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


class OtlpIntake:
    """Hands requests of traces and logs to the way in; drops those of metrics.

    Args:
        telemetry: Counts bytes, and what is ignored.
    """

    def __init__(self, telemetry: IngestTelemetry) -> None:
        self._telemetry = telemetry

    def take(
        self, way: Intake, signal: Signal, data: bytes, source: str, *, is_json: bool = False
    ) -> Taken:
        """Take the good items of a request.

        Args:
            way: The way in, of the sender's space.
            signal: `TRACES`, `LOGS` or `METRICS`, of which nothing is decoded: an autoconfigured
                SDK would log an error if they were not answered with success.
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
            return Taken()
        if signal is Signal.TRACES:
            return way.traces(data, source, is_json=is_json)
        taken = way.logs(data, source, is_json=is_json)
        if taken.ignored:
            self._telemetry.ignored(source, taken.ignored)
        return taken


def rejected_of(signal: Signal, taken: Taken) -> Rejected:
    """Sum up what was not accepted, once every future is done."""
    problems = taken.outcome().problems
    message = problems[0].message if problems else ""
    return Rejected(signal=signal, count=len(problems), message=message)
