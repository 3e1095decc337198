"""Methods that are made from routes."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar, overload

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class Method(Generic[C, P, R]):
    """A method with the parameters and the help of a route.

    Args:
        route: The route that gives parameters and help.
        run: Function behind the method; takes the client first.
    """

    def __init__(self, route: Callable[P, object], run: Callable[Concatenate[C, P], R]) -> None:
        self._run = wraps(route)(run)
        self.__doc__ = route.__doc__

    @overload
    def __get__(self, client: None, owner: type[C]) -> Callable[Concatenate[C, P], R]: ...
    @overload
    def __get__(self, client: C, owner: type[C]) -> Callable[P, R]: ...
    def __get__(self, client: C | None, owner: type[C]) -> Callable[..., R]:
        if client is None:
            return self._run
        run = self._run

        @wraps(run)
        def bound(*args: P.args, **kwargs: P.kwargs) -> R:
            return run(client, *args, **kwargs)

        return bound
