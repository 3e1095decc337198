"""HTTP servers inside of a test's process: a real one for an application, and a scripted one."""

import json
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn
from fastapi import FastAPI

from tests.support.processes import wait_until


@contextmanager
def serve(app: FastAPI) -> Generator[str]:
    """Serve an application on a free port; gives its base address."""
    # Named, the protocol gets asyncio to send at once what is small: else each answer takes 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(app, log_config=None, lifespan="off", server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started, what="the server listens")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(120)


@dataclass
class Say:
    """The answer to one request."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_cut_off: bool = False
    """Announces more than is sent."""
    delay_s: float = 0.0


@dataclass
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Script:
    """A server that gives one answer after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Say] = []
        self.asked: list[Asked] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {key.lower(): value for key, value in self.headers.items()}
                script.asked.append(Asked(self.command, self.path, headers, body))
                say = script.answers.pop(0)
                time.sleep(say.delay_s)
                data = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
                self.send_response(say.status)
                for key, value in say.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(data) + say.is_cut_off))
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = self.close_connection or say.is_cut_off

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def run_script() -> Generator[Script]:
    """A scripted server that runs until the block is left."""
    script = Script()
    thread = threading.Thread(target=script.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.server.shutdown()
        script.server.server_close()
        thread.join(120)
