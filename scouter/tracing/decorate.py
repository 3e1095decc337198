"""Spans around calls: of any kind of function, and of what a function gave back to go on with."""

import functools
import inspect
import sys
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from opentelemetry import context as otel_context

from scouter.model.attributes import MORE, OUTPUT
from scouter.tracing.span import DEFAULT_MAX_LENGTH, ScouterSpan
from scouter.tracing.values import MAX_JSON_CHARS
from scouter.transport.guard import GUARD

_NONE: Final = frozenset({bool, bytes, dict, float, int, list, set, str, tuple, types.NoneType})
"""Most results are of these, and need no further look."""
_OTHER_USES: Final = ("__aenter__", "__enter__", "__aiter__", "__iter__")
"""Methods of values that are used otherwise than by awaiting them: context managers and streams.

Scouter cannot know how the work of such a value ends.
"""


class Work(Enum):
    """The kinds of values that work is left in."""

    Coroutine = auto()
    Generator = auto()
    AsyncGenerator = auto()
    Future = auto()
    Awaitable = auto()


def work_left(value: object) -> Work | None:
    """Tell what kind of work is left in a value.

    Its type is looked at: what a value says of its class may be somebody's code.
    """
    kind = type(value)
    if kind in _NONE:
        return None
    if issubclass(kind, Coroutine) or (inspect.isgenerator(value) and inspect.isawaitable(value)):
        return Work.Coroutine  # the second is a generator that is awaited like one
    if issubclass(kind, Generator):
        return Work.Generator
    if issubclass(kind, AsyncGenerator):
        return Work.AsyncGenerator
    if issubclass(kind, _futures()):
        return Work.Future
    if not hasattr(kind, "__await__") or any(hasattr(kind, name) for name in _OTHER_USES):
        return None
    return Work.Awaitable


def _futures() -> tuple[type, ...]:
    """The classes of futures: those whose module nobody has loaded, nobody has made."""
    modules = (sys.modules.get(name) for name in ("asyncio", "concurrent.futures"))
    found = (getattr(module, "Future", None) for module in modules)
    return tuple(each for each in found if isinstance(each, type))


def end_with(span: ScouterSpan, work: object) -> None:
    """End a span at the latest when nobody refers to the work any more, started or not."""
    weakref.finalize(work, _end, span).atexit = False


def when_finished(
    future: Any,  # noqa: ANN401 - of asyncio or of concurrent.futures
    then: Callable[[BaseException | None, Any], None],
) -> None:
    """Call a function with the error or the result of a future; a cancelled one has neither.

    The error is not read by `exception()`: asyncio would take it for seen, and log nothing
    where nobody else looks.
    """

    def finished(done: Any) -> None:  # noqa: ANN401 - of either kind
        error = None if done.cancelled() else getattr(done, "_exception", None)
        then(error, None if error is not None or done.cancelled() else done.result())

    if future.done():
        finished(future)
    else:
        future.add_done_callback(finished)


def _end(span: ScouterSpan) -> None:
    if span.is_recording():
        span.end()


