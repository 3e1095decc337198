"""CPU of the HTTP side per request: from the socket to the intake and back to the answer.

`python -m tests.bench.http` prints the figures; `--short` takes a tenth of the time. The collector
is the real one, with a log that keeps nothing; spans of 2.8 kB come in requests of ten and of 500
over 2 connections. Three servers are measured in turns, and the least of several rounds counts:

bare      only reads the body and answers 200, with Starlette's own means: the baseline
routes    the collector, where no body is looked at
decoding  the collector, with the look at each span that an answer needs
"""

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final
from unittest.mock import patch

from tests.bench.collector import Texts, make_requests
from tests.bench.figures import Figures
from tests.support.processes import ManagedProcess, wait_until

KINDS: Final = ("bare", "routes", "decoding")
SIZES: Final = (10, 500)
"""Spans of a request."""
CONNECTIONS, ROUNDS, ROUND_S = 2, 8, 1.5
_HEADERS: Final = {"content-type": "application/x-protobuf"}


# --- the servers, each in a process of its own ---------------------------------------------


def serve_bare(ready: Path) -> None:
    """Serve a program that does nothing with the bodies that it reads."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def take(request: Request) -> Response:
        await request.body()
        return Response(b"", media_type=_HEADERS["content-type"])

    app = Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])
    config = uvicorn.Config(
        app, port=0, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=75
    )
    listener = config.bind_socket()
    told = {"listen": f"127.0.0.1:{listener.getsockname()[1]}"}
    ready.write_text(json.dumps(told))
    uvicorn.Server(config).run(sockets=[listener])


def serve_collector(ready: Path, *, is_decoding: bool) -> None:
    """Serve a collector whose log forgets what it is given."""
    from collector import service
    from collector.items.wire import Refused
    from collector.log.file_log import FileLog
    from collector.receivers import intake as intake_module
    from collector.settings.load import load_settings

    waiting: SimpleQueue[Future[int]] = SimpleQueue()

    def settle() -> None:
        while True:
            waiting.get().set_result(0)

    def append(*_: object) -> Future[int]:
        """Answer from another thread, as the log does."""
        future: Future[int] = Future()
        waiting.put(future)
        return future

    threading.Thread(target=settle, daemon=True).start()
    patch.object(FileLog, "append", append).start()
    if not is_decoding:

        def nothing(*_: object) -> list[Refused]:
            return []

        patch.object(intake_module, "check_protobuf", nothing).start()
    flags: dict[str, Any] = {
        "data": ready.parent / "data", "listen": "127.0.0.1:0", "grpc": "off", "ready_file": ready,
    }  # fmt: skip
    service.run_collector(load_settings(flags))


# --- the sender -----------------------------------------------------------------------------


@dataclass(slots=True)
class Best:
    """The best of several rounds."""

    cpu_s: list[float] = field(default_factory=list[float])
    """Processor seconds of the server per request."""
    rate: list[float] = field(default_factory=list[float])
    """Requests per second."""


class Server:
    """A server that runs, and connections to it.

    Args:
        kind: One of `KINDS`.
        folder: Its own.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        folder.mkdir()
        ready = folder / "ready.json"
        self._process = ManagedProcess(
            [sys.executable, "-m", "tests.bench.http", "--serve", kind, "--ready", ready],
            log=folder / "log",
        )
        self._process.wait_ready(ready.exists, timeout_s=30)
        address = wait_until(ready.read_text, what="the address")
        self._connections = [
            http.client.HTTPConnection(json.loads(address)["listen"], timeout=60)
            for _ in range(CONNECTIONS)
        ]

    def stop(self) -> None:
        """End it."""
        for each in self._connections:
            each.close()
        self._process.stop()

    def measure(self, bodies: list[bytes], seconds: float, figures: Best) -> None:
        """Send for some seconds over all connections."""
        counts: list[int] = []

        def work(connection: http.client.HTTPConnection) -> None:
            count = 0
            while time.perf_counter() < until:
                body = bodies[count % len(bodies)]
                connection.request("POST", "/v1/traces", body, _HEADERS)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200, text
                count += 1
            counts.append(count)

        threads = [threading.Thread(target=work, args=(each,)) for each in self._connections]
        clock = (~self._process.pid << 3) | 2  # what clock_getcpuclockid(3) gives on Linux
        began, cpu = time.perf_counter(), time.clock_gettime(clock)
        until = began + seconds
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(counts) == CONNECTIONS, "a connection broke"
        count = sum(counts)
        figures.cpu_s.append((time.clock_gettime(clock) - cpu) / count)
        figures.rate.append(count / (time.perf_counter() - began))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a tenth of the time")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--ready", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "bare":
        serve_bare(options.ready)
    elif options.serve:
        serve_collector(options.ready, is_decoding=options.serve == "decoding")
    else:
        rounds, seconds = (2, 0.3) if options.short else (ROUNDS, ROUND_S)
        figures = Figures("http", is_short=options.short)
        run(rounds, seconds, figures)
        return figures.end()
    return 0


def run(rounds: int, seconds: float, figures: Figures) -> None:
    """Measure all servers in turns."""
    rng = random.Random(5)
    texts = Texts(rng)
    with tempfile.TemporaryDirectory(prefix="scouter-bench-") as name, ExitStack() as stack:
        servers = [Server(kind, Path(name) / kind) for kind in KINDS]
        for server in servers:
            stack.callback(server.stop)
        print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, least of {rounds}")
        for spans in SIZES:
            requests, _ = make_requests(rng, texts, spans * 8, spans)
            bodies = [body for path, _, body in requests if path == "/v1/traces"]
            size = sum(map(len, bodies)) / len(bodies)
            found = {server.kind: Best() for server in servers}
            for _ in range(rounds):
                for server in servers:
                    server.measure(bodies, seconds, found[server.kind])
            for kind, each in found.items():
                rate = max(each.rate)
                print(
                    f"{kind:>8}, {size / 1e3:7,.1f} kB: {min(each.cpu_s) * 1e6:7,.0f} µs of CPU "
                    f"per request; {rate:7,.0f} requests/s, {rate * size / 1e6:6,.0f} MB/s"
                )
                name = f"{kind}, {spans} spans a request"
                figures.add(f"{name}: CPU", min(each.cpu_s) * 1e6, "µs")
                figures.add(f"{name}: rate", rate, "1/s")


if __name__ == "__main__":
    sys.exit(main())
