"""Connections to a provider, counted by the server at their other end."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from scouter.agent.entries import ProviderEntry
from scouter.agent.lanes import KEPT_S, Lanes
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.judge.port import JudgeReply
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.agent.providers import ENVIRON, KEY, entry, question

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers every request with `ok`, and knows its connections."""

    def __init__(self) -> None:
        self.accepted = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.closes_after_answers = False
        self.gate = asyncio.Event()
        """Answers wait for it."""
        self.gate.set()
        self.change = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open.add(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                async with self.change:
                    self.change.notify_all()
                await self.gate.wait()
                writer.write(_ANSWER)
                if self.closes_after_answers:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.open.discard(writer)
            async with self.change:
                self.change.notify_all()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with self.change:
            await asyncio.wait_for(self.change.wait_for(is_so), 10)


@asynccontextmanager
async def served(lanes: Lanes) -> AsyncGenerator[tuple[Server, httpx2.AsyncClient]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    try:
        async with httpx2.AsyncClient(transport=lanes) as client:
            yield server, client
        await server.until(lambda: not server.open)  # closed with the client, each of them
    finally:
        listening.close()


def with_server(
    work: Callable[[Server, httpx2.AsyncClient], Awaitable[None]], lanes: Lanes | None = None
) -> None:
    async def run() -> None:
        async with served(lanes or Lanes()) as (server, client):
            await work(server, client)

    asyncio.run(run())


async def fetch(server: Server, client: httpx2.AsyncClient, times: int = 1) -> None:
    """Ask so many at a time."""
    found = await asyncio.gather(*(client.get(server.url) for _ in range(times)))
    assert [each.text for each in found] == ["ok"] * times


def test_one_after_another_take_one_connection() -> None:
    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        for _ in range(5):
            await fetch(server, client)
        assert server.accepted == 1

    with_server(work)


def test_as_many_connections_as_at_a_time() -> None:
    """None waits for another one's connection, and none is opened where one is free."""

    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        for times in (7, 3, 7):
            await fetch(server, client, times)
        assert server.accepted == 7

    with_server(work)


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        server.closes_after_answers = True
        for at in range(3):
            await fetch(server, client)
            await server.until(lambda: not server.open)
            assert server.accepted == at + 1

    with_server(work)


def test_connections_that_are_not_needed_are_closed() -> None:
    """Three were needed once; one is since then, and the other two grow old."""
    now = 0.0

    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        nonlocal now
        await fetch(server, client, 3)
        now = KEPT_S
        await fetch(server, client)
        assert len(server.open) == 3
        now = KEPT_S + 0.1
        await fetch(server, client)
        await server.until(lambda: len(server.open) == 1)
        assert server.accepted == 3

    with_server(work, Lanes(lambda: now))


def test_a_request_that_is_given_up_leaves_nothing_behind() -> None:
    """Its connection is closed, as its answer may still come; the next request gets its own."""

    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        server.gate.clear()
        asking = asyncio.ensure_future(fetch(server, client))
        await server.until(lambda: server.accepted == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        server.gate.set()
        await fetch(server, client)
        await server.until(lambda: len(server.open) == 1)
        assert server.accepted == 2

    with_server(work)


def test_an_answer_that_is_closed_twice_frees_one_connection() -> None:
    """Else two requests would share it."""

    async def work(server: Server, client: httpx2.AsyncClient) -> None:
        async with client.stream("GET", server.url) as response:
            await response.aread()
            await response.stream.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await fetch(server, client, 2)
        assert server.accepted == 2

    with_server(work)


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the environment names a proxy, questions go to it, whatever host they are for."""
    with LLMTestServer({"score": 4, "reason": "r"}, key=KEY) as provider:
        monkeypatch.setenv("HTTP_PROXY", provider.root)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        named = entry("openai", provider, base_url="http://models.example/v1")

        assert asked(named).response == {"score": 4, "reason": "r"}
        assert provider.calls == 1


def asked(named: ProviderEntry) -> JudgeReply:
    return asyncio.run(ModelJudge([named], environ=ENVIRON).ask(question("openai")))
