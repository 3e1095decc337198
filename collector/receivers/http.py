"""OTLP/HTTP and records over HTTP. An answer of 200 means: durable.

Source: OTLP specification 1.x, "OTLP/HTTP" (status codes, partial success, error bodies).
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Request, Response
from google.rpc.status_pb2 import Status
from pydantic import BaseModel

from collector.receivers.body import read_body
from collector.receivers.budget import RETRY_AFTER_S, FullError
from collector.receivers.dropped import read_dropped
from collector.receivers.ingest import Ingest, RecordsOutcome
from collector.receivers.limits import TooLargeError
from collector.receivers.otlp_intake import OtlpIntake
from collector.receivers.problem import Problem, ProblemError
from collector.receivers.record_items import RecordItem, read_records_body
from collector.receivers.telemetry import IngestTelemetry, Signal
from scouter.errors import DataError, TransientError
from scouter.transport.port import DROPPED_HEADER

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_GRPC_CODES: Final = {400: 3, 408: 3, 413: 3, 415: 3, 429: 8, 503: 14}
"""INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE."""
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem} for status in (400, 408, 413, 415, 429, 503)
}
_OTLP_BODY: Final[dict[str, Any]] = {"requestBody": {"content": {_PROTOBUF: {}, _JSON: {}}}}

T = TypeVar("T")


class RecordsBodyModel(BaseModel):
    """A batch of records."""

    records: list[RecordItem]


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
    """What became of a batch: every record is in exactly one of the three counts."""

    accepted: int
    duplicates: int
    rejected: int
    errors: list[RecordErrorModel]
    partialSuccess: PartialSuccessModel | None = None


def http_router(ingest: Ingest, telemetry: IngestTelemetry) -> APIRouter:
    """Make the routes that take spans, log records and records.

    Args:
        ingest: The way in; its limits hold for every body.
        telemetry: Is told of every request.
    """
    router = APIRouter(tags=["ingest"])
    intake = OtlpIntake(ingest, telemetry)
    # Decoding holds the interpreter: more threads would only keep others from answering.
    decoders = ThreadPoolExecutor(2, thread_name_prefix="scouter-decode")

    async def in_thread(function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(decoders, function, *arguments)

    async def otlp(request: Request, signal: Signal) -> Response:
        media = _media_type(request)
        is_json = media == _JSON
        try:
            with telemetry.request("http", signal):
                if media not in (_PROTOBUF, _JSON):
                    raise ProblemError(415, f"Content-Type: expected {_PROTOBUF} or {_JSON}")
                with ingest.lease() as lease:
                    data = await read_body(request, ingest.limits, lease)
                    take = partial(intake.take, signal, data, "http", is_json=is_json)
                    taken = await in_thread(take)
                    await _durable(*taken.futures)
                    await _count_drops(ingest, request)
                rejected = taken.rejected()
        except (ProblemError, DataError, TransientError) as error:
            return _otlp_error(_problem(error), media)
        if is_json:
            return _Json(rejected.to_json(), 200, {})
        return Response(rejected.to_protobuf(), media_type=_PROTOBUF)

    @router.post("/v1/traces", openapi_extra=_OTLP_BODY, responses=_PROBLEMS)
    async def traces(request: Request) -> Response:
        """Take an OTLP trace export request, protobuf or JSON, gzip or plain."""
        return await otlp(request, Signal.TRACES)

    @router.post("/v1/logs", openapi_extra=_OTLP_BODY, responses=_PROBLEMS)
    async def logs(request: Request) -> Response:
        """Take an OTLP logs export request: its events `scouter.eval_record` are records."""
        return await otlp(request, Signal.LOGS)

    @router.post(
        "/v1/records",
        response_model=RecordsAnswer,
        response_model_exclude_none=True,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {_JSON: {"schema": RecordsBodyModel.model_json_schema()}},
            }
        },
        responses=_PROBLEMS,
    )
    async def records(request: Request) -> RecordsAnswer:
        """Take records. Items that cannot be used are put aside and named in the answer."""
        try:
            with telemetry.request("http", Signal.RECORDS):
                if _media_type(request) != _JSON:
                    raise ProblemError(415, f"Content-Type: expected {_JSON}")
                with ingest.lease() as lease:
                    data = await read_body(request, ingest.limits, lease)
                    telemetry.body("http", Signal.RECORDS, len(data))
                    items = await in_thread(read_records_body, data, ingest.limits)
                    taken = await in_thread(ingest.take_records, items, "http", len(data))
                    await _durable(*taken.futures)
                    await _count_drops(ingest, request)
                return _records_answer(taken.outcome())
        except (DataError, TransientError) as error:
            raise _problem(error) from error

    return router


async def _durable(*futures: "Future[Any]") -> None:
    """Wait for commits. A client that goes away cancels the waiting, not the commit."""
    await asyncio.gather(*(asyncio.shield(asyncio.wrap_future(each)) for each in futures))


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _count_drops(ingest: Ingest, request: Request) -> None:
    """Count what the sender dropped, last: were the rest refused, it would tell the same again."""
    dropped = read_dropped(request.headers.get(DROPPED_HEADER, ""))
    if dropped:
        await _durable(ingest.take_dropped(dropped))


def _problem(error: ProblemError | DataError | TransientError) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, FullError):
        return ProblemError(429, error.message, RETRY_AFTER_S)
    if isinstance(error, TransientError):
        return ProblemError(503, str(error), 5)
    return ProblemError(413 if isinstance(error, TooLargeError) else 400, str(error))


def _otlp_error(problem: ProblemError, media: str) -> Response:
    """Write an error the way that OTLP wants it: a `google.rpc.Status` in the request's encoding.

    The full sentence goes to people; protobuf text has to be Unicode.
    """
    code = _GRPC_CODES.get(problem.status, 13)
    detail = problem.detail.encode("utf-8", "replace").decode()
    headers = dict(problem.headers)
    if media == _PROTOBUF:
        content = Status(code=code, message=detail).SerializeToString()
        return Response(content, problem.status, headers, media_type=_PROTOBUF)
    return _Json({"code": code, "message": detail}, problem.status, headers)


class _Json(Response):
    """JSON whose text cannot fail to encode: OTLP/JSON errors quote what a sender wrote."""

    media_type = _JSON

    def __init__(self, content: object, status_code: int, headers: Mapping[str, str]) -> None:
        super().__init__(json.dumps(content).encode(), status_code, headers)


def _records_answer(outcome: RecordsOutcome) -> RecordsAnswer:
    problems = outcome.problems
    partial = None
    if problems:
        first = f"record {problems[0].index}: {problems[0].message}"
        partial = PartialSuccessModel(rejectedRecords=len(problems), errorMessage=first)
    return RecordsAnswer(
        accepted=outcome.accepted,
        duplicates=outcome.duplicates,
        rejected=len(problems),
        errors=[
            RecordErrorModel(index=p.index, uid=p.uid, reason=p.reason, message=p.message)
            for p in problems
        ],
        partialSuccess=partial,
    )
