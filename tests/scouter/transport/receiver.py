"""A real HTTP server that takes what the SDK sends, and answers as configured."""

import gzip
import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from scouter.model.otlp import decode_request
from scouter.model.span import Span


def log_records(body: bytes) -> list[LogRecord]:
    """The log records of an `ExportLogsServiceRequest`."""
    request = ExportLogsServiceRequest.FromString(body)
    return [
        log
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for log in scope.log_records
    ]


@dataclass
class Answer:
    """The answer to one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Request:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """The server: answers queued in `answers` first, then always 200.

    Args:
        port: Port to listen on; 0 for one that is free.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.lock = threading.Lock()
        self.max_bytes = sys.maxsize  # of a body
        self._is_away = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {key.lower(): value for key, value in self.headers.items()}
                answer = receiver.take(Request(self.path, headers, body))
                self.send_response(answer.status)
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True

    @property
    def uri(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, request: Request) -> Answer:
        """Store a request that is answered with success; give the configured answer."""
        with self.lock:
            answer = self.answers.pop(0) if self.answers else Answer()
            if self._is_away:
                answer = Answer(503)
            elif len(request.body) > self.max_bytes:
                answer = Answer(413)
            if answer.status == 200:
                self.requests.append(request)
            return answer

    @contextmanager
    def away(self) -> Generator[None]:
        """Inside the block, take nothing."""
        self._is_away = True
        try:
            yield
        finally:
            self._is_away = False

    def drops(self, path: str) -> list[str]:
        """Reports of drops by senders, on requests to one path."""
        with self.lock:
            found = [r.headers.get("scouter-dropped") for r in self.requests if r.path == path]
        return [each for each in found if each]

    def records(self) -> list[dict[str, Any]]:
        """All records taken so far."""
        with self.lock:
            bodies = [r.body for r in self.requests if r.path == "/v1/records"]
        return [record for body in bodies for record in json.loads(body)["records"]]

    def logs(self) -> list[LogRecord]:
        """All OTLP log records taken so far."""
        with self.lock:
            bodies = [r.body for r in self.requests if r.path == "/v1/logs"]
        return [log for body in bodies for log in log_records(body)]

    def spans(self) -> list[Span]:
        """All spans taken so far."""
        with self.lock:
            bodies = [r.body for r in self.requests if r.path == "/v1/traces"]
        found: list[Span] = []
        for body in bodies:
            found += decode_request(ExportTraceServiceRequest.FromString(body)).spans
        return found


@contextmanager
def run_receiver(port: int = 0) -> Generator[Receiver]:
    """A server that runs until the block is left."""
    receiver = Receiver(port)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join(120)
