"""How much room a record takes while it waits; an estimate is enough for a bound."""

from typing import Final, cast

from pydantic import JsonValue

_RECORD: Final = 400
"""Fixed fields and objects of one record."""


def estimate_bytes(context: JsonValue) -> int:
    """Estimate the size of a record from its context.

    Args:
        context: Plain JSON.

    Returns:
        Bytes, near the length of the JSON text plus a fixed part.

    Cost: one walk.
    """
    total = _RECORD
    stack: list[JsonValue] = [context]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is str:
            total += len(cast(str, value)) + 3
        elif kind is dict:
            fields = cast(dict[str, JsonValue], value)
            for key, item in fields.items():
                total += len(key) + 4
                if type(item) is str:
                    total += len(item) + 3
                else:
                    stack.append(item)
        elif kind is list:
            stack.extend(cast(list[JsonValue], value))
        else:
            total += 8
    return total
