"""Values in messages: as JSON, and short."""

import json
from typing import Final

from pydantic import JsonValue

KEYS_SHOWN: Final = 10
"""Keys or names that a message lists."""
LIMIT: Final = 120
"""Characters of a value that a message shows."""


def show(value: JsonValue) -> str:
    """Write a value for a person to read: JSON, cut after `LIMIT` characters.

    Cost: linear in the value, except for texts, of which only the beginning is read.
    """
    if isinstance(value, str) and len(value) > LIMIT:
        return f"{json.dumps(value[:LIMIT], ensure_ascii=False)}… ({len(value)} characters)"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}…"


def kind_of(value: JsonValue) -> str:
    """Name a value's type in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"an object with {len(value)} keys"
