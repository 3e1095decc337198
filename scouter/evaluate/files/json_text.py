"""JSON as it should be: no key twice, and only JSON's own numbers."""

import json
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
