"""The first ASGI layer of every HTTP request: it finds the caller."""

from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.caller import CALLER
from collector.access.gate import OF_PROXIES, Gate
from collector.problem import ProblemError, problem_response

_PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Supervisors ask them again and again, without a token."""
_MACHINES: Final = ("/api/", "/v1/", "/metrics", "/openapi.json")
"""Paths that programs ask, beside the probes. All others are the page's."""
_HEADERS: Final = frozenset((b"authorization", b"host", b"origin"))
_OF_PROXIES: Final = frozenset(name.encode() for name in OF_PROXIES)


def is_page(path: str) -> bool:
    """Tell whether a path belongs to the page, which people open without a token and then sign in.

    The others take a token in a header only, so that no site can use a browser's session there.
    """
    return path not in _PROBES and not path.startswith(_MACHINES)


class AccessFront:
    """ASGI middleware that leaves the caller, or why there is none, in the request.

    It only answers what is malformed: some routes are open to everybody, and each has its own form
    of a refusal.

    Args:
        app: Serves the request.
        gate: Lets callers in.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http":
            found = [
                (name, value.decode("latin-1").strip(" \t"))  # the parser in C leaves blanks
                for name, value in scope["headers"]
                if name in _HEADERS
            ]
            headers = dict(found)
            client = scope.get("client")
            try:
                if len(headers) < len(found):  # a proxy in front may go by the other one
                    raise ProblemError(400, "Host, Origin or Authorization is there twice")
                self._gate.check_headers(headers.get(b"host"), headers.get(b"origin"))
                scope[CALLER] = self._gate.caller(
                    headers.get(b"authorization"),
                    client[0] if client else "",
                    is_forwarded=not _OF_PROXIES.isdisjoint(name for name, _ in scope["headers"]),
                    is_probe=scope["path"] in _PROBES or is_page(scope["path"]),
                )
            except ProblemError as error:
                if error.status == HTTPStatus.BAD_REQUEST:
                    await problem_response(error.status, error.detail)(scope, receive, send)
                    return
                scope[CALLER] = error
        await self._app(scope, receive, send)
