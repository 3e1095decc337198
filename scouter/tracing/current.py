"""A span that starts when it becomes the current one: for `with`, `async with` and decorators."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from scouter.tracing.decorate import FunctionSpan, traced
from scouter.tracing.span import DEFAULT_MAX_LENGTH, ScouterSpan

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
        """Make each call of a function a span; arguments and result are not kept."""
        return cast("F", traced(function, self._start, _SPAN_ONLY))
