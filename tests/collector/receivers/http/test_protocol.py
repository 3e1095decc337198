"""HTTP as bytes on a connection: what has no end is cut off, what is only long is taken."""

import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from http.client import HTTPConnection
from itertools import chain, repeat
from pathlib import Path

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.items.limits import Limits
from tests.support.collector_process import CollectorProcess

StartCollector = Callable[..., CollectorProcess]
HEAD = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\n"
)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def exchange(address: str, pieces: Iterable[bytes]) -> tuple[int, int]:
    """Send pieces until the collector ends the connection.

    Returns:
        The status, 0 without one, and the number of pieces sent.
    """
    host, _, port = address.partition(":")
    sent, answer = 0, b""
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                sent += 1
        except ConnectionError:
            pass  # ended while it was still being sent
        try:
            while part := connection.recv(65_536):
                answer += part
        except ConnectionError:
            pass
    return int(answer.split(b" ", 2)[1]) if answer else 0, sent


def test_headers_and_trailers_without_an_end(module_collector: CollectorProcess) -> None:
    for start, piece in (
        (b"GET /" + b"a" * 100, b"a" * 50_000),
        (HEAD + b"X: ", b"a" * 50_000),
        (HEAD, b"X: 123456\r\n" * 5_000),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"a" * 50_000),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: 123456\r\n" * 5_000),
        (CHUNKED + b"2;x=", b"a" * 50_000),
    ):
        status, sent = exchange(module_collector.address, chain([start], repeat(piece, 10_000)))
        assert status in (0, 400), start
        assert sent < 1_000, start  # the rest was never read; sockets hold a few MB
    assert exchange(module_collector.address, [HEAD, b"Content-Length: 2\r\n\r\n{}"])[0] == 200


def test_long_but_with_an_end(module_collector: CollectorProcess) -> None:
    """Headers of 30 kB, and a body whose chunks of one byte are six bytes each on the line."""
    headers = b"X: 123456\r\n" * 90 + b"Y: " + b"y" * 29_000 + b"\r\n"
    length = b"Content-Length: 2\r\n\r\n{}"
    assert exchange(module_collector.address, [HEAD, headers, length])[0] == 200
    body = b"{" + b" " * 60_000 + b"}"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert exchange(module_collector.address, [CHUNKED, chunks])[0] == 200
    large = HEAD + b"Content-Length: %d\r\n\r\n" % (Limits().max_body + 1)
    assert exchange(module_collector.address, [large, b"{"])[0] == 413


HIDDEN = b"GET /api/v1/conservation HTTP/1.1\r\nHost: localhost\r\n\r\n"
RECORDS = b"POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
EMPTY = b"\r\n\r\n0\r\n\r\n"
SIZE = b"Content-Length: %d\r\n" % len(HIDDEN)
AMBIGUOUS = (
    RECORDS + SIZE + b"Transfer-Encoding: chunked" + EMPTY,
    RECORDS + b"Transfer-Encoding: chunked\r\nContent-Length: 5" + EMPTY,
    RECORDS + SIZE + b"Content-Length: 0\r\n\r\n",
    RECORDS + b"Content-Length: 0, 5\r\n\r\n",
    RECORDS + b"Content-Length: +0\r\n\r\n",
    RECORDS + b"Content-Length: -1\r\n\r\n",
    RECORDS + b"Content-Length: 0x0\r\n\r\n",
    RECORDS + b"Content-Length : 0\r\n\r\n",
    RECORDS + b"Transfer-Encoding: chunked, identity" + EMPTY,
    RECORDS + b"Transfer-Encoding: xchunked\r\n\r\n",
    RECORDS + b"Transfer-Encoding:\tchunked\r\nContent-Length: 3" + EMPTY,
    RECORDS + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 3" + EMPTY,
    RECORDS.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n",
    RECORDS + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    RECORDS + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    RECORDS + b"Transfer-Encoding: chunked\r\n\r\n0\n\n",
    RECORDS + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
    RECORDS + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
)
"""Bytes that one program may see as the end of a request, and another as its middle."""


def test_no_request_hides_in_another(module_collector: CollectorProcess) -> None:
    """Each is refused and the connection ended, so that what follows is never read as a request."""
    whole = RECORDS + b"Content-Length: 15\r\n\r\n" + b'{"records": []}'
    assert answers(module_collector.address, whole + LAST) == [200, 200]
    for request in AMBIGUOUS:
        assert answers(module_collector.address, request + HIDDEN) == [400], request
    hosts = HIDDEN.replace(b"Host", b"Connection: close\r\nHost: attacker.example\r\nHost")
    assert answers(module_collector.address, hosts) == [400]


