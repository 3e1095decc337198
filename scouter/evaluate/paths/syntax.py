"""The syntax of paths, and the message for one that leads nowhere."""

import json
from collections.abc import Callable
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.show import LIMIT, kind_of, show_names
from scouter.evaluate.outcome import Reason, TaskFault

MAX_BYTES: Final = 512
MAX_SEGMENTS: Final = 32

ALL: Final = None
"""The segment `[*]`: every item of a list, every value of an object."""

Segment: TypeAlias = str | int | slice | None
"""A key (text; of digits it is an index where it meets a list), an index, a slice, or `ALL`."""

Getter: TypeAlias = Callable[[JsonValue], JsonValue]
"""Follows a path in a value; raises `TaskFault` with `Reason.MISSING_PATH`."""

_BREAKS: Final = frozenset(".[]\"'")


def parse_path(text: str) -> tuple[Segment, ...]:
    """Split a path into its segments.

    Args:
        text: Keys divided by dots (any characters but `. [ ] " '` and spaces), indexes in
            brackets (negative ones count from the end), slices `[start:stop:step]` with Python's
            meaning, quoted keys in brackets (JSON's escapes in double quotes; in single quotes a
            backslash protects the next character), `[*]`. At most `MAX_BYTES` bytes and
            `MAX_SEGMENTS` segments.

    Returns:
        At least one segment.

    Raises:
        ConfigError: Not a path; names the position and what would be right.

    Cost: linear.
    """
    check_size(text)
    if not text:
        raise ConfigError("the path is empty; leave it out (None) to read the whole value")
    segments: list[Segment] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            segment, at = _bracket(text, at)
        else:
            if segments:
                if text[at] != ".":
                    raise _wrong(text, at, "a dot or a bracket")
                at += 1
            segment, at = _bare(text, at)
        segments.append(segment)
    check_count(text, len(segments))
    return tuple(segments)


def check_size(text: str) -> None:
    """Refuse a path of more than `MAX_BYTES` bytes."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise ConfigError(f"path {text[:40]!r}…: {size} bytes, at most {MAX_BYTES} are allowed")


def check_count(text: str, count: int) -> None:
    """Refuse a path of more than `MAX_SEGMENTS` segments."""
    if count > MAX_SEGMENTS:
        raise ConfigError(f"path {text!r}: {count} segments, at most {MAX_SEGMENTS} are allowed")


def is_digits(segment: str) -> bool:
    """Tell whether a key is an index where it meets a list."""
    return segment.isascii() and segment.isdigit()


def _wrong(text: str, at: int, wanted: str) -> ConfigError:
    found = repr(text[at]) if at < len(text) else "the end"
    return ConfigError(f"path {text!r}: expected {wanted} at character {at + 1}, found {found}")


def _bare(text: str, at: int) -> tuple[Segment, int]:
    end = at
    while end < len(text) and text[end] not in _BREAKS and not text[end].isspace():
        end += 1
    if end == at:
        raise _wrong(text, at, 'a key (write ["…"] around a key with spaces, dots or quotes)')
    if end < len(text) and text[end] not in ".[":
        raise _wrong(text, end, 'a dot, a bracket or the end (write ["…"] around such a key)')
    key = text[at:end]
    return (ALL if key == "*" else key), end


def _bracket(text: str, at: int) -> tuple[Segment, int]:
    if text[at + 1 : at + 2] in ('"', "'") and at + 1 < len(text):
        key, end = _quoted(text, at + 1)
        if text[end : end + 1] != "]":
            raise _wrong(text, end, "a closing bracket")
        return key, end + 1
    end = text.find("]", at)
    inner = text[at + 1 : end] if end > 0 else ""
    if inner == "*":
        return ALL, end + 1
    numbers = [_number(part) for part in inner.split(":")]
    if "wrong" in numbers or len(numbers) > 3 or numbers == [None]:
        raise _wrong(text, at + 1, 'an index, a slice, * or a quoted key, closed by "]"')
    if len(numbers) == 1:
        return numbers[0], end + 1  # type: ignore[return-value]  # neither "wrong" nor None
    if numbers[2:] == [0]:
        raise _wrong(text, end, "a step that is not 0 before it")
    return slice(*numbers), end + 1


def _number(text: str) -> int | str | None:
    digits = text.removeprefix("-")
    if not text:
        return None
    return int(text) if is_digits(digits) and len(digits) <= 18 else "wrong"


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, end = text[at], at + 1
    while end < len(text) and text[end] != quote:
        end += 2 if text[end] == "\\" else 1
    if end >= len(text):
        raise _wrong(text, len(text), f"a closing {quote}")
    inner = text[at + 1 : end]
    if quote == "'":
        return _unescape(inner), end + 1
    try:
        return str(json.loads(f'"{inner}"')), end + 1
    except ValueError:
        raise _wrong(text, at, "a key with JSON's escapes") from None


def _unescape(inner: str) -> str:
    chars = iter(inner)
    return "".join(next(chars) if char == "\\" else char for char in chars)


def show_segment(segment: Segment) -> str:
    """Write one segment as it stands in a path, without a leading dot."""
    if segment is None:
        return "[*]"
    if isinstance(segment, int):
        return f"[{segment}]"
    if isinstance(segment, slice):
        parts = (segment.start, segment.stop, segment.step)
        text = ":".join("" if part is None else str(part) for part in parts)
        return f"[{text.removesuffix(':') if segment.step is None else text}]"
    plain = segment not in ("", "*") and not segment.startswith("$")
    if plain and not any(char in _BREAKS or char.isspace() for char in segment):
        return segment
    return f"[{json.dumps(segment, ensure_ascii=False)}]"


def format_path(segments: tuple[Segment, ...]) -> str:
    """Write segments as a path that `parse_path` reads back to the same segments."""
    text = ""
    for segment in segments:
        shown = show_segment(segment)
        text += shown if not text or shown.startswith("[") else f".{shown}"
    return text


def step_into(text: str, node: JsonValue, step: str | int, seen: tuple[Segment, ...]) -> JsonValue:
    """Give what stands in a value under a key or an index; arguments as of `missing`.

    Raises:
        TaskFault: Nothing does, or the value is of another kind.
    """
    if isinstance(step, str):
        if isinstance(node, dict) and step in node:
            return node[step]
    elif isinstance(node, list) and -len(node) <= step < len(node):
        return node[step]
    raise missing(text, node, step, seen)


def missing(text: str, node: JsonValue, segment: Segment, seen: tuple[Segment, ...]) -> TaskFault:
    """Tell the place where a path stopped, and the value there.

    Args:
        text: The path.
        node: The last value that was found.
        segment: The segment that this value lacks.
        seen: The segments that led to this value.
    """
    # A key of the record that `[*]` met may be as long as the record.
    way = tuple(each[:LIMIT] if isinstance(each, str) else each for each in seen)
    where = repr(format_path(way)) if seen else "the top level"
    return TaskFault(
        Reason.MISSING_PATH,
        f"path {text!r}: no {show_segment(segment)} at {where}; {_what_is_there(node)}",
    )


def _what_is_there(node: JsonValue) -> str:
    if isinstance(node, dict):
        if not node:
            return "the object there is empty"
        return f"the keys there are {show_names(node, len(node))}"
    if isinstance(node, list):
        if not node:
            return "the list there is empty"
        return f"there is a list of {len(node)}; use an index from 0 to {len(node) - 1}, or [*]"
    return f"there is {kind_of(node)}"
