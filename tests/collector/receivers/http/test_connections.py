"""Hostile and careless connections: others are answered, and what is stored of them is bounded."""

import re
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from collector.access.tokens import Scope, TokenFile
from tests.bench.collector import process_id, status_mb
from tests.support.certificates import make_certificates
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
POST = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class FewFiles(CollectorProcess):
    """A collector that may open 240 files: 200 for itself, and so 40 connections."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'ulimit -n 240 && exec "$@"', "sh", sys.executable, "-m"]


@pytest.fixture(scope="module")
def few_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    collector = FewFiles(tmp_path_factory.mktemp("few"))
    collector.start()
    yield collector
    collector.close()


@pytest.fixture
def sockets() -> Iterator[Callable[..., socket.socket]]:
    """Makes connections, from any address of this machine, and closes them in the end."""
    with ExitStack() as stack:

        def make(collector: CollectorProcess, address: str = "127.0.0.1") -> socket.socket:
            host, _, port = collector.address.partition(":")
            return stack.enter_context(
                socket.create_connection((host, int(port)), 120, source_address=(address, 0))
            )

        yield make


Connect = Callable[..., socket.socket]


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    try:
        while part := connection.recv(65_536):
            answer += part
    except ConnectionResetError:
        pass  # closed at once
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def is_healthy(connection: socket.socket) -> bool:
    connection.sendall(LAST)
    return statuses(rest(connection)) == [200]


def rest_of(connection: socket.socket, path: bytes) -> bytes:
    connection.sendall(LAST.replace(b"/healthz", path))
    return rest(connection)


def size_of(collector: CollectorProcess, path: str) -> int:
    with httpx.Client(base_url=collector.url, timeout=120) as http:
        return len(http.get(path).content)


def push(connections: Sequence[socket.socket], data: bytes) -> None:
    """Send as much as the other side takes, to all, until it takes nothing for a moment."""
    left = {each: memoryview(data) for each in connections}
    for each in connections:
        each.setblocking(False)
    while writable := select.select([], [each for each in left if left[each]], [], 0.3)[1]:
        for each in writable:
            left[each] = left[each][each.send(left[each][:65_536]) :]


@pytest.mark.parametrize("request_", [b"GET / HTTP/1.1\r\n\r\n", HEALTH], ids=["404", "200"])
def test_a_burst_of_requests_is_not_stored(
    module_collector: CollectorProcess, sockets: Connect, request_: bytes
) -> None:
    """Ten times 250 kB of requests, whose answers nobody reads, took 330 MB once."""
    collector = module_collector
    assert is_healthy(sockets(collector))
    before_mb = status_mb(process_id(collector), "VmHWM")
    push([sockets(collector) for _ in range(10)], request_ * (250_000 // len(request_)))
    for _ in range(10):
        assert is_healthy(sockets(collector))
    assert status_mb(process_id(collector), "VmHWM") < before_mb + 30


def test_requests_in_a_burst_are_answered_one_after_the_other(
    module_collector: CollectorProcess, sockets: Connect
) -> None:
    """The burst may be cut anywhere: bodies with and without a length, an end in two halves."""
    collector = module_collector
    body = b"\r\n\r\n{}\r\n\r\n"
    parts = (
        HEALTH, POST, b"Content-Length: %d\r\n\r\n" % len(body), body,
        POST, b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body), body, b"\r\n0\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n\r\n\r\n", LAST,
    )  # fmt: skip
    whole = b"".join(parts)
    expected = [200, 200, 200, 404, 200]
    for cut in (0, len(HEALTH) - 3, len(HEALTH) - 1, whole.index(b"\r\n0\r\n\r\n") + 4):
        connection = sockets(collector)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(whole[:cut])
        assert is_healthy(sockets(collector))  # so that the first half is there
        connection.sendall(whole[cut:])
        assert statuses(rest(connection)) == expected, cut
    connection = sockets(collector)
    for byte in HEALTH + LAST:
        connection.sendall(bytes([byte]))
    assert statuses(rest(connection)) == [200, 200]


def test_who_asks_for_another_protocol_is_answered_once(
    module_collector: CollectorProcess, sockets: Connect
) -> None:
    """The bytes behind may be of that protocol, or hidden from a proxy in front."""
    collector = module_collector
    for head in (b"GET /healthz", b"POST /healthz"):
        connection = sockets(collector)
        request = (
            head + HEALTH[len(b"GET /healthz") : -2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
        )
        connection.sendall(request + b"Content-Length: %d\r\n\r\n" % len(HEALTH) + HEALTH)
        assert statuses(rest(connection)) == [200 if head.startswith(b"GET") else 405]
    preface = sockets(collector)
    preface.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HEALTH)
    assert statuses(rest(preface)) == [400]


def drop_by_drop(connection: socket.socket, drop: bytes) -> bytes:
    """Send again and again until the other side closes; what it answered."""
    answer, began = b"", time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < 20:
        try:
            connection.sendall(drop)
            if not (part := connection.recv(65_536)):
                return answer
            answer += part
        except TimeoutError:
            continue
        except ConnectionError:
            return answer
    raise AssertionError("still open")


def test_a_connection_without_a_request_is_closed_in_time(
    start_collector: Callable[..., CollectorProcess], sockets: Connect
) -> None:
    """A second after its begin or its last answer, whatever comes of the next head meanwhile."""
    collector = start_collector("--keep-alive-s", "1s")
    silent, used, slow, slow_again = (sockets(collector) for _ in range(4))
    used.sendall(HEALTH)
    slow.sendall(HEALTH[:-2])
    slow_again.sendall(HEALTH)
    assert statuses(drop_by_drop(slow, b"X: 1\r\n")) == []
    assert statuses(drop_by_drop(slow_again, b"\r\n")) == [200]
    assert rest(silent) == b""
    assert statuses(rest(used)) == [200]


def test_a_new_connection_is_served_whoever_holds_all_the_others(
    few_files: CollectorProcess, sockets: Connect
) -> None:
    """Of 40 that fit, the silent ones make room, and not the one whose request is on its way."""
    uploading = sockets(few_files)
    uploading.sendall(POST + b"Content-Length: 2\r\nConnection: close\r\n\r\n{")
    assert is_healthy(sockets(few_files))
    silent = [sockets(few_files) for _ in range(60)]  # with the first one they are 61
    for _ in range(5):  # each of them leaves before the next one comes
        assert is_healthy(sockets(few_files))
    assert [rest(each) for each in silent[:22]] == [b""] * 22
    assert is_healthy(silent[22])
    uploading.sendall(b"}")
    assert statuses(rest(uploading)) == [200]
    assert is_healthy(silent[-1])
    log = (few_files.folder / "collector.log").read_text().splitlines()
    assert sum("40 connections are open" in line for line in log) == 1
    assert len(log) < 5


def test_where_all_are_uploading_the_first_of_them_makes_room(
    few_files: CollectorProcess, sockets: Connect
) -> None:
    uploading = [sockets(few_files) for _ in range(40)]
    for each in uploading:
        each.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert each.recv(100).startswith(b"HTTP/1.1 100 ")  # its head was read
    assert is_healthy(sockets(few_files))
    assert rest(uploading[0]) == b""
    uploading[1].sendall(b"{}")
    assert uploading[1].recv(100).startswith(b"HTTP/1.1 200 ")


def test_who_takes_no_answer_makes_room(few_files: CollectorProcess, sockets: Connect) -> None:
    """All 40 that fit have requested far more than the system holds, and read none of it."""
    page = rest_of(sockets(few_files), b"/login").decode()
    style = max(re.findall(r'/static/[^"]+', page), key=lambda each: size_of(few_files, each))
    ask = f"GET {style} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 300
    greedy = [sockets(few_files) for _ in range(40)]
    push(greedy, ask)
    for _ in range(3):
        assert is_healthy(sockets(few_files))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CollectorProcess, bytes]]:
    """A collector that asks for a token, and a request that has one."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "data").mkdir()
    _, token = TokenFile(folder / "data").create("reader", [Scope.READ], "default")
    collector = CollectorProcess(folder, "--trusted-proxies", "127.0.0.9")
    collector.start()
    head = f"\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    yield collector, LAST.replace(b"\r\n\r\n", head).replace(b"/healthz", b"/api/v1/profiles")
    collector.close()


