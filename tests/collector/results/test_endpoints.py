"""Endpoints that results are sent to, over OTLP/HTTP and OTLP/gRPC, against real servers."""

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from collector.results.endpoint import connect
from scouter.errors import ConfigError, DataError, TransientError
from tests.contracts.results_endpoint import EndpointContract, names_of, request_of
from tests.support.certificates import Certificates, make_certificates
from tests.support.far_side import ENDLESS, far_side
from tests.support.otlp_logs_server import Fault, LogsServer, OtlpGrpcLogsServer, OtlpLogsServer

OWN_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
CODES = set(grpc.StatusCode) - {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}


class TestHttp(EndpointContract):
    passing: ClassVar = [
        *map(Fault, (301, 401, 403, 404, 408, 429, 500, 502, 503, 504)),
        Fault(429, 7), Fault(503, 0),
    ]  # fmt: skip
    final: ClassVar = [Fault(400), Fault(413), Fault(422)]

    @pytest.fixture
    def server(self) -> Iterator[LogsServer]:
        server = OtlpLogsServer()
        yield server
        server.stop()


class TestGrpc(EndpointContract):
    """Refusals by size, as C-core, Go, Java, .NET and tonic write them."""

    passing: ClassVar = [
        *(Fault(code) for code in sorted(CODES, key=lambda code: code.name)),
        Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, 7.5),
        Fault(grpc.StatusCode.UNAVAILABLE, 0),
        # A quota that is filled again is no bound of a message.
        Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, 5, "batch too large for the quota left"),
        Fault(grpc.StatusCode.UNKNOWN, None, "too large"),
    ]
    final: ClassVar = [
        Fault(grpc.StatusCode.INVALID_ARGUMENT),
        Fault(grpc.StatusCode.INVALID_ARGUMENT, 5),
        *(
            Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, None, text)
            for text in (
                "Decompressed message larger than max",
                "SERVER: Received message larger than max (5000044 vs. 4194304)",
                "grpc: received message after decompression larger than max (5 vs. 4)",
                "gRPC message exceeds maximum size 4194304: 5000000",
                "Received message exceeds the maximum configured message size.",
                "Error decompressing: size limit, of 4 bytes, exceeded while decompressing message",
            )
        ),
        Fault(
            grpc.StatusCode.OUT_OF_RANGE,
            None,
            "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
        ),
    ]

    @pytest.fixture
    def server(self) -> Iterator[LogsServer]:
        server = OtlpGrpcLogsServer()
        yield server
        server.stop()

    def test_a_message_that_is_too_large_holds_up_nothing(self, server: LogsServer) -> None:
        """The bound of most servers is 4 MiB; nothing but the text tells that it was crossed."""
        endpoint = connect(server.url, {})
        with pytest.raises(DataError, match="larger than max"):
            endpoint.send(request_of("a", text="x" * (4 * 2**20)))
        assert endpoint.send(request_of("b")) == 0
        endpoint.close()
        assert names_of(server) == ["b"]

    def test_an_answer_that_is_no_protobuf_was_taken(self) -> None:
        server = grpc.server(ThreadPoolExecutor(1))
        taken: list[bytes] = []

        def export(data: bytes, _: grpc.ServicerContext) -> bytes:
            taken.append(data)
            return b"\xff"

        service = "opentelemetry.proto.collector.logs.v1.LogsService"
        handler = grpc.method_handlers_generic_handler(
            service, {"Export": grpc.unary_unary_rpc_method_handler(export)}
        )
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        endpoint = connect(f"grpc://localhost:{port}/", {})
        assert endpoint.send(request_of("a")) == 0
        assert [ExportLogsServiceRequest.FromString(each) for each in taken] == [request_of("a")]
        endpoint.close()
        server.stop(None).wait()

    def test_a_host_with_the_name_of_a_scheme_is_a_host(self) -> None:
        endpoint = connect("grpc://unix:4317", {}, timeout_s=0.5)
        with pytest.raises(TransientError) as caught:
            endpoint.send(request_of("a"))
        assert "No such file" not in str(caught.value)
        endpoint.close()

    @pytest.mark.parametrize("name", ["grpc-timeout", "x-trace-bin", "X-Trace-Bin", "a!b"])
    def test_headers_that_are_no_metadata_are_refused_at_the_start(self, name: str) -> None:
        with pytest.raises(ConfigError, match=f"results_otlp_headers: '{name}' cannot") as caught:
            connect("grpc://127.0.0.1:4317", {name: SecretStr("s3cret")})
        assert "s3cret" not in str(caught.value)