LAST = HIDDEN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def answers(address: str, data: bytes) -> list[int]:
    """The statuses of all answers until the collector ends the connection."""
    host, _, port = address.partition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(data)
        while part := connection.recv(65_536):
            answer += part
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


WHOM = (
    ("/", "Host: localhost", 200),
    ("/", "host:\t LOCALHOST:4318 ", 200),
    ("/", "Host: [::1]:4318", 200),
    ("http://localhost/", "Host: localhost", 200),
    ("HTTP://LocalHost:1/", "Host: localhost:1", 200),
    ("http://attacker.example/", "Host: localhost", 400),
    ("http://attacker.example/", "Host: attacker.example", 421),
    ("http://attacker.example@localhost/", "Host: localhost", 400),
    ("http://attacker.example@localhost/", "Host: attacker.example@localhost", 400),
    ("http://localhost/", "", 400),
    ("http://localhost:1/", "Host: localhost", 400),
    ("ftp://localhost/", "Host: localhost", 400),
    ("//attacker.example/", "Host: localhost", 404),
    ("/", "Host: attacker.example@localhost", 400),
    ("/", "Host: localhost\r\nHost: localhost", 400),
    ("/", "Host: localhost\r\n attacker.example", 400),
    ("/", "Host:", 421),
    ("/", "X-Forwarded-Host: localhost\r\nHost: attacker.example", 421),
    ("/", "X-Forwarded-Host: attacker.example\r\nHost: localhost", 403),
    ("/", "Forwarded: host=attacker.example\r\nHost: localhost", 403),
)
"""Target, headers and status: what the request names must be one host, and this machine."""


def test_whom_a_request_is_for(module_collector: CollectorProcess) -> None:
    """A target with a host counts only where Host says the same; no proxy opens anything."""
    address = module_collector.address
    for target, headers, status in WHOM:
        lines = [f"GET {target}api/v1/conservation HTTP/1.1", "Connection: close", headers]
        request = "\r\n".join([*filter(None, lines), "", ""])
        assert answers(address, request.encode()) == [status], request


def test_what_every_route_refuses(module_collector: CollectorProcess) -> None:
    """Kind: a rule of the documentation that some routes do not hold. Probes and files, too."""
    for head in (
        "HTTP/1.0\r\nHost: localhost",
        "HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive",
        "HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        "HTTP/1.1\r\nHost: localhost\r\nhost: attacker.example",
        "HTTP/1.1\r\nHost: attacker.example@localhost",
        "HTTP/1.1\r\nHost: local host",
    ):
        for path in ("/healthz", "/readyz", "/login", "/static/page.css", "/api/v1/records", "/x"):
            request = f"GET {path} {head}\r\nX: 1\r\nConnection: close\r\n\r\n"
            assert answers(module_collector.address, request.encode()) == [400], request


SPELLINGS = (
    "/openapi.json/", "/api/v1/tasks/", "//api/v1/tasks", "/api/v1//tasks", "/API/v1/tasks",
    "/api/v1/%2e%2e/v1/tasks", "/api/v1/../v1/tasks", "/%2fapi/v1/tasks", "/api/v1/tasks;x",
    "/api/v1/tasks%00", "/healthz/", "/healthz/../api/v1/tasks", "/healthz%2f..%2fapi/v1/tasks",
    "/v1/traces/", "/api/v1/erase/",
)  # fmt: skip


def spell(address: str, sent: Mapping[str, str], refusals: Collection[int]) -> None:
    """Nobody is sent elsewhere, least of all to what Host says; strangers learn nothing."""
    connection = HTTPConnection(address, timeout=120)

    def ask(path: str, method: str, headers: Mapping[str, str]) -> int:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        answer.read()
        assert answer.getheader("Location") is None, path
        assert answer.getheader("Content-Type") == "application/problem+json", path
        return answer.status

    try:
        for path in SPELLINGS:
            for method in ("GET", "POST"):
                assert ask(path, method, sent) == 404, path
                assert ask(path, method, {"Host": "evil.example"}) in refusals, path
    finally:
        connection.close()


def test_a_path_in_another_spelling_leads_nowhere(module_collector: CollectorProcess) -> None:
    spell(module_collector.address, {}, (404, 421))


def test_nor_where_there_are_tokens(tmp_path: Path, start_collector: StartCollector) -> None:
    # Where `start_collector` puts the first one's data.
    _, text = TokenFile(tmp_path / "collector-0" / "data").create("", Scope, "default")
    sent = {"Authorization": f"Bearer {text}"}
    spell(start_collector().address, sent, (401, 404, 429))
