"""Calls that return at once, and so need no thread in a replay."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., object])

_AT_ONCE: Final[dict[object, Callable[[Any], bool]]] = {}


def over_at_once(when: Callable[[Any], bool] = lambda _: True) -> Callable[[F], F]:
    """Mark a method that needs no thread, as it only hands over or does nothing.

    Args:
        when: Says so for an object with this method; by default for each.
    """

    def mark(function: F) -> F:
        _AT_ONCE[function] = when
        return function

    return mark


def is_over_at_once(function: Callable[..., object]) -> bool:
    """Tell whether a call gives back a coroutine or a value at once, as far as can be seen."""
    when = _AT_ONCE.get(getattr(function, "__func__", None))
    return is_async(function) or (when is not None and when(getattr(function, "__self__", None)))


def is_async(function: object) -> bool:
    """Tell whether a call gives back a coroutine, as far as that can be seen beforehand."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return False  # its instances may be
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asks what kind it is, not whether
    )
