"""The decorator behind `tracer.span`: one span per call of any kind of function."""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from opentelemetry import context as otel_context

from scouter.tracing.span import ScouterSpan
from scouter.transport.guard import GUARD

MAX_STREAM_ITEMS: Final = 1000
"""Items of a generator that are kept for the span's output; the others pass by."""

Function = Callable[..., Any]
Start = Callable[[], ScouterSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpan:
    """What is kept of a call; see `ScouterTracer.span`."""

    max_length: int
    last_item_only: bool = False
    join_items: bool = False
    record_io: bool = True
    record_args: bool = True


def traced(function: Function, start: Start, settings: FunctionSpan) -> Function:
    """Wrap a function so that each call is a span.

    Args:
        function: A function, coroutine function, generator or async generator function.
        start: Starts the span.
        settings: What is kept.

    Returns:
        A function of the same kind.
    """
    wrap = _WRAPS[get_function_type(function)]
    return functools.wraps(function)(wrap(function, _Call(function, start, settings)))


def qualified_name(function: Function) -> str:
    """A function's qualified name; of a `functools.partial` that of what it calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class FunctionType(StrEnum):
    """How a function is called; the span attribute `function.type`."""

    Sync = "sync"
    Async = "async"
    SyncGenerator = "sync_generator"
    AsyncGenerator = "async_generator"


class _Call:
    """Starts the span of a call and keeps its arguments and result."""

    def __init__(self, function: Function, start: Start, settings: FunctionSpan) -> None:
        self._start = start
        self._settings = settings
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):  # some built-ins have none
            self._signature = None
        kind = get_function_type(function)
        self._attributes: dict[str, str | bool] = {
            "function.name": qualified_name(function).rpartition(".")[2],
            "function.module": getattr(function, "__module__", None) or "",
            "function.qualname": qualified_name(function),
            "function.type": kind.value,
            "function.streaming": kind in _STREAMS,
        }

    def begin(self, args: tuple[object, ...], kwargs: dict[str, object]) -> ScouterSpan:
        span = self._start()
        if span.is_recording():
            span.set_attributes(self._attributes)
            if self._settings.record_io and self._settings.record_args:
                span.set_input(self._named(args, kwargs), self._settings.max_length)
        return span

    def result(self, span: ScouterSpan, value: object) -> None:
        if self._settings.record_io:
            span.set_output(value, self._settings.max_length)

    def items(self) -> "_Items":
        return _Items(self._settings)

    def _named(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        if self._signature is None:
            return {"args": list(args), **kwargs}
        try:
            named = dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError:  # the call itself is about to fail with the better message
            return {"args": list(args), **kwargs}
        for own in ("self", "cls"):
            named.pop(own, None)
        return named


class _Items:
    """The items of a stream that are kept, at most `MAX_STREAM_ITEMS`."""

    def __init__(self, settings: FunctionSpan) -> None:
        self._settings = settings
        self._kept: list[Any] = []

    def add(self, item: object) -> None:
        if not self._settings.record_io:
            return
        if self._settings.last_item_only:
            self._kept = [item]
        elif len(self._kept) < MAX_STREAM_ITEMS:
            self._kept.append(item)

    def output(self) -> object:
        if self._settings.last_item_only:
            return self._kept[0] if self._kept else None
        if self._settings.join_items:
            return "".join(str(item) for item in self._kept)
        return self._kept


def get_function_type(function: Function) -> FunctionType:
    """Tell how a function is called; of a `functools.partial`, what it calls."""
    while isinstance(function, functools.partial):
        function = function.func
    # An object that is called like a function says by its class how.
    kind = cast("Any", type(function))
    for each in (function, kind.__call__):
        if inspect.isasyncgenfunction(each):
            return FunctionType.AsyncGenerator
        if inspect.isgeneratorfunction(each):
            return FunctionType.SyncGenerator
        if inspect.iscoroutinefunction(each):
            return FunctionType.Async
    return FunctionType.Sync


def _plain(function: Function, call: _Call) -> Function:
    def wrapper(*args: object, **kwargs: object) -> object:
        with call.begin(args, kwargs) as span:
            value = function(*args, **kwargs)
            call.result(span, value)
            return value

    return wrapper


def _coroutine(function: Function, call: _Call) -> Function:
    async def wrapper(*args: object, **kwargs: object) -> object:
        with call.begin(args, kwargs) as span:
            value = await function(*args, **kwargs)
            call.result(span, value)
            return value

    return wrapper


@contextmanager
def _step(span: ScouterSpan) -> Generator[None]:
    """Make the span current for one step only: between steps the consumer's code runs."""
    token: Any = span.make_current()
    try:
        yield
    finally:
        otel_context.detach(token)


@contextmanager
def _stream(call: _Call, span: ScouterSpan, items: _Items) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        span.failed(error)
        raise
    finally:
        try:
            call.result(span, items.output())
        except Exception as error:  # noqa: BLE001 - an item's __str__ must not stop the agent
            GUARD.refuse("span", "invalid", error)
        span.end()


def _generator(function: Function, call: _Call) -> Function:
    def wrapper(*args: object, **kwargs: object) -> Generator[Any, Any, Any]:
        span, items = call.begin(args, kwargs), call.items()
        with _stream(call, span, items):
            inner: Generator[Any, Any, Any] = function(*args, **kwargs)
            step: Callable[[], Any] = functools.partial(next, inner)
            while True:
                try:
                    with _step(span):
                        item = step()
                except StopIteration as stop:
                    return stop.value
                items.add(item)
                try:
                    sent: Any = yield item
                except GeneratorExit:
                    with _step(span):
                        inner.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on to the generator
                    step = functools.partial(inner.throw, error)
                else:
                    step = functools.partial(inner.send, sent)

    return wrapper


def _async_generator(function: Function, call: _Call) -> Function:
    async def wrapper(*args: object, **kwargs: object) -> AsyncGenerator[Any, Any]:
        span, items = call.begin(args, kwargs), call.items()
        with _stream(call, span, items):
            inner: AsyncGenerator[Any, Any] = function(*args, **kwargs)
            step: Callable[[], Any] = functools.partial(inner.asend, None)
            while True:
                try:
                    with _step(span):
                        item = await step()
                except StopAsyncIteration:
                    return
                items.add(item)
                try:
                    sent: Any = yield item
                except GeneratorExit:
                    with _step(span):
                        await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on to the generator
                    step = functools.partial(inner.athrow, error)
                else:
                    step = functools.partial(inner.asend, sent)

    return wrapper


_WRAPS: Final = {
    FunctionType.Sync: _plain,
    FunctionType.Async: _coroutine,
    FunctionType.SyncGenerator: _generator,
    FunctionType.AsyncGenerator: _async_generator,
}
_STREAMS: Final = {FunctionType.SyncGenerator, FunctionType.AsyncGenerator}
