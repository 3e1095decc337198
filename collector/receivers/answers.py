"""Outcomes of the items of a request, and the answers that report them to senders.

In the words of OTLP, be it over HTTP or gRPC, or as a problem document.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import Response
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import BaseModel

from collector.items.limits import TooLargeError
from collector.problem import ProblemError
from collector.receivers.budget import RETRY_AFTER_S, FullError
from collector.receivers.intake import Intake, Outcome, Taken
from collector.receivers.telemetry import IngestTelemetry, Signal
from scouter.errors import DataError, TransientError

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


PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_GRPC_CODES: Final = {400: 3, 401: 16, 403: 7, 408: 3, 413: 3, 415: 3, 421: 3, 429: 8, 503: 14}
"""INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE."""


class OtlpStatus(BaseModel):
    """A refusal as OTLP has it: the fields of `google.rpc.Status` that are used."""

    code: int
    message: str


class RecordErrorModel(BaseModel):
    """One record that was not accepted."""

    index: int
    uid: str
    reason: str
    message: str


class PartialSuccessModel(BaseModel):
    """The same in the words of OTLP."""

    rejectedRecords: int
    errorMessage: str


class RecordsAnswer(BaseModel):
    """Counts of a batch; each record is in one of `accepted`, `duplicates` and `rejected`."""

    accepted: int
    duplicates: int
    rejected: int
    errors: list[RecordErrorModel]
    partialSuccess: PartialSuccessModel | None = None


class _Json(Response):
    """JSON whose text cannot fail to encode: OTLP/JSON errors quote what a sender wrote."""

    media_type = JSON

    def __init__(self, content: object, status_code: int, headers: Mapping[str, str]) -> None:
        super().__init__(json.dumps(content).encode(), status_code, headers)


def problem_of(error: ProblemError | DataError | TransientError) -> ProblemError:
    """The status and the headers of the answer to an error."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, FullError):
        return ProblemError(429, error.message, RETRY_AFTER_S)
    if isinstance(error, TransientError):
        return ProblemError(503, str(error), 5)
    return ProblemError(413 if isinstance(error, TooLargeError) else 400, str(error))


def otlp_answer(rejected: Rejected, *, is_json: bool) -> Response:
    """Write the answer to a request that was taken, in the request's encoding."""
    if is_json:
        return _Json(rejected.to_json(), 200, {})
    return Response(rejected.to_protobuf(), media_type=PROTOBUF)


def otlp_error(problem: ProblemError, media: str) -> Response:
    """Write an error the way that OTLP wants it: a `google.rpc.Status` in the request's encoding.

    The full sentence goes to people; protobuf text has to be Unicode.
    """
    code = _GRPC_CODES.get(problem.status, 13)
    detail = problem.detail.encode("utf-8", "replace").decode()
    headers = dict(problem.headers)
    if media == PROTOBUF:
        content = Status(code=code, message=detail).SerializeToString()
        return Response(content, problem.status, headers, media_type=PROTOBUF)
    return _Json({"code": code, "message": detail}, problem.status, headers)


def records_answer(outcome: Outcome) -> Response:
    """Say what became of each record."""
    problems = outcome.problems
    partial = None
    if problems:
        first = f"record {problems[0].index}: {problems[0].message}"
        partial = PartialSuccessModel(rejectedRecords=len(problems), errorMessage=first)
    answer = RecordsAnswer(
        accepted=outcome.accepted,
        duplicates=outcome.duplicates,
        rejected=len(problems),
        errors=[
            RecordErrorModel(index=p.index, uid=p.uid, reason=p.reason, message=p.message)
            for p in problems
        ],
        partialSuccess=partial,
    )
    return Response(answer.model_dump_json(exclude_none=True), media_type=JSON)
