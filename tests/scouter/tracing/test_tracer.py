"""Spans of every kind of function, across threads, tasks and processes."""

import asyncio
import functools
import json
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import baggage, context, trace

from scouter.errors import ConfigError, DataError
from scouter.model.attributes import INPUT, OUTPUT
from scouter.model.span import StatusCode
from scouter.tracing.decorate import FunctionType
from scouter.tracing.propagation import (
    active_profile,
    extract_span_context_from_headers,
    get_tracing_headers_from_current_span,
)
from scouter.tracing.tracer import ScouterTracer, get_tracer, init_tracer
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import Captured


@pytest.fixture
def tracer(captured: Captured) -> ScouterTracer:
    del captured
    return init_tracer("shop")


def io(captured: Captured, name: str) -> tuple[Any, Any]:
    """Input and output of a span, read back."""
    attributes = captured[name].attributes
    return json.loads(str(attributes[INPUT])), json.loads(str(attributes[OUTPUT]))


# --- the decorator ---


def test_a_function(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("add", tags={"t": 1}, attributes={"a": 1}, label="l")
    def add(a: int, b: int = 2, *rest: int, **more: int) -> int:
        """Add."""
        assert trace.get_current_span().is_recording()
        return a + b + sum(rest) + sum(more.values())

    assert add(1) == 3
    assert add.__name__ == "add"
    assert add.__doc__ == "Add."
    assert io(captured, "add") == ({"a": 1}, 3)
    attributes = captured["add"].attributes
    assert attributes["function.type"] == "sync"
    assert attributes["function.streaming"] is False
    assert attributes["scouter.tracing.tag.t"] == 1
    assert attributes["scouter.tracing.label"] == "l"


class Agent:
    """Called like a coroutine function."""

    async def __call__(self, question: str) -> str:
        await asyncio.sleep(0)
        assert trace.get_current_span().is_recording()
        return question.upper()


class Counter:
    """Called like a generator function."""

    def __call__(self, end: int) -> Iterator[int]:
        yield from range(end)


def test_objects_that_are_called_like_functions(tracer: ScouterTracer, captured: Captured) -> None:
    agent, partial = Agent(), functools.partial(Agent(), "hi")
    assert asyncio.run(tracer.span("agent")(agent)("hi")) == "HI"
    assert asyncio.run(tracer.span("partial")(partial)()) == "HI"
    assert list(tracer.span("counter")(Counter())(2)) == [0, 1]

    assert io(captured, "agent") == ({"question": "hi"}, "HI")
    assert io(captured, "partial") == ({}, "HI")
    assert io(captured, "counter") == ({"end": 2}, [0, 1])
    kinds = [captured[name].attributes["function.type"] for name in ("agent", "counter")]
    assert kinds == ["async", "sync_generator"]


def test_the_four_kinds_of_functions(tracer: ScouterTracer, captured: Captured) -> None:
    """Each is written by the name that `FunctionType` has for it."""

    @tracer.span("plain")
    def plain() -> int:
        return 1

    @tracer.span("stream")
    def stream() -> Iterator[int]:
        yield 1

    @tracer.span("waiting")
    async def waiting() -> int:
        return 1

    @tracer.span("waiting_stream")
    async def waiting_stream() -> AsyncIterator[int]:
        yield 1

    async def both() -> list[int]:
        return [await waiting(), *[each async for each in waiting_stream()]]

    assert [plain(), *stream(), *asyncio.run(both())] == [1, 1, 1, 1]
    kinds = {
        "plain": FunctionType.Sync,
        "stream": FunctionType.SyncGenerator,
        "waiting": FunctionType.Async,
        "waiting_stream": FunctionType.AsyncGenerator,
    }
    for name, kind in kinds.items():
        assert captured[name].attributes["function.type"] == kind


def test_the_bare_decorator_names_the_span_after_the_function(
    tracer: ScouterTracer, captured: Captured
) -> None:
    class Shop:
        @tracer.span()
        def sell(self, item: str) -> None:
            del item

    Shop().sell("tea")

    (name,) = captured.names()
    assert name.endswith("Shop.sell")
    assert io(captured, name) == ({"item": "tea"}, None)


def test_an_exception_passes_and_is_noted(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("fail")
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()

    assert captured["fail"].status is StatusCode.ERROR
    assert OUTPUT not in captured["fail"].attributes


def test_a_wrong_call_fails_with_pythons_own_words(
    tracer: ScouterTracer, captured: Captured
) -> None:
    @tracer.span("f")
    def f(a: int) -> None:
        del a

    with pytest.raises(TypeError, match="missing 1 required"):
        f()  # type: ignore[call-arg]
    assert captured["f"].status is StatusCode.ERROR


def test_a_coroutine(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("outer")
    async def outer(n: int) -> int:
        with tracer.start_as_current_span("inner"):
            await asyncio.sleep(0)
        return n + 1

    assert asyncio.run(outer(1)) == 2
    assert io(captured, "outer") == ({"n": 1}, 2)
    assert captured["inner"].parent_span_id == captured["outer"].span_id


def test_cancellation_is_no_error(tracer: ScouterTracer, captured: Captured) -> None:
    started = asyncio.Event()

    @tracer.span("waits")
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(waits())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert captured["waits"].status is StatusCode.UNSET


def test_a_generator(tracer: ScouterTracer, captured: Captured) -> None:
    """Its span is current while it runs, and not while its consumer does."""

    @tracer.span("stream")
    def stream(n: int) -> Generator[int, str, str]:
        got: list[str] = []
        for i in range(n):
            with tracer.start_as_current_span(f"step {i}"):
                pass
            got.append((yield i))
        return ",".join(got)

    iterator = stream(2)
    assert captured.names() == []
    assert next(iterator) == 0
    assert trace.get_current_span() is trace.INVALID_SPAN
    with tracer.start_as_current_span("consumer"):
        assert iterator.send("a") == 1
    with pytest.raises(StopIteration) as stop:
        iterator.send("b")

    assert stop.value.value == "a,b"
    assert io(captured, "stream") == ({"n": 2}, [0, 1])
    own = captured["stream"].span_id
    assert captured["step 0"].parent_span_id == captured["step 1"].parent_span_id == own
    assert captured["consumer"].parent_span_id is None
    assert captured["stream"].attributes["function.type"] == "sync_generator"


@pytest.mark.parametrize(
    ("items", "max_length", "stored"),
    [
        (["ab"] * 3000, 10_000, "ab" * 3000),
        (["ab"] * 3000, 6000, "ab" * 3000),
        (["ab"] * 3000, 5999, "ab" * 2999 + "a…"),
        ([*"abc", "", ""], 3, "abc"),
        ([*"abc", "", "d"], 3, "abc…"),
        (["abcdef"], 3, "abc…"),
        ([1, 2.5, None], 1000, "12.5None"),
        (["x" * 200_000] * 2, 10**6, "x" * (256 * 1024 - 1) + "…"),
        ([], 5, ""),
    ],
)
def test_a_joined_stream_keeps_what_its_length_allows(
    tracer: ScouterTracer, captured: Captured, items: list[Any], max_length: int, stored: str
) -> None:
    """The mark stands behind what is stored; MAX_JSON_CHARS bounds any length."""

    @tracer.span("stream", join_stream_items=True, max_length=max_length)
    def stream() -> Iterator[Any]:
        yield from items

    assert list(stream()) == items
    assert io(captured, "stream")[1] == stored


def test_a_joined_async_stream_is_cut_alike(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("stream", join_stream_items=True, max_length=4)
    async def stream() -> AsyncIterator[str]:
        for _ in range(3):
            yield "ab"

    async def run() -> list[str]:
        return [each async for each in stream()]

    assert asyncio.run(run()) == ["ab"] * 3
    assert io(captured, "stream")[1] == "abab…"


def test_a_generator_gets_what_is_thrown_and_what_closes_it(
    tracer: ScouterTracer, captured: Captured
) -> None:
    seen: list[str] = []

    @tracer.span("stream")
    def stream() -> Iterator[str]:
        try:
            yield "first"
        except ValueError as error:
            seen.append(str(error))
        try:
            yield "second"
        finally:
            seen.append("closed")

    iterator = stream()
    assert next(iterator) == "first"
    assert iterator.throw(ValueError("thrown")) == "second"  # type: ignore[attr-defined]
    iterator.close()  # type: ignore[attr-defined]

    assert seen == ["thrown", "closed"]
    assert captured["stream"].status is StatusCode.UNSET


def test_a_failing_generator(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("stream")
    def stream() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(stream())
    assert captured["stream"].status is StatusCode.ERROR
    assert json.loads(str(captured["stream"].attributes[OUTPUT])) == [1]


@pytest.mark.parametrize(
    ("settings", "output"),
    [
        ({}, ["a", "b"]),
        ({"capture_last_stream_item": True}, "b"),
        ({"join_stream_items": True}, "ab"),
    ],
)
def test_an_async_generator(
    tracer: ScouterTracer, captured: Captured, settings: dict[str, bool], output: object
) -> None:
    @tracer.span("stream", **settings)  # type: ignore[arg-type]
    async def stream() -> AsyncIterator[str]:
        for item in "ab":
            await asyncio.sleep(0)
            with tracer.start_as_current_span(f"step {item}"):
                pass
            yield item

    async def main() -> list[str]:
        items: list[str] = []
        async for item in stream():
            assert trace.get_current_span() is trace.INVALID_SPAN
            items.append(item)
        return items

    assert asyncio.run(main()) == ["a", "b"]
    assert io(captured, "stream") == ({}, output)
    assert captured["step b"].parent_span_id == captured["stream"].span_id


def test_an_async_generator_that_is_left_early(tracer: ScouterTracer, captured: Captured) -> None:
    seen: list[str] = []

    @tracer.span("stream")
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
        except ValueError as error:
            seen.append(str(error))
        try:
            yield 2
        finally:
            seen.append("closed")

    async def main() -> None:
        iterator: Any = stream()
        assert await anext(iterator) == 1
        assert await iterator.athrow(ValueError("thrown")) == 2
        await iterator.aclose()

    asyncio.run(main())
    assert seen == ["thrown", "closed"]
    assert captured["stream"].status is StatusCode.UNSET


def test_arguments_can_be_left_out(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("secret", record_io=False)
    def secret(password: str) -> str:
        return password

    @tracer.span("stream", record_io=False)
    def stream() -> Iterator[str]:
        yield "x"

    secret("p")
    list(stream())

    for name in ("secret", "stream"):
        assert INPUT not in captured[name].attributes
        assert OUTPUT not in captured[name].attributes


def test_only_the_arguments_can_be_left_out(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("login", record_args=False)
    def login(password: str) -> str:
        return f"hello, {len(password)}"

    login("secret")

    attributes = captured["login"].attributes
    assert INPUT not in attributes
    assert attributes[OUTPUT] == '"hello, 6"'


def test_long_streams_are_stored_in_part(tracer: ScouterTracer, captured: Captured) -> None:
    @tracer.span("stream")
    def stream() -> Iterator[int]:
        yield from range(5000)

    assert len(list(stream())) == 5000
    assert json.loads(str(captured["stream"].attributes[OUTPUT])) == list(range(1000))


# --- concurrency ---


def test_tasks_do_not_mix_their_spans(tracer: ScouterTracer, captured: Captured) -> None:
    async def agent(n: int) -> None:
        async with tracer.start_as_current_span(f"agent {n}"):
            for step in range(3):
                await asyncio.sleep(0)
                with tracer.start_as_current_span(f"step {n} {step}"):
                    await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(agent(n) for n in range(20)))

    asyncio.run(main())
    for n in range(20):
        for step in range(3):
            assert captured[f"step {n} {step}"].parent_span_id == captured[f"agent {n}"].span_id


def test_threads_do_not_mix_their_spans(tracer: ScouterTracer, captured: Captured) -> None:
    barrier = threading.Barrier(8)

    def agent(n: int) -> None:
        with tracer.start_as_current_span(f"agent {n}"):
            barrier.wait(120)
            with tracer.start_as_current_span(f"step {n}"):
                barrier.wait(120)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(agent, range(8)))

    assert len({captured[f"agent {n}"].trace_id for n in range(8)}) == 8
    for n in range(8):
        assert captured[f"step {n}"].parent_span_id == captured[f"agent {n}"].span_id


def test_a_span_starts_with_its_block(tracer: ScouterTracer, captured: Captured) -> None:
    """The same object can be used again: each block is a span of its own, also one inside."""
    current = tracer.start_as_current_span("a")
    assert captured.names() == []

    with current as outer, current as inner:
        assert trace.get_current_span() is inner
    assert captured.names() == ["a", "a"]
    assert outer.span_id == inner.parent_context_id


def test_start_as_current_span_as_a_decorator(tracer: ScouterTracer, captured: Captured) -> None:
    """As OpenTelemetry has it: a span for each call, of both kinds of functions."""

    @tracer.start_as_current_span("plain")
    def plain(n: int) -> int:
        assert trace.get_current_span().is_recording()
        return n + 1

    @tracer.start_as_current_span("coroutine")
    async def coroutine(n: int) -> int:
        before = trace.get_current_span()
        await asyncio.sleep(0)
        assert trace.get_current_span() is before
        return n + 1

    assert (plain(1), plain(2), asyncio.run(coroutine(3))) == (2, 3, 4)
    assert captured.names() == ["plain", "plain", "coroutine"]
    assert INPUT not in captured["coroutine"].attributes


# --- context from elsewhere ---


def test_headers_carry_a_trace_to_another_process(
    tracer: ScouterTracer, captured: Captured
) -> None:
    with tracer.start_as_current_span("client", baggage={"user": "u1"}) as client:
        headers = get_tracing_headers_from_current_span()
    assert headers["traceparent"].startswith(f"00-{client.trace_id}-{client.span_id}-0")
    assert headers["baggage"] == "user=u1"
    assert (headers["trace_id"], headers["is_sampled"]) == (client.trace_id, "true")

    with tracer.start_as_current_span("server", headers=headers):
        assert baggage.get_baggage("user") == "u1"

    server = captured["server"]
    assert (server.trace_id, server.parent_span_id) == (client.trace_id, client.span_id)
    assert server.parent_is_remote
    assert not captured["client"].parent_is_remote


def test_without_a_span_there_are_no_headers() -> None:
    assert get_tracing_headers_from_current_span() == {}


def test_reading_headers() -> None:
    """The example of W3C Trace Context, section 3.2; header names in any case."""
    header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    assert extract_span_context_from_headers({"TraceParent": header}) == {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "span_id": "00f067aa0ba902b7",
        "is_sampled": "true",
    }
    assert extract_span_context_from_headers({"traceparent": "nonsense"}) is None
    assert extract_span_context_from_headers({}) is None


OLD = {"trace_id": "AB" * 16, "span_id": "cd" * 8}
NEW = {"traceparent": f"00-{'12' * 16}-{'34' * 8}-01"}


def test_headers_of_an_old_sender(tracer: ScouterTracer, captured: Captured) -> None:
    """They are read where there is no `traceparent`; who only reads them trusts no sampling."""
    assert extract_span_context_from_headers(OLD) == {
        "trace_id": "ab" * 16,
        "span_id": "cd" * 8,
        "is_sampled": "false",
    }
    sampled = extract_span_context_from_headers({**OLD, "is_sampled": "true"})
    assert sampled is not None
    assert sampled["is_sampled"] == "true"
    assert extract_span_context_from_headers({**OLD, "span_id": "no hex"}) is None
    both = extract_span_context_from_headers({**OLD, **NEW})
    assert both is not None
    assert both["trace_id"] == "12" * 16

    with tracer.start_as_current_span("server", headers=OLD):
        pass
    assert captured["server"].trace_id == "ab" * 16
    assert captured["server"].parent_span_id == "cd" * 8


def test_headers_win_over_ids(tracer: ScouterTracer, captured: Captured) -> None:
    with tracer.start_as_current_span(
        "first", headers=NEW, trace_id=OLD["trace_id"], span_id=OLD["span_id"]
    ):
        pass
    with tracer.start_as_current_span(
        "second", headers={"accept": "*/*"}, trace_id=OLD["trace_id"], span_id=OLD["span_id"]
    ):
        pass

    assert captured["first"].trace_id == "12" * 16
    assert captured["second"].trace_id == "ab" * 16


def test_the_flags_of_a_traceparent_are_those_of_version_00(tracer: ScouterTracer) -> None:
    with tracer.start_as_current_span("a"):
        assert get_tracing_headers_from_current_span()["traceparent"].endswith("-01")


def test_a_trace_state_travels(tracer: ScouterTracer) -> None:
    headers = {**NEW, "tracestate": "vendor=value"}
    with tracer.start_as_current_span("a", headers=headers):
        assert get_tracing_headers_from_current_span()["tracestate"] == "vendor=value"


def test_a_remote_parent_by_its_ids(tracer: ScouterTracer, captured: Captured) -> None:
    with tracer.start_as_current_span("server", trace_id="AB" * 16, span_id="cd" * 8):
        pass
    assert captured["server"].trace_id == "ab" * 16
    assert captured["server"].parent_is_remote

    with pytest.raises(DataError, match="32 and 16 hex digits"):
        tracer.start_span("x", trace_id="abc", span_id="cd" * 8)


def test_a_parent_that_is_not_sampled() -> None:
    tracer = init_tracer(sample_ratio=1.0)
    with tracer.start_as_current_span(
        "server", trace_id="ab" * 16, span_id="cd" * 8, remote_sampled=False
    ) as span:
        assert not span.is_recording()


def test_an_explicit_context_is_the_parent(tracer: ScouterTracer, captured: Captured) -> None:
    first = tracer.start_span("first")
    with tracer.start_as_current_span("other"):
        inside = trace.set_span_in_context(first, context.Context())
        with tracer.start_as_current_span("child", context=inside):
            pass
    first.end()

    assert captured["child"].parent_span_id == captured["first"].span_id


def test_the_active_profile_marks_spans(tracer: ScouterTracer, captured: Captured) -> None:
    mine = profile("a")
    with active_profile(mine), tracer.start_as_current_span("in"):
        pass
    with active_profile("other-uid"), tracer.start_as_current_span("text"):
        pass
    with tracer.start_as_current_span("out"):
        pass

    assert captured["in"].attributes == {f"scouter.entity.{mine.uid}": mine.uid}
    assert captured["text"].attributes == {"scouter.entity.other-uid": "other-uid"}
    assert captured["out"].attributes == {}


# --- settings ---


def test_defaults_of_a_tracer(captured: Captured) -> None:
    tracer = init_tracer(
        "shop",
        scope="lib",
        default_attributes={"team": {"name": "x"}},
        default_entity_uid="e1",
        schema_url="https://example.org/schema",
    )
    with tracer.start_as_current_span("s", attributes={"own": 1}):
        pass
    with get_tracer("second", "1.2").start_as_current_span("t"):
        pass

    first, second = captured["s"], captured["t"]
    assert first.attributes == {"team": '{"name":"x"}', "own": 1, "scouter.entity.e1": "e1"}
    assert (first.scope.name, second.scope.name, second.scope.version) == ("lib", "second", "1.2")
    assert first.resource.service_name == second.resource.service_name == "shop"


def test_two_services_in_one_process(captured: Captured) -> None:
    first, second = init_tracer("one"), init_tracer("two")
    with first.start_as_current_span("a"), second.start_as_current_span("b"):
        pass

    assert captured["a"].resource.service_name == "one"
    assert captured["b"].resource.service_name == "two"
    assert captured["b"].parent_span_id == captured["a"].span_id


@pytest.mark.parametrize("ratio", [-1.0, 2.0, float("nan")])
def test_a_ratio_outside_its_range_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        init_tracer(sample_ratio=ratio)


def test_another_span_of_the_trace_can_be_the_parent(
    tracer: ScouterTracer, captured: Captured
) -> None:
    with tracer.start_as_current_span("root") as root:
        with tracer.start_as_current_span("step") as step:
            pass
        with tracer.start_as_current_span("late", parent_context_id=step.context_id.upper()):
            pass

        @tracer.span("call", parent_context_id=step.context_id)
        def call() -> None:
            tracer.start_span("inner").end()

        call()
        with pytest.raises(DataError, match="expected 16 hex digits"):
            tracer.start_span("bad", parent_context_id="7")
    tracer.start_span("alone", parent_context_id=step.context_id).end()

    parents = {name: captured[name].parent_span_id for name in ("late", "call", "alone")}
    assert parents == {"late": step.span_id, "call": step.span_id, "alone": None}
    assert {captured[name].trace_id for name in ("late", "call", "inner")} == {root.trace_id}
    assert captured["inner"].parent_span_id == captured["call"].span_id


def test_get_tracer_in_the_originals_words(captured: Captured) -> None:
    tracer = get_tracer(
        scope_name="shop", scope_version="2", scope_attributes={"a": 1}, default_attributes={"b": 2}
    )
    with tracer.start_as_current_span("s"):
        pass
    span = captured["s"]
    assert (span.scope.name, span.scope.version) == ("shop", "2")
    assert span.attributes == {"b": 2}
