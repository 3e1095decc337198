"""ASGI middleware: one server span per request, as a child of the caller's span."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, cast

from opentelemetry.trace import SpanKind
from opentelemetry.trace.status import StatusCode

from scouter.tracing.span import ScouterSpan
from scouter.tracing.tracer import ScouterTracer, flush_tracer, get_tracer
from scouter.transport.process import EXIT_TIMEOUT_S, flush_all

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_CARRIED: Final = frozenset({b"traceparent", b"tracestate", b"baggage"})
"""The only headers that are looked at: no cookie or token gets near a span."""
_LISTS: Final = frozenset({b"tracestate", b"baggage"})
_SERVER_ERROR: Final = 500


class ScouterTracingMiddleware:
    """Traces the requests of an ASGI application.

    Each HTTP request and each WebSocket connection is a server span named after its method and
    path, with OpenTelemetry's HTTP attributes. It continues the trace that the request's
    `traceparent` names, else it starts one. A status of 500 or more, and an exception, make it an
    error.

    When the server ends, what still waits to be sent is delivered, for at most 5 s: uvicorn ends
    its processes by the signal that it got, which no exit hook sees.

    Args:
        app: The application.
        tracer: Makes the spans; by default one of the scope `scouter.asgi`.
    """

    def __init__(self, app: App, tracer: ScouterTracer | None = None) -> None:
        self._app = app
        self._tracer = tracer or get_tracer("scouter.asgi")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; anything but HTTP, WebSocket and lifespan passes untouched."""
        if scope["type"] == "lifespan":
            await _live(self._app, scope, receive, send)
            return
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        method = str(scope.get("method", "WEBSOCKET"))
        path = str(scope.get("path", ""))
        with self._tracer.start_as_current_span(
            f"{method} {path}",
            kind=SpanKind.SERVER,
            attributes=_attributes(scope, method, path),
            headers=_headers(scope),
        ) as span:
            await self._app(scope, receive, _watched(span, send))
            route = getattr(scope.get("route"), "path", None)
            if isinstance(route, str):
                span.set_attribute("http.route", route)


async def _live(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the application start and end, and flush after that; also if it cares for neither."""
    has_received = has_answered = False

    async def received() -> Message:
        nonlocal has_received
        has_received = True
        return await receive()

    async def flushed(message: Message) -> None:
        nonlocal has_answered
        has_answered = True
        if message["type"].startswith("lifespan.shutdown."):
            await asyncio.to_thread(_deliver)
        await send(message)

    try:
        await app(scope, received, flushed)
    except Exception:
        # An application that knows no lifespan raises before it reads; a fault is the server's.
        if has_received or has_answered:
            raise
    if has_received or has_answered:
        return
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await flushed({"type": "lifespan.shutdown.complete"})


def _deliver() -> None:
    """Send what waits: spans, to other exporters too, and the records of every queue."""
    end_s = time.monotonic() + EXIT_TIMEOUT_S
    flush_tracer(EXIT_TIMEOUT_S)
    flush_all(max(0.1, end_s - time.monotonic()))


def _watched(span: ScouterSpan, send: Send) -> Send:
    """A `send` that notes the status of the response."""

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            status = int(message["status"])
            span.set_attribute("http.response.status_code", status)
            if status >= _SERVER_ERROR:
                span.set_status(StatusCode.ERROR, f"HTTP {status}")
        await send(message)

    return watched


def _attributes(scope: Scope, method: str, path: str) -> dict[str, object]:
    found: dict[str, object] = {"url.path": path, "url.scheme": scope.get("scheme", "http")}
    if scope["type"] == "http":
        found["http.request.method"] = method
    version = scope.get("http_version")
    if version:
        found["network.protocol.version"] = version
    server = cast("tuple[str, int | None] | None", scope.get("server"))
    if server:
        found["server.address"] = server[0]
        if server[1] is not None:
            found["server.port"] = server[1]
    return found


def _headers(scope: Scope) -> dict[str, str]:
    """The carried headers; `baggage` and `tracestate` may come in several lines, which are one."""
    raw = cast("list[tuple[bytes, bytes]]", scope.get("headers") or [])
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.lower(), value.decode("latin-1")
        if key in _LISTS and key.decode() in found:
            found[key.decode()] += f",{text}"
        elif key in _CARRIED:
            found[key.decode()] = text
    return found
