"""A far side that answers without an end, or slowly; real sockets on this machine."""

import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from zlib import compressobj

_WAIT_S = 30.0


@dataclass
class FarSide:
    """A server that answers each request with the same parts, until the client hangs up."""

    parts: Callable[[], Iterable[bytes]]
    """Whole answers, status line and headers included; called for each request."""
    port: int = 0
    sent: int = 0
    """Bytes, of all answers."""
    asked: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)
    """The client ended a connection in the midst of an answer."""

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.port}"

    def serve(self, listening: socket.socket) -> None:
        """Answer until the socket is closed."""
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as asking:
                while _was_asked(asking):
                    self.asked += 1
                    for part in self.parts():
                        client.sendall(part)
                        self.sent += len(part)
        except OSError:
            self.hung_up.set()

    def wait_until_hung_up(self) -> bool:
        """Wait; tells whether it came to that."""
        return self.hung_up.wait(_WAIT_S)


def _was_asked(asking: Iterable[bytes]) -> bool:
    length, line = 0, b""
    for line in asking:
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
        if line == b"\r\n":
            break
    asking.read(length)  # type: ignore[attr-defined]
    return bool(line)


@contextmanager
def far_side(parts: Callable[[], Iterable[bytes]]) -> Generator[FarSide]:
    """Run one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = FarSide(parts, port=listening.getsockname()[1])
        threading.Thread(target=running.serve, args=(listening,), daemon=True).start()
        yield running


def head(*headers: str, status: int = 200) -> bytes:
    """Status line and headers."""
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", *headers, "", ""]).encode()


def endless() -> Iterable[bytes]:
    """Blanks, a terabyte of which are announced."""
    yield head("Content-Type: application/json", f"Content-Length: {2**40}")
    while True:
        yield b" " * 2**16


def endless_chunks() -> Iterable[bytes]:
    """Blanks in chunks, whose number nobody knows."""
    yield head("Content-Type: application/json", "Transfer-Encoding: chunked")
    while True:
        yield b"1000\r\n" + b" " * 0x1000 + b"\r\n"


def endless_gzip() -> Iterable[bytes]:
    """Zeros as gzip: what is on the wire is a thousandth of what it unpacks to."""
    yield head("Content-Encoding: gzip", f"Content-Length: {2**40}")
    packing = compressobj(9, wbits=31)
    while True:
        yield packing.compress(bytes(2**24))


ENDLESS = {"plain": endless, "chunks": endless_chunks, "gzip": endless_gzip}


def dripping(start: bytes) -> Callable[[], Iterable[bytes]]:
    """An answer that goes on byte by byte behind its start, each soon after the one before."""
    pause = threading.Event()

    def drip() -> Iterable[bytes]:
        yield start
        while not pause.wait(0.01):
            yield b" "

    return drip
