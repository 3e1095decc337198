"""A far side that refuses most calls: an HTTP server that hands some of them on."""

import random
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import httpx

_HOP_BY_HOP: Final = frozenset(
    {"connection", "transfer-encoding", "content-length", "date", "server"}
)


class FlakyGate:
    """Counts what it refused and what it handed on.

    Args:
        url: Where calls are handed on to.
        refused_share: Share of the calls that it answers with 503, in [0, 1].
        seed: Of which calls those are.
    """

    def __init__(self, url: Callable[[], str], refused_share: float, seed: int) -> None:
        self.url = url
        self.refused = self.handed_on = 0
        self._share = refused_share
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.address = ""

    def refuses(self) -> bool:
        """Decide about one call."""
        with self._lock:
            refused = self._chance.random() < self._share
            self.refused += refused
            self.handed_on += not refused
            return refused


@contextmanager
def flaky_gate(url: Callable[[], str], refused_share: float, seed: int = 1) -> Generator[FlakyGate]:
    """A gate on a free port, closed at the end."""
    gate = FlakyGate(url, refused_share, seed)
    client = httpx.Client(timeout=120)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if gate.refuses():
                self._answer(503, {"retry-after": "0"}, b"")
                return
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in {*_HOP_BY_HOP, "host"}
            }
            answer = client.post(f"{gate.url()}{self.path}", content=body, headers=headers)
            self._answer(answer.status_code, dict(answer.headers), answer.content)

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="flaky-gate")
        thread.start()
        gate.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield gate
        finally:
            server.shutdown()
            thread.join(120)
            client.close()
