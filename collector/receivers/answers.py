"""Requests of OTLP on their way in, and the answers that report their items to senders.

In the words of OTLP, be it over HTTP or gRPC, or as a problem document.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import Response
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import BaseModel

from collector.problem import ProblemError
from collector.receivers.intake import Intake, Outcome, Problem, Taken
from collector.receivers.refusals import kind_of
from collector.receivers.telemetry import IngestTelemetry, Signal


def take_otlp(
    telemetry: IngestTelemetry, way: Intake, signal: Signal, data: bytes, source: str,
    *, is_json: bool = False,
) -> Taken:  # fmt: skip
    """Take the good items of a request of traces or logs; one of metrics is dropped.

    Args:
        telemetry: Counts bytes, and what is ignored.
        way: The way in, of the sender's space.
        signal: `TRACES`, `LOGS` or `METRICS`, of which nothing is decoded: an autoconfigured SDK
            would log an error if they were not answered with success.
        data: The request, decompressed.
        source: Name of the receiver, `http` or `grpc`.
        is_json: True for OTLP/JSON, else protobuf.

    Raises:
        DataError: The bytes are no such request.
        TooLargeError: It is beyond a limit as a whole.
    """
    telemetry.body(source, signal, len(data))
    if signal is Signal.METRICS:
        telemetry.ignored_metrics(source)
        return Taken()
    if signal is Signal.TRACES:
        return way.traces(data, source, is_json=is_json)
    taken = way.logs(data, source, is_json=is_json)
    if taken.ignored:
        telemetry.ignored(source, taken.ignored)
    return taken


PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_JSON_NAMES: Final = {Signal.TRACES: "rejectedSpans", Signal.LOGS: "rejectedLogRecords"}


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


def protobuf_answer(signal: Signal, problems: Sequence[Problem]) -> bytes:
    """Say what was not accepted, and why the first was not; text in it has to be Unicode."""
    if not problems:
        return b""  # a message without fields
    message = problems[0].message.encode("utf-8", "replace").decode()
    if signal is Signal.TRACES:
        traces = ExportTraceServiceResponse()
        traces.partial_success.rejected_spans = len(problems)
        traces.partial_success.error_message = message
        return traces.SerializeToString()
    logs = ExportLogsServiceResponse()
    logs.partial_success.rejected_log_records = len(problems)
    logs.partial_success.error_message = message
    return logs.SerializeToString()


def otlp_answer(signal: Signal, problems: Sequence[Problem], *, is_json: bool) -> Response:
    """Write the answer to a request that was taken, in the request's encoding."""
    if not is_json:
        return Response(protobuf_answer(signal, problems), media_type=PROTOBUF)
    if not problems:
        return _Json({}, 200, {})
    partial = {_JSON_NAMES[signal]: str(len(problems)), "errorMessage": problems[0].message}
    return _Json({"partialSuccess": partial}, 200, {})


def otlp_error(problem: ProblemError, media: str) -> Response:
    """Write an error the way that OTLP wants it: a `google.rpc.Status` in the request's encoding.

    The full sentence goes to people; protobuf text has to be Unicode.
    """
    code = kind_of(problem.status).grpc_code
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
