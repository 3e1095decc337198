"""JSON as it should be: no key twice, only JSON's own numbers, and a line for every value."""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

from pydantic import JsonValue

MAX_DEPTH: Final = 500
"""Levels at which a text that Python's own stack could not take is refused."""
MAX_DIGITS: Final = 4300
"""Most digits of one integer; Python's own limit by default."""

Loc: TypeAlias = tuple[str | int, ...]
"""The way to a value inside a document: keys and indexes."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|[\[\]{},:]|[^\s\[\]{},:"]+)""",
    re.DOTALL,
)
_CONSTANTS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class JsonFault(ValueError):
    """Fault of a JSON text.

    Args:
        problem: In words.
        line: From 1, where known.
        loc: The value inside the document, where known.
    """

    def __init__(self, problem: str, line: int | None = None, loc: Loc = ()) -> None:
        super().__init__(problem, line, loc)
        self.problem, self.line, self.loc = problem, line, loc


def parse(text: str) -> JsonValue:
    """Parse one JSON text.

    Raises:
        JsonFault: Malformed, too deep, a key twice in one object, NaN or an infinity, a number
            that is none in Python.

    Cost: linear; a fault costs a second pass, to find the place.
    """
    try:
        return load_strictly(text)
    except json.JSONDecodeError as error:
        raise JsonFault(f"{error.msg} (column {error.colno})", error.lineno) from error
    except RecursionError as error:
        fault = _first_fault(text)
        raise fault or JsonFault("lists and objects are nested too deeply") from error
    except ValueError as error:  # one of the hooks, or an integer of too many digits
        raise _first_fault(text) or JsonFault(str(error)) from error


def load_strictly(text: str) -> JsonValue:
    """Parse as `parse` does, but say no place beyond what Python says: linear for every text.

    Raises:
        ValueError: Not JSON as it should be.
        RecursionError: Nested too deeply.
    """
    return STRICT.decode(text)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON value")


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is beyond the largest number")
    return value


STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse, parse_float=_float
)
"""Raises a `ValueError` that is no `JSONDecodeError` for what is JSON, but not as it should be."""


class _Step(NamedTuple):
    """One value or key of a text, as it is met."""

    position: int
    loc: Loc
    depth: int
    word: str
    is_new_key: bool | None
    """True if a key is the first of its name in its object; None for values."""


def _first_fault(text: str) -> JsonFault | None:
    """Find what `parse` refused, in a text that may be malformed behind it."""
    for step in _steps(text):
        problem = _problem(step)
        if problem is not None:
            line = text.count("\n", 0, step.position) + 1
            return JsonFault(problem, line, step.loc)
    return None


def _problem(step: _Step) -> str | None:
    word = step.word
    if step.depth > MAX_DEPTH:
        return f"lists and objects are nested too deeply: more than {MAX_DEPTH} levels"
    if step.is_new_key is False:
        return f"the key {step.loc[-1]!r} stands twice in one object"
    if step.is_new_key or word[0] in '"[{':
        return None
    if word in _CONSTANTS:
        return f"{word} is no JSON value"
    if word.lstrip("-").isdecimal():
        if len(word.lstrip("-")) > MAX_DIGITS:
            return f"an integer of {len(word.lstrip('-'))} digits; at most {MAX_DIGITS} are read"
    elif word[0] in "-0123456789" and _is_beyond(word):
        return f"{word[:40]} is beyond the largest number"
    return None


def _is_beyond(word: str) -> bool:
    try:
        return not isfinite(float(word))
    except ValueError:
        return False


class _OpenValue:
    """One list or object that is open."""

    __slots__ = ("at", "is_object", "keys")

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.at: str | int | None = None if is_object else 0
        """The key or index of the value that comes next; None where a key comes next."""
        self.keys: set[str] = set()


def _steps(text: str) -> Iterator[_Step]:
    """Walk over the values and keys of a text without recursion; ends where it is malformed."""
    frames: list[_OpenValue] = []
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        word = match.group().lstrip(" \t\r\n")
        start = position - len(word)
        frame = frames[-1] if frames else None
        if word in {"]", "}"}:
            if not frames:
                return
            frames.pop()
        elif word == ",":
            if frame is not None:
                frame.at = None if frame.is_object else int(frame.at or 0) + 1
        elif word != ":":
            loc = tuple(f.at for f in frames if f.at is not None) if len(frames) < 99 else ()
            if frame is not None and frame.at is None:
                if match["text"] is None:
                    return
                key = _decoded(word)
                yield _Step(start, (*loc, key), len(frames), word, key not in frame.keys)
                frame.keys.add(key)
                frame.at = key
                continue
            is_open = word in {"[", "{"}
            yield _Step(start, loc, len(frames) + is_open, word, None)
            if is_open:
                frames.append(_OpenValue(word == "{"))


def _decoded(word: str) -> str:
    try:
        return str(json.loads(word, strict=False))
    except ValueError:
        return word


def line_of(text: str, loc: Loc) -> int:
    """Find the line, from 1, of a value in JSON text that is known to be valid.

    Where there is no such place, the line of the nearest one above it.

    Cost: linear in what stands before the value.
    """
    position = _skip(text, 0)
    for part in loc:
        found = _child(text, position, part)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _child(text: str, start: int, part: str | int) -> int | None:
    decode = json.JSONDecoder().raw_decode
    opening = text[start]
    if opening not in "[{" or (opening == "{") != isinstance(part, str):
        return None
    position, index = _skip(text, start + 1), 0
    while text[position] not in "]}":
        key: str | int = index
        if opening == "{":
            key, position = decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        if key == part:
            return position
        _, position = decode(text, position)
        position, index = _skip(text, position), index + 1
        if text[position] == ",":
            position = _skip(text, position + 1)
    return None


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()
