"""Paths into JSON values: `a.b[0].c`, `a.b.0.c`, `a[-1]`, `a["x.y"]`, `items[*].id`."""

import json
from collections.abc import Callable
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.operators.show import KEYS_SHOWN, kind_of
from scouter.evaluate.outcome import Reason

MAX_BYTES: Final = 512
MAX_SEGMENTS: Final = 32

ALL: Final = None
"""The segment `[*]`: every item of a list, every value of an object."""

Segment: TypeAlias = str | int | None
"""A key (text; of digits it is an index where it meets a list), an index, or `ALL`."""

Getter: TypeAlias = Callable[[JsonValue], JsonValue]

_BREAKS: Final = frozenset(".[]\"'")


class Path:
    """A parsed path, ready to be followed in many values.

    Args:
        text: The path; None stands for the whole value.

    Raises:
        ConfigError: Not a path; names the position and what would be right.
    """

    __slots__ = ("get", "has_wildcard", "segments", "text")

    def __init__(self, text: str | None) -> None:
        self.text: str = "" if text is None else text
        self.segments: tuple[Segment, ...] = () if text is None else parse_path(text)
        self.has_wildcard: bool = ALL in self.segments
        self.get: Getter = _getter(self)
        """Follow the path in a value; raises `TaskFault` with `Reason.MISSING_PATH`."""

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    @property
    def plain_keys(self) -> tuple[str, ...] | None:
        """The keys of a path that goes from object to object by nothing but keys, else None.

        Such a path can be followed by subscription alone; the whole value has no keys, `()`.
        """
        if self.text.startswith("$"):
            return None
        keys = tuple(segment for segment in self.segments if isinstance(segment, str))
        plain = len(keys) == len(self.segments) and all(map(_is_key, keys))
        return keys if plain else None

    def follow(self, root: JsonValue) -> JsonValue:
        """Follow the path step by step, with every rule; `get` is the quick way.

        A list at the very top, met by a key, is taken item by item. After `[*]` the rest of the
        path is applied to every item, and nested lists of `[*]` are joined.

        Raises:
            TaskFault: The path leads nowhere; names where it stopped and the keys there.
        """
        segments = self.segments
        if isinstance(root, list) and segments and _is_key(segments[0]):
            return [self._walk(item, 0, (index,)) for index, item in enumerate(root)]
        return self._walk(root, 0, ())

    def _walk(self, root: JsonValue, at: int, seen: tuple[Segment, ...]) -> JsonValue:
        node: JsonValue = root
        for position, segment in enumerate(self.segments[at:], start=at):
            if segment is None:
                return self._spread(node, position, seen)
            if isinstance(segment, str) and isinstance(node, list) and _is_digits(segment):
                segment = int(segment)
            if isinstance(segment, str):
                if not isinstance(node, dict) or segment not in node:
                    raise self._missing(node, segment, seen)
                node = node[segment]
            else:
                if not isinstance(node, list) or not -len(node) <= segment < len(node):
                    raise self._missing(node, segment, seen)
                node = node[segment]
            seen = (*seen, segment)
        return node

    def _spread(self, node: JsonValue, at: int, seen: tuple[Segment, ...]) -> JsonValue:
        if isinstance(node, list):
            pairs: list[tuple[Segment, JsonValue]] = list(enumerate(node))
        elif isinstance(node, dict):
            pairs = list(node.items())
        else:
            raise self._missing(node, ALL, seen)
        rest = [self._walk(item, at + 1, (*seen, name)) for name, item in pairs]
        if ALL in self.segments[at + 1 :]:
            return [inner for item in rest if isinstance(item, list) for inner in item]
        return rest

    def _missing(self, node: JsonValue, segment: Segment, seen: tuple[Segment, ...]) -> TaskFault:
        where = repr(format_path(seen)) if seen else "the top level"
        step = show_segment(segment)
        return TaskFault(
            Reason.MISSING_PATH,
            f"path {self.text!r}: no {step} at {where}; {_what_is_there(node)}",
        )


def _what_is_there(node: JsonValue) -> str:
    if isinstance(node, dict):
        if not node:
            return "the object there is empty"
        keys = ", ".join(repr(key) for key in list(node)[:KEYS_SHOWN])
        more = f" and {len(node) - KEYS_SHOWN} more" if len(node) > KEYS_SHOWN else ""
        return f"the keys there are {keys}{more}"
    if isinstance(node, list):
        if not node:
            return "the list there is empty"
        return f"there is a list of {len(node)}; use an index from 0 to {len(node) - 1}, or [*]"
    return f"there is {kind_of(node)}"


def _is_digits(segment: str) -> bool:
    return segment.isascii() and segment.isdigit()


def _is_key(segment: Segment) -> bool:
    return isinstance(segment, str) and not _is_digits(segment)


def _getter(path: Path) -> Getter:
    """Choose the quickest way: plain keys are followed by subscription, without a loop."""
    segments, follow = path.segments, path.follow
    keys = [segment for segment in segments if isinstance(segment, str)]
    if not segments:
        return lambda root: root
    if len(keys) != len(segments) or not all(map(_is_key, segments)) or len(keys) > 3:
        return follow
    if len(keys) == 1:
        (a,) = keys

        def one(root: JsonValue) -> JsonValue:
            try:
                return root[a]  # type: ignore[call-overload,index]  # anything else is a TypeError
            except (KeyError, TypeError):
                return follow(root)

        return one
    if len(keys) == 2:
        a, b = keys

        def two(root: JsonValue) -> JsonValue:
            try:
                return root[a][b]  # type: ignore[call-overload,index]
            except (KeyError, TypeError):
                return follow(root)

        return two
    a, b, c = keys

    def three(root: JsonValue) -> JsonValue:
        try:
            return root[a][b][c]  # type: ignore[call-overload,index]
        except (KeyError, TypeError):
            return follow(root)

    return three


def parse_path(text: str) -> tuple[Segment, ...]:
    """Split a path into its segments.

    Args:
        text: Keys divided by dots (any characters but `. [ ] " '` and spaces), indexes in
            brackets (negative ones count from the end), quoted keys in brackets (JSON's escapes
            in double quotes; in single quotes a backslash protects the next character), `[*]`.
            At most `MAX_BYTES` bytes and `MAX_SEGMENTS` segments.

    Returns:
        At least one segment.

    Raises:
        ConfigError: Not a path; names the position and what would be right.

    Cost: linear.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise ConfigError(f"path {text[:40]!r}…: {size} bytes, at most {MAX_BYTES} are allowed")
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
    if len(segments) > MAX_SEGMENTS:
        raise ConfigError(
            f"path {text!r}: {len(segments)} segments, at most {MAX_SEGMENTS} are allowed"
        )
    return tuple(segments)


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
    digits = inner.removeprefix("-")
    if not _is_digits(digits) or len(digits) > 18:
        raise _wrong(text, at + 1, 'an index, * or a quoted key, closed by "]"')
    return int(inner), end + 1


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
    plain = segment and segment != "*" and not any(c in _BREAKS or c.isspace() for c in segment)
    return segment if plain else f"[{json.dumps(segment, ensure_ascii=False)}]"


def format_path(segments: tuple[Segment, ...]) -> str:
    """Write segments as a path that `parse_path` reads back to the same segments."""
    text = ""
    for segment in segments:
        shown = show_segment(segment)
        text += shown if not text or shown.startswith("[") else f".{shown}"
    return text
