"""How many questions are answered together."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from collector.access.caller import CALLER
from collector.api.front import ApiFront


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
        raise AssertionError("there is no body")

    async def send(message: Message) -> None:
        raise AssertionError(message)

    front = ApiFront(app)
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": path, "headers": [], CALLER: None,
    }  # fmt: skip

    async def ask() -> list[BaseException | None]:
        asked = [front(dict(scope), nothing, send) for _ in range(20)]
        return await asyncio.gather(*asked, return_exceptions=True)

    for _ in range(2):  # each in a loop of its own
        assert sum(each is not None for each in asyncio.run(ask())) in (6, 7)
    assert (most, ended) == (together, 40)


def test_a_slow_reader_keeps_nobody_from_asking() -> None:
    """A place is free again once an answer begins, however long its reader takes."""
    begun = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def nothing() -> Message:
        raise AssertionError("there is no body")

    async def main() -> None:
        all_begun = asyncio.Event()

        async def send(message: Message) -> None:
            nonlocal begun
            begun += 1
            if begun == 20:
                all_begun.set()
            await all_begun.wait()

        front = ApiFront(app)
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": "/api/v1/spans", "headers": [], CALLER: None,
        }  # fmt: skip
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(front(dict(scope), nothing, send))

    asyncio.run(main())
    assert begun == 20
