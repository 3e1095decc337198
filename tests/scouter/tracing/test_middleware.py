"""One server span per request, whatever the application does."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry import baggage, trace

from scouter.model.span import Span, StatusCode
from scouter.tracing.exporters import TestSpanExporter
from scouter.tracing.middleware import App, Scope, ScouterTracingMiddleware
from scouter.tracing.tracer import get_tracer, init_tracer

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def exporter() -> TestSpanExporter:
    return TestSpanExporter(batch_export=False)


@pytest.fixture
def batching() -> TestSpanExporter:
    """Gets spans from a queue, after a minute unless somebody flushes."""
    return TestSpanExporter(batch_export=True)


def served(app: App, exporter: TestSpanExporter) -> ScouterTracingMiddleware:
    return ScouterTracingMiddleware(app, init_tracer("shop", exporter=exporter))


def ask(
    app: App, exporter: TestSpanExporter, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, Span]:
    """Send one request through the middleware; the status and the one span."""

    async def send() -> int:
        transport = httpx.ASGITransport(served(app, exporter))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://shop:8080") as client:
            return (await client.get(path, headers=headers)).status_code

    status = asyncio.run(send())
    (span,) = exporter.spans
    return status, span


def shop() -> FastAPI:
    app = FastAPI()

    @app.get("/items/{item}")
    async def read(item: str) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {"item": item}

    return app


def test_a_request_continues_the_callers_trace(exporter: TestSpanExporter) -> None:
    """Only the headers of W3C are read; no credential is on the span."""
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "authorization": "Bearer secret"}
    status, span = ask(shop(), exporter, "/items/7", headers)

    assert status == 200
    assert (span.name, span.span_kind) == ("GET /items/7", "SERVER")
    assert (span.trace_id, span.parent_span_id) == (TRACE, PARENT)
    assert span.attributes == {
        "url.path": "/items/7",
        "url.scheme": "http",
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/items/{item}",
        "network.protocol.version": "1.1",
        "server.address": "shop",
        "server.port": 8080,
    }
    assert span.status is StatusCode.UNSET


def test_headers_in_several_lines_are_one_list(exporter: TestSpanExporter) -> None:
    """As HTTP has it; a proxy may add a line of its own."""
    entries: dict[str, object] = {}

    async def app(scope: Scope, receive: object, send: object) -> None:
        del scope, receive, send
        entries.update(baggage.get_all())
        state = trace.get_current_span().get_span_context().trace_state
        entries.update(state)

    parent = f"00-{TRACE}-{PARENT}-01".encode()
    lines = [(b"baggage", b"a=1"), (b"Baggage", b"b=2"), (b"tracestate", b"v=3")]
    headers = [(b"traceparent", parent), *lines, (b"tracestate", b"w=4")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    unused: Any = None
    asyncio.run(served(app, exporter)(scope, unused, unused))

    assert entries == {"a": "1", "b": "2", "v": "3", "w": "4"}


def test_a_request_without_a_caller_is_a_root(exporter: TestSpanExporter) -> None:
    status, span = ask(shop(), exporter, "/nowhere")

    assert (status, span.parent_span_id, span.status) == (404, None, StatusCode.UNSET)


def answering(status: int) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize(("status", "expected"), [(499, StatusCode.UNSET), (500, StatusCode.ERROR)])
def test_a_status_of_500_is_an_error(
    exporter: TestSpanExporter, status: int, expected: StatusCode
) -> None:
    assert ask(answering(status), exporter, "/")[1].status is expected


async def _nothing(*_: object) -> Any:
    return {"type": "http.request"}


def test_an_exception_passes_and_is_an_error(exporter: TestSpanExporter) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("boom")

    scope: Scope = {"type": "http", "method": "POST", "path": "/fail", "headers": []}
    with pytest.raises(RuntimeError, match="boom"):
        asyncio.run(served(app, exporter)(scope, _nothing, _nothing))

    (span,) = exporter.spans
    assert (span.name, span.status) == ("POST /fail", StatusCode.ERROR)


@pytest.mark.parametrize(("kind", "names"), [("websocket", ["WEBSOCKET /ws"]), ("lifespan", [])])
def test_other_kinds_of_connections(
    exporter: TestSpanExporter, kind: str, names: list[str]
) -> None:
    """A WebSocket is a span for as long as it is open; a lifespan is none."""
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    scope: Scope = {"type": kind, "path": "/ws", "headers": []}
    asyncio.run(served(app, exporter)(scope, _nothing, _nothing))

    assert reached == [kind]
    assert [span.name for span in exporter.spans] == names


# --- the end of a server ------------------------------------------------------------------------


def live(app: App, exporter: TestSpanExporter) -> tuple[list[str], list[int]]:
    """Start and end an application as a server does.

    Returns:
        Messages to the server, and the number of spans delivered at each of them.
    """
    events, delivered = list[str](), list[int]()
    wants = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        return {"type": next(wants)}

    async def send(message: Any) -> None:
        events.append(message["type"].removeprefix("lifespan."))
        delivered.append(len(exporter.spans))

    asyncio.run(served(app, exporter)({"type": "lifespan"}, receive, send))
    return events, delivered


def tracing(name: str) -> None:
    with get_tracer("app").start_as_current_span(name):
        pass


def test_spans_are_delivered_before_a_server_ends(batching: TestSpanExporter) -> None:
    """Those of the application's own end, too."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        tracing("start")
        yield
        tracing("end")

    assert live(FastAPI(lifespan=lifespan), batching) == (
        ["startup.complete", "shutdown.complete"], [0, 2],
    )  # fmt: skip


def test_an_application_that_knows_no_lifespan_may_be_without(batching: TestSpanExporter) -> None:
    async def plain(scope: Scope, receive: Any, send: Any) -> None:
        tracing("start")
        assert scope["type"] == "http"

    assert live(plain, batching) == (["startup.complete", "shutdown.complete"], [0, 1])


def test_one_that_fails_at_its_start_fails(batching: TestSpanExporter) -> None:
    async def failing(scope: Scope, receive: Any, send: Any) -> None:
        await receive()
        raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        live(failing, batching)
