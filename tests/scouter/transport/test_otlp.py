"""Records and spans over real OTLP, HTTP and gRPC."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from pydantic import SecretStr

from scouter.errors import ConfigError, DataError, ScouterError, TransientError
from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.config import GrpcConfig, OtlpConfig
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import make_items, make_spans
from tests.scouter.transport.receiver import Answer, Receiver, log_records, run_receiver
from tests.support.components import ROOT


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running HTTP server."""
    with run_receiver() as running:
        yield running


class TestHttpContract(TransportContract):
    """The whole contract over OTLP/HTTP."""

    @pytest.fixture(autouse=True)
    def running(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def config(self) -> OtlpConfig:
        return OtlpConfig(endpoint=self.receiver.uri, timeout_s=5)

    @contextmanager
    def away(self) -> Generator[None]:
        with self.receiver.away():
            yield

    def received_drops(self) -> list[str]:
        return self.receiver.drops("/v1/logs")

    def received_records(self, count: int) -> list[dict[str, Any]]:
        logs = self.receiver.logs()
        assert len(logs) >= count
        return [json.loads(log.body.string_value) for log in logs]

    def received_spans(self, count: int) -> list[Span]:
        spans = self.receiver.spans()
        assert len(spans) >= count
        return spans


def test_a_record_is_an_event(receiver: Receiver) -> None:
    without, with_trace = make_items(2)
    config = OtlpConfig(
        endpoint=f"{receiver.uri}/",
        headers={"x-tenant": SecretStr("acme")},
        auth_token=SecretStr("s3cret"),
    )
    transport = config.connect()
    transport.send_records([without, with_trace])
    transport.close()

    (request,) = receiver.requests
    assert request.path == "/v1/logs"
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.headers["x-tenant"] == "acme"
    assert "acme" not in repr(config) + config.model_dump_json()
    plain, traced = receiver.logs()
    assert {plain.event_name, traced.event_name} == {"scouter.eval_record"}
    assert (plain.trace_id, traced.trace_id) == (b"", bytes(15) + b"\x02")
    assert traced.time_unix_nano == with_trace.created_ns


def test_partial_success_of_logs_is_counted(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    partial = ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(
            rejected_log_records=2, error_message="record 1: profile: Field required"
        )
    )
    receiver.answers = [
        Answer(200, partial.SerializeToString()),
        Answer(
            200,
            b'{"partialSuccess": {"rejectedLogRecords": "1"}}',
            {"Content-Type": "application/json"},
        ),
        Answer(200, b"\xff"),
    ]
    transport = OtlpConfig(endpoint=receiver.uri).connect()

    assert [transport.send_records(make_items(5)) for _ in range(3)] == [2, 1, 0]
    transport.close()
    assert "refused 2 for good and says of the first of them: record 1: profile" in caplog.text


class GrpcReceiver:
    """A real gRPC server with the two OTLP services, that can be sent away and scripted."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes, dict[str, str]]] = []
        self.answer: Callable[[grpc.ServicerContext], bytes] | None = None
        self.is_away = False
        self.lock = threading.Lock()
        self.server = grpc.server(ThreadPoolExecutor(2))
        names = {"trace": "TraceService", "logs": "LogsService"}
        for kind, name in names.items():
            taker: Any = self._taker(kind)
            handler = cast(Any, grpc).unary_unary_rpc_method_handler(taker)
            full = f"opentelemetry.proto.collector.{kind}.v1.{name}"
            self.server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(full, {"Export": handler}),)
            )
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _taker(self, kind: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def take(body: bytes, context: grpc.ServicerContext) -> bytes:
            if self.is_away:
                context.abort(grpc.StatusCode.UNAVAILABLE, "gone for a walk")
            if self.answer is not None:
                return self.answer(context)
            metadata = {key: str(value) for key, value in context.invocation_metadata()}
            with self.lock:
                self.calls.append((kind, body, metadata))
            return b""

        return take

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def taken(self, kind: str) -> list[tuple[bytes, dict[str, str]]]:
        with self.lock:
            return [(body, metadata) for each, body, metadata in self.calls if each == kind]


@pytest.fixture
def server() -> Iterator[GrpcReceiver]:
    """A running gRPC server."""
    running = GrpcReceiver()
    yield running
    running.server.stop(None).wait()


class TestGrpcContract(TransportContract):
    """The whole contract over OTLP/gRPC."""

    @pytest.fixture(autouse=True)
    def running(self, server: GrpcReceiver) -> None:
        self.server = server

    def config(self) -> GrpcConfig:
        return GrpcConfig(server_uri=self.server.uri, timeout_s=5)

    @contextmanager
    def away(self) -> Generator[None]:
        self.server.is_away = True
        yield
        self.server.is_away = False

    def received_drops(self) -> list[str]:
        found = [metadata.get("scouter-dropped") for _, metadata in self.server.taken("logs")]
        return [each for each in found if each]

    def received_records(self, count: int) -> list[dict[str, Any]]:
        logs = [log for body, _ in self.server.taken("logs") for log in log_records(body)]
        assert len(logs) >= count
        return [json.loads(log.body.string_value) for log in logs]

    def received_spans(self, count: int) -> list[Span]:
        bodies = [body for body, _ in self.server.taken("trace")]
        requests = map(ExportTraceServiceRequest.FromString, bodies)
        spans = [span for request in requests for span in decode_request(request).spans]
        assert len(spans) >= count
        return spans


def test_calls_carry_token_and_metadata(server: GrpcReceiver) -> None:
    config = GrpcConfig(
        server_uri=server.uri, headers={"X-Tenant": SecretStr("acme")},
        auth_token=SecretStr("s3cret"),
    )  # fmt: skip
    transport = config.connect()
    transport.send_spans(make_spans(1))
    transport.close()

    ((_, metadata),) = server.taken("trace")
    assert metadata["authorization"] == "Bearer s3cret"
    assert metadata["x-tenant"] == "acme"
    assert "acme" not in repr(config) + config.model_dump_json()


def test_partial_success_over_grpc_is_counted(
    server: GrpcReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    spans = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=2))
    logs = ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(
            rejected_log_records=3, error_message="record 2: uid: taken"
        )
    )
    transport = GrpcConfig(server_uri=server.uri).connect()
    server.answer = lambda _: spans.SerializeToString()
    assert transport.send_spans(make_spans(5)) == 2
    server.answer = lambda _: logs.SerializeToString()
    assert transport.send_records(make_items(5)) == 3
    transport.close()
    assert "spans: the far side refused 2 for good and says of the first of them: nothing" in (
        caplog.text
    )
    assert "refused 3 for good and says of the first of them: record 2: uid: taken" in caplog.text


@pytest.mark.parametrize(
    ("code", "raised"),
    [  # the table "gRPC retryable status codes" of the OTLP specification
        (grpc.StatusCode.CANCELLED, TransientError),
        (grpc.StatusCode.UNKNOWN, DataError),
        (grpc.StatusCode.INVALID_ARGUMENT, DataError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, TransientError),
        (grpc.StatusCode.NOT_FOUND, DataError),
        (grpc.StatusCode.ALREADY_EXISTS, DataError),
        (grpc.StatusCode.PERMISSION_DENIED, ConfigError),
        (grpc.StatusCode.UNAUTHENTICATED, ConfigError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, DataError),
        (grpc.StatusCode.FAILED_PRECONDITION, DataError),
        (grpc.StatusCode.ABORTED, TransientError),
        (grpc.StatusCode.OUT_OF_RANGE, TransientError),
        (grpc.StatusCode.UNIMPLEMENTED, ConfigError),
        (grpc.StatusCode.INTERNAL, DataError),
        (grpc.StatusCode.UNAVAILABLE, TransientError),
        (grpc.StatusCode.DATA_LOSS, TransientError),
    ],
)
def test_codes_are_sorted(
    server: GrpcReceiver, code: grpc.StatusCode, raised: type[ScouterError]
) -> None:
    def refuse(context: grpc.ServicerContext) -> bytes:
        context.abort(code, "because")

    server.answer = refuse
    transport = GrpcConfig(server_uri=server.uri).connect()
    with pytest.raises(raised, match=f"{code.name}: because"):
        transport.send_records(make_items(1))
    transport.close()


def test_a_batch_that_is_too_large_is_not_sent_for_ever(server: GrpcReceiver) -> None:
    """The text is that of tonic, a server in Rust; its code may else be tried again."""

    def refuse(context: grpc.ServicerContext) -> bytes:
        text = "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes"
        context.abort(grpc.StatusCode.OUT_OF_RANGE, text)

    server.answer = refuse
    transport = GrpcConfig(server_uri=server.uri).connect()
    with pytest.raises(DataError, match="length too large"):
        transport.send_records(make_items(1))
    transport.close()


def test_a_busy_server_says_when_to_come_back(server: GrpcReceiver) -> None:
    status = Status(code=8, message="busy")
    status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=7, nanos=500_000_000)))

    def refuse(context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    server.answer = refuse
    transport = GrpcConfig(server_uri=server.uri).connect()
    with pytest.raises(TransientError, match="busy") as caught:
        transport.send_records(make_items(1))
    transport.close()

    assert caught.value.retry_after_s == 7.5


def test_details_that_cannot_be_read_are_passed_over(server: GrpcReceiver) -> None:
    """Neither as a status nor inside one; the code alone says to try again."""
    status = Status(code=14)
    status.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")
    transport = GrpcConfig(server_uri=server.uri).connect()
    for details in (b"\xff", status.SerializeToString()):

        def refuse(context: grpc.ServicerContext, details: bytes = details) -> bytes:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")

        server.answer = refuse
        with pytest.raises(TransientError, match="away") as caught:
            transport.send_records(make_items(1))
        assert caught.value.retry_after_s is None
    transport.close()


def test_a_ca_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    config = GrpcConfig(server_uri="https://here:1", ssl_cafile=str(tmp_path / "ca.pem"))

    with pytest.raises(ConfigError, match=r"ca\.pem"):
        config.connect()


def test_a_forked_child_sends_through_a_channel_of_its_own(server: GrpcReceiver) -> None:
    """As under a server that forks its workers after the application is loaded."""
    code = """
import os, sys
from scouter.transport.config import GrpcConfig
from tests.contracts.transport_data import make_items
from scouter.transport.worker import BatchWorker
def opened():
    transport = GrpcConfig(server_uri=sys.argv[1], timeout_s=10).open()
    return transport.send_records, transport.close
worker = BatchWorker("records", opened)
worker.put(make_items(1)[0], 1)
assert worker.flush(20)
pid = os.fork()
worker.put(make_items(1)[0], 1)
done = worker.flush(20) and worker.stats.dropped == {}
if pid == 0:
    os._exit(0 if done else 3)
assert done and os.waitpid(pid, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code, server.uri], cwd=ROOT, check=True, timeout=120)

    assert len(server.taken("logs")) == 3