class Awaited:
    """Stands for an awaitable of any other class, and is it in all but `await`.

    Args:
        inner: The awaitable; special methods beside `__await__` are not passed on.
        run: Awaits it inside of the span.
    """

    def __init__(self, inner: object, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._scouter_inner, self._scouter_run = inner, run

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._scouter_run().__await__()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        return getattr(self._scouter_inner, name)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # nobody sets it
        """That of what it stands for, so that `isinstance` says the same."""
        return type(self._scouter_inner)


MAX_STREAM_ITEMS: Final = 1000
"""Items of a generator that are recorded for the span's output, unless they are joined."""

Function = Callable[..., Any]
Start = Callable[[], ScouterSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpan:
    """Options that tell how a span describes a call of a function; see `ScouterTracer.span`."""

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
        settings: Options of the span.

    Returns:
        A function of the same kind. The span of a coroutine function lasts until the coroutine is
        done. So does that of a plain function that returns a coroutine, a generator, a future or
        another awaitable.
    """
    wrap = _WRAPS[get_function_type(function)]
    return functools.wraps(function)(wrap(function, _Call(function, start, settings)))


def qualified_name(function: Function) -> str:
    """A function's qualified name; of a `functools.partial` that of what it calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class FunctionType(StrEnum):
    """The kind of a function; the span attribute `function.type`."""

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

    def outcome(self, span: ScouterSpan, value: Any) -> Any:  # noqa: ANN401 - any result
        """Keep a result; one in which work is left keeps the span open until that is done."""
        work = work_left(value)
        if work is None:
            self.result(span, value)
            return value
        rest = _Rest(self, span)
        if work is Work.Future:
            rest.kind(FunctionType.Async)
            when_finished(value, rest.finish)
            return value
        if work is Work.Awaitable:
            rest.kind(FunctionType.Async)
            return rest.with_end(Awaited(value, _coroutine(lambda: value, rest)))
        return rest.go_on(_KINDS[work], value)

    def result(self, span: ScouterSpan, value: object) -> None:
        if self._settings.record_io:
            span.set_output(value, self._settings.max_length)

    def streamed(self, span: ScouterSpan, items: "_Items") -> None:
        if self._settings.record_io:
            beyond = len(MORE) if self._settings.join_items else 0  # it stands behind the rest
            span.set_output(items.output(), max(0, self._settings.max_length) + beyond)
            if items.is_cut:
                span.note_cut(OUTPUT)

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


class _Rest(_Call):
    """The rest of a call that gave back something to await or to go through: one span for both."""

    def __init__(self, call: _Call, span: ScouterSpan) -> None:
        self._settings, self._span = call._settings, span
        self._ends = span.stay_open()

    def begin(self, args: tuple[object, ...], kwargs: dict[str, object]) -> ScouterSpan:
        self._span.stay_open(not self._ends)
        return self._span

    def kind(self, kind: FunctionType) -> None:
        """Say what the function has turned out to be."""
        streams = kind in _STREAMS
        self._span.set_attributes({"function.type": kind.value, "function.streaming": streams})

    def go_on(self, kind: FunctionType, value: object) -> Any:  # noqa: ANN401 - of the value's kind
        self.kind(kind)
        return self.with_end(_WRAPS[kind](lambda: value, self)())

    def with_end(self, made: object) -> object:
        end_with(self._span, made)
        return made

    def finish(self, error: BaseException | None, value: object) -> None:
        if error is not None:
            self._span.failed(error)
        else:
            self.result(self._span, value)
        if self._ends:
            self._span.end()


class _Items:
    """The items of a stream that are recorded, at most `MAX_STREAM_ITEMS`.

    Joined, it is as much of their text as the span may hold, and a mark where there was more.
    """

    def __init__(self, settings: FunctionSpan) -> None:
        self._settings = settings
        self._items: list[Any] = []
        self._left = min(max(0, settings.max_length), MAX_JSON_CHARS - len(MORE))
        self.is_cut = False

    def add(self, item: object) -> None:
        if not self._settings.record_io:
            return
        if self._settings.last_item_only:
            self._items = [item]
        elif self._settings.join_items:
            self._join(item)
        elif len(self._items) < MAX_STREAM_ITEMS:
            self._items.append(item)
        else:
            self.is_cut = True

    def _join(self, item: object) -> None:
        if self.is_cut:
            return
        try:
            text = item if type(item) is str else str(item)
        except Exception as error:  # noqa: BLE001 - an item's __str__ must not stop the agent
            GUARD.refuse("span", "invalid", error)
            return
        part = text[: self._left]
        self._left -= len(part)
        self.is_cut = len(part) < len(text)
        if part:
            self._items.append(part)

    def output(self) -> object:
        if self._settings.last_item_only:
            return self._items[0] if self._items else None
        if self._settings.join_items:
            return "".join(self._items) + (MORE if self.is_cut else "")
        return self._items


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
            return call.outcome(span, function(*args, **kwargs))

    return wrapper


def _coroutine(function: Function, call: _Call) -> Function:
    async def wrapper(*args: object, **kwargs: object) -> object:
        with call.begin(args, kwargs) as span:
            return call.outcome(span, await function(*args, **kwargs))

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
            call.streamed(span, items)
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
_KINDS: Final = {
    Work.Coroutine: FunctionType.Async,
    Work.Generator: FunctionType.SyncGenerator,
    Work.AsyncGenerator: FunctionType.AsyncGenerator,
}
_STREAMS: Final = {FunctionType.SyncGenerator, FunctionType.AsyncGenerator}


F = TypeVar("F", bound=Callable[..., Any])

_SPAN_ONLY: Final = FunctionSpan(max_length=DEFAULT_MAX_LENGTH, record_io=False)


class CurrentSpan:
    """Context manager that `ScouterTracer.start_as_current_span` returns.

    Args:
        start: Starts the span.
    """

    __slots__ = ("_open", "_start")

    def __init__(self, start: Callable[[], ScouterSpan]) -> None:
        self._start = start
        self._open: list[ScouterSpan] = []

    def __enter__(self) -> ScouterSpan:
        span = self._start()
        self._open.append(span)
        return span.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._open.pop().__exit__(exc_type, exc_val, exc_tb)

    async def __aenter__(self) -> ScouterSpan:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.__exit__(exc_type, exc_val, exc_tb)

    def __call__(self, function: F) -> F:
        """Make each call of a function a span; arguments and result are not recorded."""
        return cast("F", traced(function, self._start, _SPAN_ONLY))
