"""Hostile and careless connections to the gRPC door: they are closed, and hold little memory."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import pytest

from tests.bench.collector import process_id, status_mb
from tests.support.collector_process import CollectorProcess
from tests.support.otlp import GrpcClient

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""With an empty frame of settings. Source: RFC 9113, 3.4 and 6.5."""
PING = b"\0\0\x08\6\0\0\0\0\0" + b"12345678"


def start_grpc(start_collector: Callable[..., CollectorProcess], *flags: str) -> CollectorProcess:
    return start_collector("--grpc", "127.0.0.1:0", *flags)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """For the tests that need no flags and leave nothing in it."""
    collector = CollectorProcess(tmp_path_factory.mktemp("collector"), "--grpc", "127.0.0.1:0")
    collector.start()
    yield collector
    collector.close()


@pytest.fixture
def connect() -> Iterator[Callable[[CollectorProcess], socket.socket]]:
    """Makes connections, and closes them in the end."""
    with ExitStack() as stack:

        def make(collector: CollectorProcess) -> socket.socket:
            host, _, port = collector.grpc.partition(":")
            return stack.enter_context(socket.create_connection((host, int(port)), timeout=120))

        yield make


Connect = Callable[[CollectorProcess], socket.socket]


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    try:
        while part := connection.recv(65_536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def code_of(channel: grpc.Channel, body: bytes) -> grpc.StatusCode:
    try:
        channel.unary_unary(EXPORT)(body, timeout=120)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def test_silent_and_idle_connections_are_closed(
    start_collector: Callable[..., CollectorProcess], connect: Connect
) -> None:
    """A second after they began, whether or not they have said that they speak HTTP/2."""
    collector = start_grpc(start_collector, "--keep-alive-s", "1s")
    silent, idle = connect(collector), connect(collector)
    idle.sendall(PREFACE)
    for each in (silent, idle):
        assert b"connection idle" in rest(each) or each is silent  # the reason that GOAWAY gives
    with grpc.insecure_channel(collector.grpc) as channel:
        assert code_of(channel, b"") is grpc.StatusCode.OK


def test_pings_without_an_end_end_the_connection(
    collector: CollectorProcess, connect: Connect
) -> None:
    pinging = connect(collector)
    pinging.sendall(PREFACE + PING * 100)
    assert b"too_many_pings" in rest(pinging)


def test_no_more_connections_than_were_requested(
    start_collector: Callable[..., CollectorProcess], connect: Connect
) -> None:
    """Those beyond are closed at once; when the silent ones had their time, there is room again."""
    collector = start_grpc(start_collector, "--max-connections", "20", "--keep-alive-s", "3s")
    silent = [connect(collector) for _ in range(30)]
    greeted = [bool(rest(each)) for each in silent]  # with the frame of settings
    assert sum(greeted) == 20
    assert collector.get("/healthz")["status"] == "ok"
    with grpc.insecure_channel(collector.grpc) as channel:
        assert code_of(channel, b"") is grpc.StatusCode.OK


def test_messages_that_nobody_has_requested_take_little_memory(
    collector: CollectorProcess,
) -> None:
    """Eighty messages of 4 MB at once took over 200 MB; what is read has room for two."""
    pid = process_id(collector)
    with ExitStack() as stack:
        channels = [
            stack.enter_context(
                grpc.insecure_channel(
                    collector.grpc, options=[("grpc.use_local_subchannel_pool", number)]
                )
            )
            for number in range(1, 5)
        ]
        for channel in channels:
            assert code_of(channel, b"") is grpc.StatusCode.OK
        before_mb = status_mb(pid, "VmHWM")
        message = bytes(4_000_000)  # no protobuf: it ends where it is decoded
        calls: list[grpc.Future[bytes]] = [
            channel.unary_unary(EXPORT).future(message, timeout=120)
            for channel in channels
            for _ in range(20)
        ]
        assert all(call.exception() is not None for call in calls)
    assert status_mb(pid, "VmHWM") < before_mb + 100


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_bomb_takes_no_memory(collector: CollectorProcess, compression: grpc.Compression) -> None:
    """128 MiB of zeros; what it is decompressed to is bounded by --max-body."""
    pid = process_id(collector)
    before_mb = status_mb(pid, "VmHWM")
    client = GrpcClient(collector.grpc)
    assert client.refusal(bytes(2**27), compression=compression).code == "RESOURCE_EXHAUSTED"
    client.close()
    assert status_mb(pid, "VmHWM") < before_mb + 64