# --- TLS ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("no program 'openssl': apt install openssl")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OtlpGrpcLogsServer]:
    """A server with TLS, whose authority is none of the system's."""
    for name in (OWN_ROOTS, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    server = OtlpGrpcLogsServer(certificates)
    yield server
    server.stop()


def test_the_systems_authorities_are_trusted_and_no_other(
    secure: OtlpGrpcLogsServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secure.url.startswith("grpcs://")
    for other in (None, certificates.other_ca):
        if other is not None:
            monkeypatch.setenv("SSL_CERT_FILE", str(other))
        endpoint = connect(secure.url, {})
        with pytest.raises(TransientError, match=r"UNAVAILABLE.*(?i:certificate)"):
            endpoint.send(request_of("a"))
        endpoint.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    endpoint = connect(secure.url, {})
    assert endpoint.send(request_of("a")) == 0
    endpoint.close()
    assert names_of(secure) == ["a"]


def test_authorities_in_a_folder(
    secure: OtlpGrpcLogsServer,
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Debian has them: a link by the digest of the name, and some that lead nowhere."""
    shutil.copy(certificates.ca, tmp_path / "ca.pem")
    subprocess.run(["openssl", "rehash", tmp_path], check=True, capture_output=True, timeout=120)
    (tmp_path / "01234567.0").symlink_to(tmp_path / "gone.pem")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    no_file = ssl.get_default_verify_paths()._replace(cafile=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: no_file)
    endpoint = connect(secure.url, {})
    assert endpoint.send(request_of("a")) == 0
    endpoint.close()


# --- the wrong protocol ---------------------------------------------------------------------


def test_http_to_a_grpc_server_names_the_other_address() -> None:
    server = OtlpGrpcLogsServer()
    endpoint = connect(f"http://127.0.0.1:{server.port}/base", {})
    with pytest.raises(TransientError) as caught:
        endpoint.send(request_of("a"))
    assert str(caught.value).endswith(f"results_otlp is {server.url}")
    endpoint.close()
    server.stop()


def test_grpc_to_an_http_server_names_the_other_address() -> None:
    server = OtlpLogsServer()
    endpoint = connect(f"grpc://127.0.0.1:{server.port}", {})
    with pytest.raises(TransientError) as caught:
        endpoint.send(request_of("a"))
    assert str(caught.value).endswith(f"results_otlp is {server.url}")
    endpoint.close()
    server.stop()


def test_an_endpoint_that_is_only_away_is_suspected_of_nothing() -> None:
    server = OtlpLogsServer()
    server.stop()
    for scheme in ("http", "grpc"):
        endpoint = connect(f"{scheme}://127.0.0.1:{server.port}", {})
        with pytest.raises(TransientError) as caught:
            endpoint.send(request_of("a"))
        assert "results_otlp" not in str(caught.value)
        endpoint.close()


def test_only_those_who_use_grpc_load_it() -> None:
    code = (
        "import sys; from collector.results.endpoint import connect; "
        "connect('http://127.0.0.1:4318', {}); print('grpc' in sys.modules); "
        "connect('grpc://127.0.0.1:4317', {}); print('grpc' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "True"]


def test_what_is_missing_for_grpc_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "collector.results.grpc_endpoint", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError, match=r"needs grpc: pip install 'scouter-agents\[collector\]'"):
        connect("grpc://127.0.0.1:4317", {})


@pytest.mark.parametrize("packing", ENDLESS)
def test_an_answer_without_an_end_is_read_to_a_bound(packing: str) -> None:
    """The status says that the results were taken."""
    with far_side(ENDLESS[packing]) as far:
        endpoint = connect(far.url, {})
        assert endpoint.send(request_of("a")) == 0
        assert far.wait_until_hung_up()
        endpoint.close()
