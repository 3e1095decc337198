"""Texts that hold JSON."""

import json

from pydantic import JsonValue


def parse_if_json(value: JsonValue) -> JsonValue:
    """Give the object or list that a text holds as JSON; anything else as it is.

    Numbers, booleans and null in a text stay text: `"12"` was written as a text.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
