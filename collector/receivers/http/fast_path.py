"""The short way to the routes that take data: past all that only the other routes need."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class IngestFront:
    """ASGI middleware that calls the endpoints of some paths itself.

    The routes stay in the app behind it: they are in its OpenAPI document, and they answer every
    method but POST. An error that an endpoint raises goes to the app's handler of faults.

    Args:
        app: Takes all other requests.
        endpoints: By path.
    """

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app, self._endpoints = app, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                response = await endpoint(Request(scope, receive))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def endpoints_of(router: APIRouter) -> dict[str, Endpoint]:
    """The endpoints of a router by path; each takes the request only and returns a response."""
    return {each.path: each.endpoint for each in router.routes if isinstance(each, APIRoute)}
