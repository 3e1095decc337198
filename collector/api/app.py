"""The web application: every route, and the form of every error."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from collector.access.gate import AccessFront, Gate
from collector.api.front import IS_BEHIND, ApiFront, WireFront
from collector.api.parts import ProbeParts, give_parts
from collector.problem import ProblemError, problem_response
from collector.receivers.http.receiver import HttpReceiver, IngestFront, give_receiver
from collector.receivers.refusals import problem_of
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
_WORDS: Final[Mapping[str, str]] = {
    "extra_forbidden": "no such field; GET /openapi.json shows those that there are",
    "missing": "this is required",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "model_attributes_type": "expected an object",
    "recursion_depth_exceeded": "nested too deeply",
    "recursion_loop": "nested too deeply",  # the same in older versions
    "string_pattern_mismatch": "expected the form {pattern}",
}
"""By pydantic's name of a problem: words for those who know HTTP and not Python. A name in braces
is a key of the problem's context."""


def make_app(
    parts: ProbeParts,
    gate: Gate,
    receiver: HttpReceiver | None,
    routers: Sequence[APIRouter],
) -> FastAPI:
    """Make the application.

    Args:
        parts: Answer its routes.
        gate: Lets callers in.
        receiver: Takes data; None where no router does.
        routers: Have its routes, which are made once in a process.
    """
    app = FastAPI(
        title="Scouter collector",
        description="Takes spans and records, judges them, and answers questions.",
        version="1",
        openapi_url=None,  # it has a route of its own, which requires a token
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to whatever Host says, before anybody requires a token
    )
    errors = ProblemError, HTTPException, RequestValidationError, TransientError, Exception
    for kind in errors:
        app.add_exception_handler(kind, _on_error)
    if receiver is not None:
        app.add_middleware(IngestFront)
        give_receiver(app, receiver)
    app.add_middleware(ApiFront)
    app.add_middleware(AccessFront, gate=gate)
    app.add_middleware(WireFront)  # the last one added is the outermost
    give_parts(app, parts)
    for router in routers:
        # `include_router` would build each route again for this application, at its first request.
        app.router.routes.extend(router.routes)

    return app


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    """Answer with a problem document, whatever ended a request."""
    match error:
        case ProblemError() | TransientError():
            problem = problem_of(error)
            if problem.status == HTTPStatus.NOT_FOUND and getattr(request.state, IS_BEHIND, False):
                detail = f"{problem.detail} yet, and the collector is behind; ask again"
                return problem_response(503, detail, {"Retry-After": "2"})
            return problem_response(problem.status, problem.detail, problem.headers)
        case HTTPException():
            return _of_framework(request, error)
        case RequestValidationError():
            return problem_response(400, "; ".join(map(_words, error.errors())))
        case _:
            _log.error("%s %r failed", request.method, request.url.path, exc_info=error)
            return problem_response(500, "a fault of the collector; its log says more")


def _of_framework(request: Request, error: HTTPException) -> JSONResponse:
    """A path or method that no route has."""
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The router names the methods of the first route with that path only.
        path, document = request.url.path, request.app.openapi()
        found = [
            methods
            for template, methods in document["paths"].items()
            if compile_path(template)[0].match(path)
        ]
        if found:
            allowed = {name.upper() for names in found for name in names}
            headers["Allow"] = ", ".join(
                sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))
            )
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no route {request.url.path!r}; GET /openapi.json lists those that there are"
    elif "Allow" in headers:
        detail = f"{request.method} is not for this route; it takes {headers['Allow']}"
    return problem_response(error.status_code, detail, headers)


def _words(problem: Mapping[str, Any]) -> str:
    """One problem of a request, with what is said for programmers in words for callers."""
    place = ".".join(map(str, problem["loc"][1:]))
    words = _WORDS.get(problem["type"], "").format_map(problem.get("ctx", {}))
    message = words or str(problem["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
