"""The functions of the client that describe routes, by name."""

import inspect
from collections.abc import Callable
from typing import Any

from scouter.client import routes


def client_routes() -> dict[str, Callable[..., Any]]:
    """All of them, of every module of the room."""
    return {
        name: function
        for module in (getattr(routes, name) for name in routes.__all__)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    }
