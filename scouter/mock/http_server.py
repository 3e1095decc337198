"""A small HTTP/1.1 server in a thread of its own, for tests: keep-alive, and broken on request."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

_MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Request of a client to the mock server."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """By name in lower case; of several with one name, the last."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """Answer of the mock server to one request."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_cut: bool = False
    """True sends half of the body that was promised, and hangs up."""


Handle: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpServer:
    """Serves on a free port of this machine until it is stopped.

    Args:
        handle: Answers one request; called in the server's own event loop, many at a time.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._ready = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="scouter-test-server", daemon=True)

    def start(self) -> None:
        """Listen; back when a client can connect."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Hang up on everyone, and end the thread."""
        self._stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_MAX_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        self._stop = lambda: loop.call_soon_threadsafe(ended.set)
        self._ready.set()
        await ended.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:  # called in a task, always
            return
        self._connections.add(task)
        try:
            # CancelledError too: streams of Python 3.11 would log it as an error of this callback.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._talk(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other until one side has enough."""
        while True:
            try:
                request = await _read(reader)
            except (ValueError, asyncio.LimitOverrunError):
                await _write(writer, HttpResponse(body=b"", status=HTTPStatus.BAD_REQUEST))
                return
            response = await self._handle(request)
            await _write(writer, response)
            if response.is_cut or request.headers.get("connection", "").lower() == "close":
                return


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    size = int(headers.get("content-length") or 0)
    if not 0 <= size <= MAX_BODY or "transfer-encoding" in headers:
        raise ValueError("expected a body with a Content-Length that is not too large")
    body = await reader.readexactly(size)
    return HttpRequest(method=method, target=target, headers=headers, body=body)


async def _write(writer: asyncio.StreamWriter, response: HttpResponse) -> None:
    headers = {"Content-Type": "application/json", **response.headers}
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(response.body)}")
    body = response.body[: len(response.body) // 2] if response.is_cut else response.body
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    await writer.drain()
