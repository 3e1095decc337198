"""OTLP/HTTP and records over HTTP. An answer of 200 means: durable.

Source: OTLP specification 1.x, "OTLP/HTTP" (status codes, partial success, error bodies).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Request, Response
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import BaseModel

from collector.receivers.body import read_body
from collector.receivers.dropped import read_dropped
from collector.receivers.ingest import Ingest, RecordsOutcome
from collector.receivers.otlp_body import OtlpBody, decode_json, decode_protobuf
from collector.receivers.problem import Problem, ProblemError
from collector.receivers.record_items import RecordItem, read_records_body
from collector.storage.rows import LetterKind
from scouter.errors import DataError, TransientError
from scouter.transport.port import DROPPED_HEADER

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_GRPC_CODES: Final = {400: 3, 413: 3, 415: 3, 429: 8, 503: 14}
"""INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE."""
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem} for status in (400, 413, 415, 429, 503)
}

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


def http_router(ingest: Ingest, *, max_body: int, max_inflated: int) -> APIRouter:
    """Make the routes that take spans and records.

    Args:
        ingest: The way in.
        max_body: Largest body as sent, in bytes.
        max_inflated: Largest body after decompression, in bytes.
    """
    router = APIRouter(tags=["ingest"])
    # Decoding holds the interpreter: more threads would only keep others from answering.
    decoders = ThreadPoolExecutor(2, thread_name_prefix="scouter-decode")

    async def in_thread(function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(decoders, function, *arguments)

    @router.post(
        "/v1/traces",
        openapi_extra={"requestBody": {"content": {_PROTOBUF: {}, _JSON: {}}}},
        responses=_PROBLEMS,
    )
    async def traces(request: Request) -> Response:
        """Take an OTLP export request, protobuf or JSON, gzip or plain."""
        media = _media_type(request)
        try:
            if media not in (_PROTOBUF, _JSON):
                raise ProblemError(415, f"Content-Type: expected {_PROTOBUF} or {_JSON}")
            _refuse_if_full(ingest)
            data = await read_body(request, max_body, max_inflated)
            body = await in_thread(decode_json if media == _JSON else decode_protobuf, data)
            await _store_spans(ingest, body, in_thread)
            await _durable(*_count_drops(ingest, request))
        except (ProblemError, DataError, TransientError) as error:
            return _otlp_error(_problem(error), media)
        return _otlp_answer(body, media)

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
            if _media_type(request) != _JSON:
                raise ProblemError(415, f"Content-Type: expected {_JSON}")
            _refuse_if_full(ingest)
            data = await read_body(request, max_body, max_inflated)
            items = await in_thread(read_records_body, data)
            taken = await in_thread(ingest.take_records, items, "http")
            await _durable(*taken.futures, *_count_drops(ingest, request))
            return _records_answer(taken.outcome())
        except (DataError, TransientError) as error:
            raise _problem(error) from error

    return router


async def _store_spans(
    ingest: Ingest, body: OtlpBody, in_thread: Callable[..., Awaitable[Any]]
) -> None:
    futures: list[Future[Any]] = []
    if body.spans:
        futures.append(await in_thread(ingest.take_spans, body.spans))
    if body.refused:
        letters = [
            ingest.letter(LetterKind.SPAN, "invalid_span", each.message, "http", each.payload)
            for each in body.refused
        ]
        futures.append(ingest.put_aside(letters))
    await _durable(*futures)


async def _durable(*futures: "Future[Any]") -> None:
    """Wait for commits. A client that goes away cancels the waiting, not the commit."""
    await asyncio.gather(*(asyncio.shield(asyncio.wrap_future(each)) for each in futures))


def _refuse_if_full(ingest: Ingest) -> None:
    if ingest.is_full:
        raise ProblemError(429, "the collector is behind; send the same again later", 1)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _count_drops(ingest: Ingest, request: Request) -> "list[Future[Any]]":
    dropped = read_dropped(request.headers.get(DROPPED_HEADER, ""))
    return [ingest.take_dropped(dropped)] if dropped else []


def _problem(error: ProblemError | DataError | TransientError) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, TransientError):
        return ProblemError(503, str(error), 5)
    return ProblemError(400, str(error))


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


def _otlp_answer(body: OtlpBody, media: str) -> Response:
    rejected = len(body.refused)
    message = body.refused[0].message if rejected else ""
    if media == _PROTOBUF:
        answer = ExportTraceServiceResponse()
        if rejected:
            answer.partial_success.rejected_spans = rejected
            answer.partial_success.error_message = message.encode("utf-8", "replace").decode()
        return Response(answer.SerializeToString(), media_type=_PROTOBUF)
    partial = {"rejectedSpans": str(rejected), "errorMessage": message}
    return _Json({"partialSuccess": partial} if rejected else {}, 200, {})


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