def test_an_address_without_a_token_has_64_places(
    reader: tuple[CollectorProcess, bytes], sockets: Connect
) -> None:
    """Its idle connections make room for its new ones; those of others stay."""
    collector, _ = reader
    other = sockets(collector, "127.0.0.2")
    own = [sockets(collector) for _ in range(80)]
    assert [rest(each) for each in own[:16]] == [b""] * 16
    assert is_healthy(own[16])
    assert is_healthy(own[-1])
    assert is_healthy(other)
    log = (collector.folder / "collector.log").read_text()
    assert log.count("64 connections are open from 127.0.0.1, which sent no valid token yet") == 1


@pytest.mark.parametrize("address", ["127.0.0.3", "127.0.0.9"], ids=["valid token", "proxy"])
def test_an_address_that_is_known_has_as_many_as_there_are(
    reader: tuple[CollectorProcess, bytes], sockets: Connect, address: str
) -> None:
    collector, request = reader
    if address != "127.0.0.9":
        known = sockets(collector, address)
        known.sendall(request)
        assert statuses(rest(known)) == [200]
    own = [sockets(collector, address) for _ in range(80)]
    assert is_healthy(own[0])
    assert is_healthy(own[-1])


def test_who_asks_again_and_again_without_a_token_starves_nobody(
    reader: tuple[CollectorProcess, bytes], sockets: Connect
) -> None:
    """300 connections of one address that each send 64 KB of requests; 64 of them are served."""
    collector, request = reader
    strangers = [sockets(collector, "127.0.0.4") for _ in range(300)]
    with suppress(OSError):  # those beyond the places are closed
        push(strangers, HEALTH * (65_536 // len(HEALTH)))
    for _ in range(5):
        own = sockets(collector, "127.0.0.5")
        own.sendall(request)
        assert statuses(rest(own)) == [200]


def test_tls_that_is_never_agreed_on_makes_room(tmp_path: Path, sockets: Connect) -> None:
    certificates = make_certificates(tmp_path)
    collector = FewFiles(
        tmp_path, "--tls-cert", certificates.certificate, "--tls-key", certificates.key
    )
    collector.start()
    try:
        context = ssl.create_default_context(cafile=certificates.ca)
        silent = [sockets(collector) for _ in range(60)]
        for _ in range(3):
            with context.wrap_socket(sockets(collector), server_hostname="127.0.0.1") as secure:
                assert is_healthy(secure)
        assert [rest(each) for each in silent[:20]] == [b""] * 20
        junk = sockets(collector)
        junk.sendall(HEALTH)  # no TLS
        assert statuses(rest(junk)) == []
        log = (collector.folder / "collector.log").read_text().splitlines()
        assert len(log) < 5
    finally:
        collector.close()


def test_lines_of_strangers_are_few(
    start_collector: Callable[..., CollectorProcess], sockets: Connect
) -> None:
    collector = start_collector()
    for data in (b"\x16\x03\x01\x02\r\n\r\n", b"GET /healthz\0", POST + b"X: \0\r\n\r\n") * 10:
        connection = sockets(collector)
        connection.sendall(data)
        assert statuses(rest(connection)) == [400]
    log = collector.folder / "collector.log"
    wait_until(lambda: "Invalid HTTP request" in log.read_text(), what="it is logged")
    assert log.read_text().count("Invalid HTTP request") == 1
