"""Bounds on questions that are answered together, and on bodies in memory."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import pytest
from starlette.types import Message, Receive, Scope, Send

from collector.access.caller import ALL_SCOPES, CALLER, Caller
from collector.access.caller import Scope as CallerScope
from collector.api.front import ApiFront, Turns

HOME: Final = Caller(space="home", scopes=ALL_SCOPES)


@pytest.mark.parametrize(
    ("method", "path", "together"),
    [
        ("GET", "/api/v1/evaluations", 4),
        ("POST", "/api/v1/backup", 20),
        ("GET", "/healthz", 20),
    ],
)
def test_few_questions_are_answered_together(method: str, path: str, together: int) -> None:
    """Of twenty at once; an answer that fails gives its place to the next one all the same."""
    running, most, ended = 0, 0, 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        ended += 1
        if ended % 3 == 0:
            raise RuntimeError("this one fails")

    async def nothing() -> Message:
        await asyncio.Event().wait()  # the client is there, and sends no body
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError(message)

    front = ApiFront(app)
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": path, "headers": [], CALLER: HOME,
    }  # fmt: skip

    async def ask() -> list[BaseException | None]:
        requests = [front(dict(scope), nothing, send) for _ in range(20)]
        return await asyncio.gather(*requests, return_exceptions=True)

    for _ in range(2):  # each in a loop of its own
        assert sum(each is not None for each in asyncio.run(ask())) in (6, 7)
    assert (most, ended) == (together, 40)


def test_a_slow_reader_keeps_nobody_from_asking() -> None:
    """A place is free again once an answer begins, however long its reader takes."""
    started = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def nothing() -> Message:
        await asyncio.Event().wait()  # the client is there, and sends no body
        raise AssertionError

    async def main() -> None:
        all_started = asyncio.Event()

        async def send(message: Message) -> None:
            nonlocal started
            started += 1
            if started == 20:
                all_started.set()
            await all_started.wait()

        front = ApiFront(app)
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": "/api/v1/spans", "headers": [], CALLER: HOME,
        }  # fmt: skip
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(front(dict(scope), nothing, send))

    asyncio.run(main())
    assert started == 20


class Asking:
    """One request whose body comes as the test says, and what it was answered."""

    def __init__(self, method: str, caller: Caller) -> None:
        headers = [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": "/api/v1/erase", "headers": headers,
            CALLER: caller,
        }  # fmt: skip
        self.arriving: asyncio.Queue[Message] = asyncio.Queue()
        self.read, self.status, self.headers = 0, 0, dict[bytes, bytes]()

    async def receive(self) -> Message:
        message = await self.arriving.get()
        self.read += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])

    def arrives(self, body: bytes, *, more: bool) -> None:
        self.arriving.put_nowait({"type": "http.request", "body": body, "more_body": more})


async def seen_body(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that reads the whole body."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_bodies_of_a_space_are_bounded_together() -> None:
    """Ten that never end, one byte short of 1 MiB each: four stay. Another space has its own."""
    front = ApiFront(seen_body)

    async def main() -> None:
        requests = [Asking("POST", HOME) for _ in range(10)]
        tasks = [
            asyncio.create_task(front(each.scope, each.receive, each.send)) for each in requests
        ]
        for each in requests:
            each.arrives(b"x" * (2**20 - 1), more=True)
        ended = asyncio.as_completed(tasks)
        for _ in range(6):
            await next(ended)
        assert sum(each.status == 0 for each in requests) == 4
        assert {each.headers[b"retry-after"] for each in requests if each.status} == {b"1"}
        other = Asking("POST", Caller(space="bank", scopes=ALL_SCOPES))
        other.arrives(b"x" * 2**20, more=False)
        await front(other.scope, other.receive, other.send)
        assert other.status == 200
        for each in requests:
            each.arrives(b"", more=False)
        await asyncio.gather(*tasks)
        again = Asking("POST", HOME)
        again.arrives(b"x" * 2**20, more=False)
        await front(again.scope, again.receive, again.send)
        assert again.status == 200, "what was taken is given back"

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize(
    ("method", "scopes", "status"),
    [
        ("GET", ALL_SCOPES, 400),
        ("POST", [CallerScope.INGEST], 200),
        ("POST", [CallerScope.READ], 200),
    ],
)
def test_no_body_is_taken_that_no_answer_depends_on(
    method: str, scopes: Iterable[CallerScope], status: int
) -> None:
    """A question has none; of a token that may change nothing, the app sees an empty one."""

    async def main() -> None:
        asking = Asking(method, Caller(space="home", scopes=frozenset(scopes)))
        for _ in range(5):
            asking.arrives(b"x" * 2**16, more=True)
        await ApiFront(seen_body)(asking.scope, asking.receive, asking.send)
        assert asking.status == status
        assert asking.read <= 2**16, "no more than had come before anybody looked"

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_space_that_asks_a_lot_keeps_no_other_waiting() -> None:
    """Behind 60 questions of which half were given up, another space's is the fifth answered."""
    answered: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answered.append(scope[CALLER].space)
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def main() -> None:
        front = ApiFront(app)

        def ask(space: str, *, is_gone: bool = False) -> asyncio.Task[None]:
            asking = Asking("GET", Caller(space=space, scopes=ALL_SCOPES))
            asking.scope["headers"] = []
            if is_gone:
                asking.arriving.put_nowait({"type": "http.disconnect"})
            return asyncio.create_task(front(asking.scope, asking.receive, asking.send))

        tasks = [ask("bank", is_gone=number % 2 == 0) for number in range(60)]
        await asyncio.gather(*tasks, ask("home"))

    asyncio.run(asyncio.wait_for(main(), 120))
    assert answered.index("home") <= 5
    assert len(answered) == 1 + 30 + 2, "two of the given up had a place at once"


def test_a_question_behind_too_many_learns_when_to_come_back() -> None:
    """Of a hundred that wait behind the four, and ten more."""
    going_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await going_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def main() -> list[Asking]:
        front = ApiFront(app)
        requests = [Asking("GET", HOME) for _ in range(114)]
        for each in requests:
            each.scope["headers"] = []
        tasks = [
            asyncio.create_task(front(each.scope, each.receive, each.send)) for each in requests
        ]
        ended = asyncio.as_completed(tasks)
        for _ in range(10):
            await next(ended)
        going_on.set()
        await asyncio.gather(*tasks)
        return requests

    requests = asyncio.run(asyncio.wait_for(main(), 120))
    assert [each.status for each in requests] == [200] * 104 + [503] * 10
    assert requests[-1].headers[b"retry-after"] == b"5"


def test_a_turn_of_one_that_was_cancelled_goes_to_the_next() -> None:
    """While it waits, and at the moment that its turn comes."""

    async def main() -> None:
        turns = Turns(1)
        await turns.take("a")
        waiting = [asyncio.create_task(turns.take("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        turns.give_back()
        waiting[1].cancel()
        assert await waiting[2] is True
        turns.give_back()
        assert await turns.take("b") is False

    asyncio.run(asyncio.wait_for(main(), 120))
