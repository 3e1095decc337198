"""Properties that are computed when they are first read."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_Value = TypeVar("_Value")


class once(Generic[_Value]):
    """A property that an immutable object computes once, when it is first read.

    `functools.cached_property` of Python 3.11 takes a lock, which costs three times as much; a
    tree of spans has a dozen such properties. Threads that read one at the same moment may compute
    it twice, and find the same.

    Args:
        make: Computes the value.
    """

    def __init__(self, make: Callable[[Any], _Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owned: None, owner: type) -> Self: ...
    @overload
    def __get__(self, owned: object, owner: type) -> _Value: ...
    def __get__(self, owned: object | None, owner: type) -> _Value | Self:
        if owned is None:
            return self
        # The object's own value is found before this property, from now on.
        value = owned.__dict__[self._name] = self._make(owned)
        return value
