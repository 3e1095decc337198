"""OTLP endpoints for logs: real servers that read protobuf, and fail as they are told."""

import contextlib
import gzip
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as services
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from tests.support.certificates import Certificates


class Fault(NamedTuple):
    """An answer instead of taking a request."""

    code: int | grpc.StatusCode
    """The status of HTTP, or that of gRPC."""
    retry_after_s: float | None = None
    text: str = "told to fail"


class Event(NamedTuple):
    """One log record as it came in."""

    log: LogRecord
    attributes: dict[str, Any]
    resource: dict[str, Any]


class LogsServer(ABC):
    """Takes logs and keeps what it took; `stop` and `start` are an outage."""

    unavailable: ClassVar[int | grpc.StatusCode]
    """The code of its protocol for: not now."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.requests: list[Mapping[str, str]] = []
        """Headers of every request, those that were answered by a fault too."""
        self.faults: deque[Fault] = deque()
        self.refused = frozenset[str]()
        """Evaluation names that it refuses for good, the request with them."""
        self.partial = 0
        """So many records of each request it says to have refused."""
        self.port = 0
        self.start()

    @property
    @abstractmethod
    def url(self) -> str:
        """`scheme://host:port`, also after a restart."""

    @abstractmethod
    def start(self) -> None:
        """Take requests, always on the same port."""

    @abstractmethod
    def stop(self) -> None:
        """Take nothing more; connections are refused."""

    def names(self) -> list[tuple[str, str, int]]:
        """Record, task and revision of every event, in order."""
        keys = ("scouter.record.uid", "gen_ai.evaluation.name", "scouter.evaluation.revision")
        return [cast(Any, tuple(each.attributes[key] for key in keys)) for each in self.events]

    def _take(self, request: ExportLogsServiceRequest) -> ExportLogsServiceResponse | None:
        """Keep what came; None to refuse it for good."""
        events = _events(request)
        if any(each.attributes["gen_ai.evaluation.name"] in self.refused for each in events):
            return None
        self.events += events
        response = ExportLogsServiceResponse()
        response.partial_success.rejected_log_records = self.partial
        return response


class OtlpLogsServer(LogsServer):
    """OTLP/HTTP: `POST /v1/logs`."""

    unavailable = 503
    _server: ThreadingHTTPServer | None = None

    def __init__(self) -> None:
        self._connections: list[socket.socket] = []
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are kept

            def setup(self) -> None:
                super().setup()
                outer._connections.append(self.connection)

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - says nothing
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for each in self._connections:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.requests.append({key.lower(): value for key, value in handler.headers.items()})
        status, headers, answer = 200, dict[str, str](), b""
        if self.faults:
            fault = self.faults.popleft()
            assert isinstance(fault.code, int)
            status, answer = fault.code, fault.text.encode()
            if fault.retry_after_s is not None:
                headers["Retry-After"] = f"{fault.retry_after_s:g}"
        elif handler.path != "/v1/logs":
            status = 404
        else:
            response = self._take(ExportLogsServiceRequest.FromString(gzip.decompress(body)))
            status, answer = (400, b"") if response is None else (200, response.SerializeToString())
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/x-protobuf")
        handler.end_headers()
        handler.wfile.write(answer)


class OtlpGrpcLogsServer(LogsServer):
    """OTLP/gRPC: the generated service.

    Args:
        certificates: To talk TLS.
    """

    unavailable = grpc.StatusCode.UNAVAILABLE
    _server: grpc.Server | None = None

    def __init__(self, certificates: Certificates | None = None) -> None:
        self._certificates = certificates
        super().__init__()

    @property
    def url(self) -> str:
        scheme = "grpcs" if self._certificates else "grpc"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        servicer: Any = services
        servicer.add_LogsServiceServicer_to_server(_servicer(self), server)
        address = f"127.0.0.1:{self.port}"
        if self._certificates is None:
            self.port = server.add_insecure_port(address)
        else:
            found = self._certificates
            pair = (found.key.read_bytes(), found.certificate.read_bytes())
            self.port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        server.start()
        self._server = server

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop(5).wait()  # what was taken is answered, else it comes again

    def export(
        self, request: ExportLogsServiceRequest, context: grpc.ServicerContext
    ) -> ExportLogsServiceResponse:
        """Answer one call."""
        metadata: Any = context.invocation_metadata()
        self.requests.append({key: str(value) for key, value in metadata})
        if self.faults:
            _abort(context, self.faults.popleft())
        response = self._take(request)
        if response is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused for good")
        return response


def _servicer(server: OtlpGrpcLogsServer) -> object:
    class Servicer(cast(Any, services).LogsServiceServicer):
        def Export(
            self, request: ExportLogsServiceRequest, context: grpc.ServicerContext
        ) -> ExportLogsServiceResponse:
            return server.export(request, context)

    return Servicer()


def _abort(context: grpc.ServicerContext, fault: Fault) -> NoReturn:
    assert isinstance(fault.code, grpc.StatusCode)
    if fault.retry_after_s is not None:
        info = RetryInfo()
        info.retry_delay.FromMilliseconds(round(fault.retry_after_s * 1000))
        number: int = cast(Any, fault.code).value[0]
        status, detail = Status(code=number, message=fault.text), AnyMessage()
        detail.Pack(info)
        status.details.append(detail)
        found = ("grpc-status-details-bin", status.SerializeToString())
        context.set_trailing_metadata((found,))
    context.abort(fault.code, fault.text)
    raise AssertionError  # abort raises


def _events(request: ExportLogsServiceRequest) -> list[Event]:
    return [
        Event(log, _read(log.attributes), _read(resource.resource.attributes))
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for log in scope.log_records
    ]


def _read(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
