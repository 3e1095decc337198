"""Paths into JSON values, as `scouter.evaluate.paths.syntax` writes them, or JSONPath after `$`."""

from collections.abc import Iterable
from itertools import chain
from typing import cast

from pydantic import JsonValue

from scouter.evaluate.paths.syntax import Getter, Segment, is_digits, missing, parse_path, step_into


class Path:
    """A parsed path, ready to be followed in many values.

    Args:
        text: The path; None stands for the whole value. A text that begins with `$` is a JSONPath
            (`scouter.evaluate.paths.json_path`).

    Raises:
        ConfigError: Not a path; names the position and what would be right.
    """

    __slots__ = ("get", "segments", "text")

    def __init__(self, text: str | None) -> None:
        self.text: str = "" if text is None else text
        self.segments: tuple[Segment, ...] = ()
        """Empty for the whole value, and for a JSONPath."""
        self.get: Getter
        """Follow the path in a value; raises `TaskFault` with `Reason.MISSING_PATH`."""
        if self.text.startswith("$"):
            from scouter.evaluate.paths.json_path import compile_json_path  # slow to load

            self.get = compile_json_path(self.text)
            return
        if text is not None:
            self.segments = parse_path(text)
        self.get = _getter(self)

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def follow(self, root: JsonValue) -> JsonValue:
        """Follow a path that is no JSONPath step by step, with every rule; `get` is the quick way.

        A list at the very top, met by a key, is taken item by item. After `[*]` or a slice the
        rest of the path is applied to every item, and nested lists of them are joined.

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
            if _spreads(segment):
                return self._spread(node, position, seen)
            step = cast("str | int", segment)
            if isinstance(step, str) and isinstance(node, list) and is_digits(step):
                step = int(step)
            node = step_into(self.text, node, step, seen)
            seen = (*seen, step)
        return node

    def _spread(self, node: JsonValue, at: int, seen: tuple[Segment, ...]) -> JsonValue:
        segment = self.segments[at]
        pairs: Iterable[tuple[Segment, JsonValue]]
        if isinstance(node, list):
            chosen = range(len(node)) if segment is None else range(len(node))[cast(slice, segment)]
            pairs = ((index, node[index]) for index in chosen)
        elif isinstance(node, dict) and segment is None:
            pairs = node.items()
        else:
            raise missing(self.text, node, segment, seen)
        rest = [self._walk(item, at + 1, (*seen, name)) for name, item in pairs]
        if any(map(_spreads, self.segments[at + 1 :])):
            lists = [item for item in rest if isinstance(item, list)]
            return list(chain.from_iterable(lists))
        return rest


def _spreads(segment: Segment) -> bool:
    return segment is None or isinstance(segment, slice)


def _is_key(segment: Segment) -> bool:
    return isinstance(segment, str) and not is_digits(segment)


def _getter(path: Path) -> Getter:
    """Go from object to object by subscription; `follow` does what that cannot, or says why."""
    segments, follow = path.segments, path.follow
    if not all(_is_key(segment) or isinstance(segment, int) for segment in segments):
        return follow
    steps = cast("tuple[str | int, ...]", segments)

    def get(root: JsonValue) -> JsonValue:
        node = root
        try:
            for step in steps:
                if type(step) is int and type(node) is not list:
                    return follow(root)  # a text has indexes too
                # anything but a list or an object is a TypeError here
                node = cast("dict[str | int, JsonValue]", node)[step]
        except (LookupError, TypeError):
            return follow(root)
        return node

    return get
