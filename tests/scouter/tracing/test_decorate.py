"""The span of a plain function around work that goes on lasts as long as the work."""

import asyncio
import concurrent.futures
import functools
import gc
import json
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

from scouter.model.attributes import OUTPUT
from scouter.model.span import Span, StatusCode
from scouter.tracing.tracer import ScouterTracer, init_tracer
from tests.scouter.tracing.conftest import Captured

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture
def tracer(captured: Captured) -> ScouterTracer:
    del captured
    return init_tracer("shop")


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of the kind that hides what a function is."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        return function(*args, **kwargs)

    return wrapper


def output(span: Span) -> Any:
    return json.loads(str(span.attributes[OUTPUT]))


def contains(outer: Span, inner: Span) -> bool:
    return (
        inner.parent_span_id == outer.span_id
        and outer.start_ns <= inner.start_ns
        and inner.end_ns <= outer.end_ns
    )


@pytest.fixture(params=["span", "start_as_current_span"])
def decorate(request: pytest.FixtureRequest, tracer: ScouterTracer) -> Wrap:
    return getattr(tracer, request.param)("outer")


def test_a_coroutine(tracer: ScouterTracer, captured: Captured, decorate: Wrap) -> None:
    async def work(text: str) -> str:
        await asyncio.sleep(0)
        with tracer.start_as_current_span("inner"):
            await asyncio.sleep(0)
        return text.upper()

    async def run() -> str:
        made = decorate(plain(work))("hi")
        assert asyncio.iscoroutine(made)
        return await made

    assert asyncio.run(run()) == "HI"
    assert contains(captured["outer"], captured["inner"])
    assert captured["outer"].attributes["function.type"] == "async"


def test_generators(tracer: ScouterTracer, captured: Captured, decorate: Wrap) -> None:
    def count(end: int) -> Iterator[int]:
        for n in range(end):
            with tracer.start_as_current_span("inner"):
                pass
            yield n

    assert list(decorate(plain(count))(1)) == [0]
    assert contains(captured["outer"], captured["inner"])
    assert captured["outer"].attributes["function.type"] == "sync_generator"
    assert captured["outer"].attributes["function.streaming"] is True


def test_async_generators(tracer: ScouterTracer, captured: Captured, decorate: Wrap) -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1
        with tracer.start_as_current_span("inner"):
            await asyncio.sleep(0)
        yield 2

    async def run() -> list[int]:
        return [each async for each in decorate(plain(stream))()]

    assert asyncio.run(run()) == [1, 2]
    assert contains(captured["outer"], captured["inner"])
    assert captured["outer"].attributes["function.type"] == "async_generator"


def test_a_coroutine_function_that_gives_back_a_stream(
    tracer: ScouterTracer, captured: Captured
) -> None:
    @tracer.span("outer")
    async def ask() -> AsyncIterator[str]:
        async def stream() -> AsyncIterator[str]:
            yield "a"
            with tracer.start_as_current_span("inner"):
                yield "b"

        return stream()

    async def run() -> list[str]:
        return [each async for each in await ask()]

    assert asyncio.run(run()) == ["a", "b"]
    assert contains(captured["outer"], captured["inner"])
    assert output(captured["outer"]) == ["a", "b"]


def test_tasks_and_futures_stay_themselves(tracer: ScouterTracer, captured: Captured) -> None:
    async def work() -> int:
        with tracer.start_as_current_span("inner"):
            await asyncio.sleep(0)
        return 7

    async def run() -> int:
        made = tracer.span("outer")(lambda: asyncio.create_task(work()))()
        assert isinstance(made, asyncio.Task)
        return await made

    assert asyncio.run(run()) == 7
    assert contains(captured["outer"], captured["inner"])
    assert output(captured["outer"]) == 7

    promise: concurrent.futures.Future[int] = concurrent.futures.Future()
    assert tracer.span("promised")(lambda: promise)() is promise
    assert "promised" not in captured.names()
    promise.set_result(8)
    assert output(captured["promised"]) == 8
    assert tracer.span("stored")(lambda: promise)().result() == 8
    assert output(captured["stored"]) == 8


class Request:
    """An awaitable of a class of its own, as clients of services have them."""

    def __init__(self, tracer: ScouterTracer) -> None:
        self.tracer, self.url = tracer, "u"

    def __await__(self) -> Generator[Any, Any, str]:
        with self.tracer.start_as_current_span("inner"):
            yield from asyncio.sleep(0).__await__()
        return "answer"


def test_awaitables(tracer: ScouterTracer, captured: Captured) -> None:
    async def run() -> str:
        made = tracer.span("outer")(lambda: Request(tracer))()
        assert (made.url, isinstance(made, Request), isinstance(made, Awaitable)) == (
            "u",
            True,
            True,
        )
        return await made

    assert asyncio.run(run()) == "answer"
    assert contains(captured["outer"], captured["inner"])
    assert output(captured["outer"]) == "answer"

    @types.coroutine
    def old() -> Generator[Any, Any, int]:
        yield from asyncio.sleep(0).__await__()
        return 3

    async def await_old() -> int:
        return await tracer.span("old")(plain(old))()

    assert asyncio.run(await_old()) == 3
    assert output(captured["old"]) == 3


class Session(Request):
    """It can be awaited, or entered: nothing stands in for it."""

    async def __aenter__(self) -> str:
        return "entered"

    async def __aexit__(self, *error: object) -> None:
        pass


def test_what_has_other_uses_is_left_as_it_is(tracer: ScouterTracer, captured: Captured) -> None:
    session = Session(tracer)
    assert tracer.span("outer")(lambda: session)() is session
    assert "outer" in captured.names()


def test_errors_belong_to_the_span(tracer: ScouterTracer, captured: Captured) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("bad")

    async def task() -> None:
        await tracer.span("task")(lambda: asyncio.create_task(fails()))()

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(tracer.span("coroutine")(plain(fails))())
    with pytest.raises(ValueError, match="bad"):
        asyncio.run(task())
    promise: concurrent.futures.Future[int] = concurrent.futures.Future()
    tracer.span("promise")(lambda: promise)()
    promise.set_exception(ValueError("bad"))
    for name in ("coroutine", "task", "promise"):
        assert captured[name].status is StatusCode.ERROR, name


def test_what_is_never_started_ends_when_nobody_holds_it(
    tracer: ScouterTracer, captured: Captured
) -> None:
    made = tracer.span("outer")(plain(lambda: iter_once()))()
    assert "outer" not in captured.names()
    del made
    gc.collect()
    assert "outer" in captured.names()


def iter_once() -> Iterator[int]:
    yield 1


def test_asyncio_still_tells_of_errors_that_nobody_sees(
    tracer: ScouterTracer, captured: Captured
) -> None:
    messages: list[str] = []

    async def fails() -> None:
        raise ValueError("bad")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, found: messages.append(found["message"]))
        task = tracer.span("outer")(lambda: asyncio.create_task(fails()))()
        await asyncio.wait([task])
        del task
        gc.collect()

    asyncio.run(run())
    assert messages == ["Task exception was never retrieved"]
    assert captured["outer"].status is StatusCode.ERROR


def test_cancelled_work_is_no_failure(tracer: ScouterTracer, captured: Captured) -> None:
    async def run() -> None:
        task = tracer.span("outer")(lambda: asyncio.create_task(asyncio.sleep(60)))()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert captured["outer"].status is not StatusCode.ERROR
