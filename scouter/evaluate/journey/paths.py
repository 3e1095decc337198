"""Arguments as leaves under dotted paths, and the strategy that holds for each."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue


def flatten(args: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    """Lay nested objects out as dotted paths: `{"a": {"b": 1}}` is `{"a.b": 1}`.

    Lists and null are leaves; an empty object has none.

    Cost: linear in the values.
    """
    flat: dict[str, JsonValue] = {}
    for key, value in args.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(cast("Mapping[str, JsonValue]", value), f"{path}."))
        else:
            flat[path] = value
    return flat


def strategy_of(path: str, strategies: Mapping[str, str]) -> str:
    """The strategy for a leaf: its own, else that of the longest path above it, else `strict`."""
    while path:
        if path in strategies:
            return strategies[path]
        path = path.rpartition(".")[0]
    return "strict"
