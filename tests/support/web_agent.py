"""A web application with an agent in it, for real servers with several worker processes.

`wsgi` and `asgi` answer `GET /CASE`; spans and the record of the case go to the collector that
SCOUTER_SERVER_URI names. Everything is set up on import, as in an application: under a server that
preloads it, before the workers are forked.
"""

import os
from collections.abc import Callable, Iterable

from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.middleware import Receive, Scope, ScouterTracingMiddleware, Send
from scouter.tracing.tracer import get_current_active_span, get_tracer
from scouter.transport.config import HttpConfig
from tests.support.traced_agent import ALIAS, helper_profile

StartResponse = Callable[[str, list[tuple[str, str]]], object]

_queue = ScouterQueue.from_profile(helper_profile(), HttpConfig())
ScouterInstrumentor().instrument(scouter_queue=_queue)
_tracer = get_tracer("web-agent")


def answer(case: str) -> bytes:
    """Work on a case: three spans below the current one, or below a root, and a record.

    Returns:
        The process that did it.
    """
    with _tracer.start_as_current_span("invoke_agent helper", attributes={"case.id": case}) as span:
        for name in ("chat scripted", "execute_tool search", "chat scripted"):
            operation = name.split()[0]
            attributes = {"gen_ai.operation.name": operation}
            if operation == "execute_tool":
                attributes["gen_ai.tool.name"] = "search"
                attributes["gen_ai.tool.call.arguments"] = f'{{"query": "question {case}"}}'
            with _tracer.start_as_current_span(name, attributes=attributes):
                pass
        span.add_queue_item(ALIAS, EvalRecord({"case": case, "answer": "42"}, case))
    return str(os.getpid()).encode()


def wsgi(environ: dict[str, str], start_response: StartResponse) -> Iterable[bytes]:
    """A WSGI application."""
    body = answer(environ["PATH_INFO"].strip("/"))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def _asgi(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http", "knows nothing of the lifespan protocol"
    case = str(scope["path"]).strip("/")
    get_current_active_span().set_attribute("case.id", case)  # that of the server is the root
    body = answer(case)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


asgi = ScouterTracingMiddleware(_asgi)
