"""JSON text for columns."""

import json
from typing import Final

from scouter.model.json_value import to_json_value

_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode


def dump_json(value: object) -> str:
    """Write JSON by the rule of `to_json_value`; text that is not Unicode is escaped."""
    try:
        text = _encode(value)
    except (ValueError, TypeError):
        value = to_json_value(value)
        text = _encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text
