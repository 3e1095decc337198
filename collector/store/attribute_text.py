"""Short attributes of a span as one text in which each is found by its key and value.

The text is a JSON object with a line for each attribute. JSON writes a line break inside of a text
as an escape, so what stands behind one begins an attribute.
"""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Final

import orjson

from collector.store.reads import Values
from scouter.model.json_value import plain_texts, to_json_value
from scouter.model.span import Attributes

LONGEST: Final = 256
"""Characters of the longest key, and of the longest value, that has a place in the text."""


_SIZED: Final = (str, bytes, tuple, dict)


def attribute_text(attributes: Attributes) -> str:
    """Write the attributes of a span, but for long ones; U+FFFD replaces half a character.

    A number that JSON cannot say is null. Cost: 3 µs for ten attributes.
    """
    short = {
        name: value
        for name, value in attributes.items()
        if len(name) <= LONGEST and not (isinstance(value, _SIZED) and len(value) > LONGEST)
    }
    try:
        return orjson.dumps(short, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # bytes, or half a character
        plain = plain_texts(to_json_value(short))
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)


def is_searched(key: str, value: str) -> bool:
    """Tell whether an attribute is found by its key and value: long ones are not."""
    return max(len(key), len(value)) <= LONGEST


def has_attribute(key: str, value: str, values: Values) -> str:
    """SQL that is true of texts with an attribute.

    Args:
        key: Name of the attribute.
        value: A text, or a number or boolean that is written so.
        values: Gets the values of parameters.
    """
    forms = (f"position({values.of(form)} IN attributes) > 0" for form in _forms(key, value))
    return f"({' OR '.join(forms)})"


def _forms(key: str, value: str) -> Iterator[str]:
    """The ways in which an attribute may stand in a text; the end of a number tells it whole."""
    head = f"\n  {_json(key)}: "
    yield head + _json(value)
    if value in ("true", "false"):
        yield head + value
    for number in sorted(_numbers(value)):
        yield from (f"{head}{number}{end}" for end in ",\n")


def _numbers(text: str) -> set[str]:
    """The JSON of the numbers whose written form a text may be."""
    found: set[str] = set()
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        if str(whole) == text and -(2**63) <= whole < 2**63:
            found.add(text)
    try:
        number = float(text)
    except ValueError:
        return found
    if not isfinite(number):
        return found
    return found | {_json(each) for each in ((number, -number) if not number else (number,))}


def _json(value: str | float) -> str:
    return orjson.dumps(value).decode()
