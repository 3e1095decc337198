"""OTLP/HTTP and records over HTTP. An answer of 200 means: durable.

Source: OTLP specification 1.x, "OTLP/HTTP" (status codes, partial success, error bodies).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from collector.access.caller import Scope, caller_of
from collector.access.gate import BEARER
from collector.items.drop_reports import read_dropped
from collector.items.record_items import RecordItem
from collector.problem import SCHEMAS, ProblemError, problem_response, problems
from collector.receivers.answers import (
    JSON,
    PROTOBUF,
    OtlpStatus,
    RecordsAnswer,
    otlp_answer,
    otlp_error,
    records_answer,
    take_otlp,
)
from collector.receivers.http.body import Decoders, read_body
from collector.receivers.intake import Intake, Outcome, Taken
from collector.receivers.refusals import problem_of
from collector.receivers.telemetry import IngestTelemetry, Signal
from scouter.errors import DataError, TransientError
from scouter.transport.drops import DROPPED_HEADER

_REFUSALS: Final = (400, 401, 403, 408, 413, 415, 421, 429, 503)
_PROBLEMS: Final = problems(*_REFUSALS)
_OTLP_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {PROTOBUF: {}}},
    **{status: {"model": OtlpStatus, "content": {PROTOBUF: {}}} for status in _REFUSALS},
}
_OTLP_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {PROTOBUF: {}, JSON: {"schema": {"type": "object"}}},
    }
}


class RecordsBodyModel(BaseModel):
    """A batch of records."""

    records: list[RecordItem]


_RECORDS_BODY: Final = RecordsBodyModel.model_json_schema(ref_template=SCHEMAS + "{model}")


class HttpReceiver:
    """The way in over HTTP of one collector.

    Args:
        ingest: Takes the data; its limits hold for every body.
        telemetry: Counts every request.
    """

    def __init__(self, ingest: Intake, telemetry: IngestTelemetry) -> None:
        self._ingest, self._telemetry = ingest, telemetry
        self._decoders = Decoders()

    async def otlp(self, request: Request, signal: Signal) -> Response:
        """Take an OTLP export request."""
        media = _media_type(request)
        is_json, telemetry = media == JSON, self._telemetry

        def take(into: Intake, data: bytes) -> Taken:
            return take_otlp(telemetry, into, signal, data, "http", is_json=is_json)

        try:
            outcome = await self._take(request, signal, (PROTOBUF, JSON), take)
        except (ProblemError, DataError, TransientError) as error:
            return otlp_error(problem_of(error), media)
        return otlp_answer(signal, outcome.problems, is_json=is_json)

    async def records(self, request: Request) -> Response:
        """Take records."""

        def take(into: Intake, data: bytes) -> Taken:
            self._telemetry.body("http", Signal.RECORDS, len(data))
            return into.records(data, "http")

        try:
            return records_answer(await self._take(request, Signal.RECORDS, (JSON,), take))
        except (ProblemError, DataError, TransientError) as error:
            problem = problem_of(error)
            return problem_response(problem.status, problem.detail, problem.headers)

    async def _take(
        self,
        request: Request,
        signal: Signal,
        medias: Sequence[str],
        take: Callable[[Intake, bytes], Taken],
    ) -> Outcome:
        """Read a body and take it in; returns once it is durable."""
        ingest = self._ingest
        with self._telemetry.request("http", signal):
            into = ingest.in_space(caller_of(request, Scope.INGEST).space)
            if _media_type(request) not in medias:
                raise ProblemError(415, f"Content-Type: expected {' or '.join(medias)}")
            with ingest.lease() as lease:
                data = await read_body(request, ingest.limits, lease)
                taken = await self._decoders.run(len(data), lambda: take(into, data))
                await durable(taken.futures)
                # Last: were the rest refused, the sender would report the same drops again.
                if dropped := read_dropped(request.headers.get(DROPPED_HEADER, "")):
                    await durable((into.take_dropped(dropped),))
        return taken.outcome


def give_receiver(app: FastAPI, receiver: HttpReceiver) -> None:
    """Let the routes of an application bring their data here."""
    app.state.http_receiver = receiver


def _receiver(request: Request) -> HttpReceiver:
    found: HttpReceiver = request.app.state.http_receiver
    return found


ingest = APIRouter(tags=["ingest"], dependencies=[Depends(BEARER)])
"""The routes that take spans, log records and records."""


@ingest.post("/v1/traces", openapi_extra=_OTLP_BODY, responses=_OTLP_ANSWERS)
async def traces(request: Request) -> Response:
    """Take an OTLP trace export request, protobuf or JSON, compressed or plain."""
    return await _receiver(request).otlp(request, Signal.TRACES)


@ingest.post("/v1/logs", openapi_extra=_OTLP_BODY, responses=_OTLP_ANSWERS)
async def logs(request: Request) -> Response:
    """Take an OTLP logs export request: its events `scouter.eval_record` are records."""
    return await _receiver(request).otlp(request, Signal.LOGS)


@ingest.post("/v1/metrics", openapi_extra=_OTLP_BODY, responses=_OTLP_ANSWERS)
async def metrics(request: Request) -> Response:
    """Take an OTLP metrics export request and drop it, so that its sender logs no error."""
    return await _receiver(request).otlp(request, Signal.METRICS)


@ingest.post(
    "/v1/records",
    response_model=RecordsAnswer,
    response_model_exclude_none=True,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": _RECORDS_BODY}},
        }
    },
    responses=_PROBLEMS,
)
async def records(request: Request) -> Response:
    """Take records. Items that cannot be used are put aside and named in the answer."""
    return await _receiver(request).records(request)


class IngestFront:
    """ASGI middleware that calls the endpoints of `ingest` itself.

    The routes stay in the app behind it: they are in its OpenAPI document, and they answer every
    method but POST. An error that an endpoint raises goes to the app's handler of faults. A request
    of ten spans takes a tenth less by it (`tests.bench.collector`).

    Args:
        app: Takes all other requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._endpoints: dict[str, Callable[[Request], Awaitable[Response]]] = {
            each.path: each.endpoint for each in ingest.routes if isinstance(each, APIRoute)
        }

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                response = await endpoint(Request(scope, receive))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def durable(futures: "Sequence[Future[Any]]") -> None:
    """Wait for commits. A caller that is cancelled cancels no commit.

    Raises:
        Exception: The error of the first future that failed.
    """
    loop = asyncio.get_running_loop()
    for future in futures:
        if not future.done():
            woken = asyncio.Event()

            def wake(_: "Future[Any]", woken: asyncio.Event = woken) -> None:
                with contextlib.suppress(RuntimeError):  # the loop ended: nobody waits any more
                    loop.call_soon_threadsafe(woken.set)

            future.add_done_callback(wake)
            await woken.wait()
        future.result()


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
