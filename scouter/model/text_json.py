"""Texts that hold JSON."""

import json

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.json_value import to_json_value


def parse_if_json(value: JsonValue) -> JsonValue:
    """Give the object or list that a text holds as JSON; anything else as it is.

    Numbers, booleans and null in a text stay text: `"12"` was written as a text. So does what
    `to_json_value` refuses, such as thousands of levels; NaN in it becomes None there.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return to_json_value(json.loads(value))
    except (ValueError, RecursionError, DataError):
        return value
