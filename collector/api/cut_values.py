"""Values of any size, cut for people: the beginning of long texts, and where the rest is."""

import re
from typing import Final

from pydantic import JsonValue

from scouter.client.models.trace_parts import CutText

_BASE64: Final = re.compile(r"(data:[\w/+.;=-]{0,100},)?[A-Za-z0-9+/=_\r\n-]{256,}")
_LEVELS: Final = 64
"""Values inside values that are looked through; what is deeper stays as it is."""


def cut_texts(
    value: JsonValue, most: int, pointer: str = "", levels: int = _LEVELS
) -> tuple[JsonValue, list[CutText]]:
    """Cut every long text inside a value.

    Args:
        value: As JSON.
        most: Characters that are kept of a text.
        pointer: To the value.
        levels: Values inside values that are looked through.

    Returns:
        The value with short texts, and what was cut, in the order of the value.

    Cost: linear in the number of values inside, not in the length of texts.
    """
    if isinstance(value, str):
        if len(value) <= most:
            return value, []
        is_binary = _BASE64.fullmatch(value[:4096]) is not None
        cut = CutText(pointer=pointer, characters=len(value), is_binary=is_binary)
        return "" if is_binary else value[:most], [cut]
    if not levels or not isinstance(value, dict | list):
        return value, []
    cuts: list[CutText] = []

    def part(key: str | int, each: JsonValue) -> JsonValue:
        short, found = cut_texts(each, most, f"{pointer}/{escaped(key)}", levels - 1)
        cuts.extend(found)
        return short

    if isinstance(value, dict):
        return {key: part(key, each) for key, each in value.items()}, cuts
    return [part(at, each) for at, each in enumerate(value)], cuts


def escaped(key: str | int) -> str:
    """A key as one step of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def value_at(value: JsonValue, pointer: str) -> JsonValue:
    """Follow a JSON pointer.

    Raises:
        LookupError: Nothing is there.
    """
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isdigit():
            value = value[int(key)]
        else:
            raise LookupError(pointer)
    return value
