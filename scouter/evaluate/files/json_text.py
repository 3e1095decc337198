"""JSON as it should be: no key twice, only its own numbers; and its size, not written."""

import json
from collections.abc import Container
from math import isfinite
from typing import Final

from pydantic import JsonValue


class JsonFault(ValueError):
    """Fault of a JSON text.

    Args:
        problem: In words.
        line: From 1, where known: of what is no JSON at all.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem, line)
        self.problem, self.line = problem, line


def parse(text: str) -> JsonValue:
    """Parse one JSON text.

    Raises:
        JsonFault: Malformed, too deep, a key twice in one object, NaN or an infinity, a number
            that is none in Python.

    Cost: linear.
    """
    try:
        return load_strictly(text)
    except json.JSONDecodeError as error:
        raise JsonFault(f"{error.msg} (column {error.colno})", error.lineno) from error
    except RecursionError as error:
        raise JsonFault("lists and objects are nested too deeply") from error
    except ValueError as error:  # one of the hooks, or an integer of too many digits
        raise JsonFault(str(error).partition("; use sys.")[0]) from error


def load_strictly(text: str) -> JsonValue:
    """Parse as `parse` does, but raise what Python raises.

    Raises:
        ValueError: Not JSON as it should be.
        RecursionError: Nested too deeply.
    """
    return STRICT.decode(text)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON value")


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the largest number")
    return value


STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse, parse_float=_float
)
"""Raises a `ValueError` that is no `JSONDecodeError` for what is JSON, but not as it should be."""


def is_longer(value: JsonValue, characters: int) -> bool:
    """Tell whether a value surely has more characters as JSON; False for some that have few more.

    Cost: linear in the characters, however large the value is.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            characters -= len(item)
        elif isinstance(item, list):
            characters -= len(item)
            if characters >= 0:
                waiting += item
        elif isinstance(item, dict):
            characters -= len(item) + sum(map(len, item))
            if characters >= 0:
                waiting += item.values()
        else:
            characters -= _length(item)
        if characters < 0:
            return True
    return False


def _length(value: JsonValue) -> int:
    """About the characters of a number or a word, never more."""
    return max(1, value.bit_length() * 3 // 10) if isinstance(value, int) else 1


def beginning(value: JsonValue, characters: int) -> JsonValue:
    """Copy the first part of a value.

    Args:
        value: Any JSON value.
        characters: Least number of characters.

    Returns:
        A value whose JSON begins with the same characters, and is as long or the whole.

    Cost: linear in the characters, however large the value is.
    """
    return _first(value, characters)[0]


def _first(value: JsonValue, left: int) -> tuple[JsonValue, int]:
    """The first part, and how many characters are still wanted behind it."""
    if isinstance(value, str):
        return value[: max(left, 0)], left - len(value)
    if isinstance(value, list):
        items: list[JsonValue] = []
        for item in value:
            if left <= 0:
                break
            first, left = _first(item, left - 1)  # the comma, or the bracket
            items.append(first)
        return items, left - 1
    if isinstance(value, dict):
        fields: dict[str, JsonValue] = {}
        for key, item in value.items():
            if left <= 0:
                break
            name = key if len(key) <= left else _other_than(fields, key[:left])
            fields[name], left = _first(item, left - len(key) - 1)
        return fields, left - 1
    return value, left - _length(value)


def end(value: JsonValue, characters: int) -> JsonValue:
    """Copy the last part of a value; see `beginning`."""
    return _last(value, characters)[0]


def _last(value: JsonValue, left: int) -> tuple[JsonValue, int]:
    if isinstance(value, str):
        return value[max(len(value) - max(left, 0), 0) :], left - len(value)
    if isinstance(value, list):
        items: list[JsonValue] = []
        for item in reversed(value):
            if left <= 0:
                break
            last, left = _last(item, left - 1)
            items.append(last)
        return items[::-1], left - 1
    if isinstance(value, dict):
        fields: dict[str, JsonValue] = {}
        for key, item in reversed(value.items()):
            if left <= 0:
                break
            last, left = _last(item, left - 1)
            name = key if len(key) <= left else _other_than(fields, key[len(key) - max(left, 0) :])
            fields[name] = last
            left -= len(key)
        return dict(reversed(fields.items())), left - 1
    return value, left - _length(value)


def _other_than(known: Container[str], name: str) -> str:
    """A cut key may be another one: then it is made longer, where nobody reads it any more."""
    while name in known:
        name = f"…{name}…"
    return name


def weight(value: JsonValue, most: int | None = None) -> int:
    """Count the values inside a value, at any depth; 0 if it is no list and no object.

    Args:
        value: The value.
        most: The count to stop at; the real number is then larger.

    Cost: linear in the value, up to `most`.
    """
    count, waiting = -1, [value]
    while waiting:
        count += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            continue
        if most is not None and count + len(waiting) > most:
            return count + len(waiting)
    return count
