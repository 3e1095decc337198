"""An OTLP/HTTP endpoint for logs: a real server that reads protobuf, and fails as it is told."""

import gzip
import threading
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord


class Fault(NamedTuple):
    """An answer instead of taking a request."""

    status: int
    headers: Mapping[str, str] = {}


class Event(NamedTuple):
    """One log record as it came in."""

    log: LogRecord
    attributes: dict[str, Any]
    resource: dict[str, Any]


class OtlpLogsServer:
    """Takes `POST /v1/logs` and keeps what it took; `stop` and `start` are an outage.

    Args:
        refused: Evaluation names that it refuses for good, the request with them.
    """

    def __init__(self, *, refused: frozenset[str] = frozenset(), partial: int = 0) -> None:
        self.events: list[Event] = []
        self.requests: list[Mapping[str, str]] = []
        """Headers of every request, those that were answered by a fault too."""
        self.faults: deque[Fault] = deque()
        self._refused, self._partial = refused, partial
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """`http://host:port`, also after a restart."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Take requests, always on the same port."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - says nothing
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Take nothing more; connections are refused."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def names(self) -> list[tuple[str, str, int]]:
        """Record, task and revision of every event, in order."""
        keys = ("scouter.record.uid", "gen_ai.evaluation.name", "scouter.evaluation.revision")
        return [cast(Any, tuple(each.attributes[key] for key in keys)) for each in self.events]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.requests.append({key.lower(): value for key, value in handler.headers.items()})
        status, headers, answer = 200, dict[str, str](), b""
        if self.faults:
            status, more = self.faults.popleft()
            headers.update(more)
        elif handler.path != "/v1/logs":
            status = 404
        else:
            events = _events(gzip.decompress(body))
            if any(each.attributes["gen_ai.evaluation.name"] in self._refused for each in events):
                status = 400
            else:
                self.events += events
                response = ExportLogsServiceResponse()
                response.partial_success.rejected_log_records = self._partial
                answer = response.SerializeToString()
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/x-protobuf")
        handler.end_headers()
        handler.wfile.write(answer)


def _events(data: bytes) -> list[Event]:
    request = ExportLogsServiceRequest.FromString(data)
    return [
        Event(log, _read(log.attributes), _read(resource.resource.attributes))
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for log in scope.log_records
    ]


def _read(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
