"""JSON text for columns."""

import json
from math import isfinite
from typing import Final, cast

from scouter.model.json_value import to_json_value

_WORDS: Final = {True: "true", False: "false", None: "null"}
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode


def dump_json(value: object) -> str:
    """Write JSON by the rule of `to_json_value`; text that is not Unicode is escaped."""
    kind = type(value)
    if kind is bool or value is None:
        return _WORDS[cast(bool | None, value)]
    try:
        is_plain = kind is int or (kind is float and isfinite(cast(float, value)))
        text = repr(value) if is_plain else _encode(value)
    except (ValueError, TypeError):
        value = to_json_value(value)
        text = _encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text
