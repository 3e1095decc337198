"""Answers to senders, in the words of OTLP or as a problem document."""

import json
from collections.abc import Mapping
from typing import Final

from fastapi import Response
from google.rpc.status_pb2 import Status
from pydantic import BaseModel

from collector.items.limits import TooLargeError
from collector.problem import ProblemError
from collector.receivers.budget import RETRY_AFTER_S, FullError
from collector.receivers.intake import Outcome
from collector.receivers.otlp import Rejected
from scouter.errors import DataError, TransientError

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
