"""The requests that the client's methods make, without a collector."""

import inspect
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from scouter.client.client import ScouterClient
from scouter.client.request import Request


class _MadeError(Exception):
    """A request that was made."""


class _Noting(ScouterClient):
    def _send(self, request: Request) -> NoReturn:
        raise _MadeError(request)


def client_routes() -> dict[str, Request]:
    """The request of every method, with `x` for what it needs, by the method's name."""
    return {
        name: _request(method)
        for name, method in inspect.getmembers(_Noting("http://nowhere"), inspect.ismethod)
        if not name.startswith("_") and name != "close"
    }


_GIVEN: dict[str, dict[str, Any]] = {
    "register_profile": {"profile": {}}, "push_run": {"results": {}}, "erase": {"session_id": "x"},
}  # fmt: skip


def _request(method: Any) -> Request:
    given = {
        each.name: "x"
        for each in inspect.signature(method).parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    try:
        made: object = method(**{**given, **_GIVEN.get(method.__name__, {})})
        if isinstance(made, Iterator):
            next(cast("Iterator[object]", made))
    except _MadeError as error:
        (request,) = error.args
        return request
    raise AssertionError(f"{method.__name__} makes no request")
