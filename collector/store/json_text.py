"""JSON text for columns."""

import json
from math import isfinite
from typing import Final, cast

from pydantic import JsonValue

from scouter.model.json_value import plain_texts, to_json_value

_WORDS: Final = {True: "true", False: "false", None: "null"}
_HALF: Final = "\\ud"
"""Beginning of the escape of a lone surrogate in a column; a pair of surrogates begins likewise."""
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


def plain_json(text: str) -> str:
    """Rewrite a text of `dump_json` for answers: U+FFFD replaces a lone surrogate."""
    return dump_json(load_json(text)) if _HALF in text else text


def load_json(text: str) -> JsonValue:
    """Read what `dump_json` wrote. Half a character becomes U+FFFD: no answer has it."""
    value: JsonValue = json.loads(text)
    return plain_texts(value) if _HALF in text else value
