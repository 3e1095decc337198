"""HEAD, and answers to requests whose body is never read."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.collector.conftest import Start
from tests.support.collector_process import CollectorProcess

JSON = "application/json"
MIB = b"x" * 2**20


@pytest.fixture
def collector(module_collector: CollectorProcess) -> CollectorProcess:
    return module_collector


def connect(collector: CollectorProcess) -> socket.socket:
    host, _, port = collector.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=120)


@pytest.fixture
def connection(collector: CollectorProcess) -> Iterator[socket.socket]:
    with connect(collector) as connection:
        yield connection


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    while part := connection.recv(65_536):
        answer += part
    return answer


def test_head_is_get_without_a_body(collector: CollectorProcess) -> None:
    connection = HTTPConnection(collector.address, timeout=120)
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/api/v1/tasks", "/nothing"):
        answers: list[tuple[int, dict[str, str], bytes]] = []
        for method in ("GET", "HEAD", "HEAD"):
            connection.request(method, path)
            answer = connection.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name != "date"}
            answers.append((answer.status, headers, answer.read()))
        get, head, again = answers
        assert get[0] == (404 if path == "/nothing" else 200)
        assert get[2], path
        assert head[2] == again[2] == b"", path
        if path == "/metrics":  # its length changes
            assert head[1].keys() == get[1].keys()
        else:
            assert head[:2] == again[:2] == get[:2], path
    connection.close()


def test_head_is_named_where_get_is(start: Start) -> None:
    http = start().http
    assert http.post("/healthz").headers["allow"] == "GET, HEAD"
    answer = http.head("/v1/traces")
    assert (answer.status_code, answer.headers["allow"], answer.content) == (405, "POST", b"")


def test_head_of_a_stream_ends_it(collector: CollectorProcess, connection: socket.socket) -> None:
    head = b"HEAD /api/v1/export/records HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection.sendall(head * 2 + head[:-2] + b"Connection: close\r\n\r\n")
    answer = answer_of(connection)
    assert answer.count(b"HTTP/1.1 200 ") == 3
    assert answer.count(b"\r\n\r\n") == 3
    assert answer.endswith(b"\r\n\r\n")


REFUSED = (
    ("POST /v1/traces", 413, 17),
    ("POST /v1/logs", 413, 17),
    ("POST /v1/metrics", 413, 17),
    ("POST /v1/records", 413, 17),
    ("POST /api/v1/erase", 413, 2),
    ("PUT /api/v1/erase", 413, 2),
    ("POST /nothing", 404, 2),
    ("GET /metrics", 200, 2),
)
"""Request line, status, and MiB of a body that is too large, or that nobody expects."""


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_an_answer_before_the_body_ends_is_seen_and_ends_the_connection(
    collector: CollectorProcess, is_chunked: bool
) -> None:
    """Also by a client that reads only once it has sent everything."""
    for route, status, mebibytes in REFUSED:
        length = (
            "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {mebibytes << 20}"
        )
        head = f"{route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n{length}\r\n\r\n"
        with connect(collector) as connection:
            connection.sendall(head.encode())
            for _ in range(mebibytes):
                connection.sendall(b"100000\r\n" + MIB + b"\r\n" if is_chunked else MIB)
            connection.sendall(b"0\r\n\r\n" if is_chunked else b"")
            answer = answer_of(connection)
        assert answer.startswith(b"HTTP/1.1 %d " % status), route
        assert b"\r\nconnection: close\r\n" in answer, route
        assert answer.count(b"HTTP/1.1") == 1, route


def test_a_length_beyond_the_limit_is_refused_before_any_of_it_comes(
    connection: socket.socket,
) -> None:
    """And the client is not requested to go on, as some want before they send."""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_the_rest_of_a_body_is_not_read_for_ever(connection: socket.socket) -> None:
    """A client that goes on after its answer is cut off, within seconds."""
    head = f"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
    connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
    connection.settimeout(0.05)
    answer = b""
    for _ in range(400):
        try:
            connection.sendall(b"x" * 1000)
            if not (part := connection.recv(65_536)):
                break
            answer += part
        except TimeoutError:
            continue
        except ConnectionError:
            break
    else:
        pytest.fail("still open")
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_a_small_body_that_is_here_but_not_read_leaves_the_connection_open(
    connection: socket.socket,
) -> None:
    head = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    last = head + b"Connection: close\r\n"
    connection.sendall(
        b"".join(each + b"Content-Length: 2\r\n\r\n{}" for each in (head, head, last))
    )
    answer = answer_of(connection)
    assert answer.count(b"HTTP/1.1 415 ") == 3
    assert answer.count(b"connection: close") == 1
