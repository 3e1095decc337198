"""Texts that hold JSON, and responses, up to the size that is read."""

from typing import Final

from pydantic import JsonValue

from scouter.evaluate.outcome import Reason, TaskFault
from scouter.model.text_json import parse_if_json

MAX_JSON: Final = 1_000_000
"""Characters of JSON in texts that are read for one response; they may become 24 MB of values."""
MAX_VALUES: Final = 500_000
"""Values that are looked through for one response."""


def parsed(value: JsonValue) -> JsonValue:
    """Give the object or list that a text holds as JSON; see `parse_if_json`.

    Args:
        value: The text; anything else is given back.

    Raises:
        TaskFault: It has more than `MAX_JSON` characters (`Reason.LIMIT`).
    """
    _check(_json_characters(value), MAX_JSON, "characters of JSON in a text")
    return parse_if_json(value)


def check_response(value: JsonValue) -> None:
    """Refuse what is too large to be looked through as a response.

    Raises:
        TaskFault: It has more than `MAX_VALUES` values, or more than `MAX_JSON` characters of
            JSON in its texts (`Reason.LIMIT`).
    """
    values = characters = 0
    waiting = [value]
    while waiting:
        values += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            characters += _json_characters(item)
        _check(values + len(waiting), MAX_VALUES, "values")
    _check(characters, MAX_JSON, "characters of JSON in its texts")


def _check(found: int, limit: int, unit: str) -> None:
    if found > limit:
        raise TaskFault(
            Reason.LIMIT,
            f"the response has more than {limit:,} {unit}; name the way to it more closely",
        )


def _json_characters(value: JsonValue) -> int:
    is_read = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    return len(value) if isinstance(value, str) and is_read else 0
