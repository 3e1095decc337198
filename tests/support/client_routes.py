"""The functions of the client that describe routes, by name."""

import inspect
from collections.abc import Callable
from typing import Any

from scouter.client import routes


def client_routes() -> dict[str, Callable[..., Any]]:
    """All of them, of every module of the room."""
    return {
        name: function
        for module in map(routes.__dict__.__getitem__, routes.__all__)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
