"""Work that goes on behind a call: how a span lasts as long as what a function gave back."""

import inspect
import sys
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from enum import Enum, auto
from typing import Any, Final

from scouter.tracing.span import ScouterSpan

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
    """End a span at the latest when nobody holds the work any more, begun or not."""
    weakref.finalize(work, _end, span).atexit = False


def when_finished(
    future: Any,  # noqa: ANN401 - of asyncio or of concurrent.futures
    then: Callable[[BaseException | None, Any], None],
) -> None:
    """Call a function with the error or the result of a future; a cancelled one has neither.

    The error is not asked for by `exception()`: asyncio would take it for seen, and log nothing
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
