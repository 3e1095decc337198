"""Paths into JSON values, as `scouter.evaluate.paths.syntax` writes them, or JSONPath after `$`."""

from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import cast

from pydantic import JsonValue

from scouter.evaluate.paths.syntax import Getter, Segment, is_digits, missing, parse_path


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
            if isinstance(step, str):
                if not isinstance(node, dict) or step not in node:
                    raise missing(self.text, node, step, seen)
                node = node[step]
            else:
                if not isinstance(node, list) or not -len(node) <= step < len(node):
                    raise missing(self.text, node, step, seen)
                node = node[step]
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
    """Choose the quickest way; where it fails, `follow` finds what it missed or says why."""
    segments, follow = path.segments, path.follow
    if not segments:
        return lambda root: root
    spread = next((at for at, segment in enumerate(segments) if _spreads(segment)), len(segments))
    way = _quick(segments[:spread], follow)
    if way is None or spread == len(segments):
        return follow if way is None else way
    after = _quick(segments[spread + 1 :], None)
    return follow if after is None else _spreading(way, segments[spread], after, follow)


def _quick(segments: tuple[Segment, ...], follow: Getter | None) -> Getter | None:
    """Go from object to object by subscription.

    Args:
        segments: The way.
        follow: Called where it fails; None lets the exception out.

    Returns:
        None where the way needs more than subscription.
    """
    if not all(_is_key(segment) or isinstance(segment, int) for segment in segments):
        return None
    keys = cast("tuple[str, ...]", segments)
    if follow is None and len(segments) == 1 and isinstance(segments[0], str):
        return cast(Getter, itemgetter(segments[0]))
    if follow is None or any(isinstance(segment, int) for segment in segments) or len(keys) > 3:
        return _stepping(cast("tuple[str | int, ...]", segments), follow)
    return _subscribing(keys, follow)


def _stepping(steps: tuple[str | int, ...], follow: Getter | None) -> Getter:
    def stepping(root: JsonValue) -> JsonValue:
        node = root
        try:
            for step in steps:
                if type(step) is int and type(node) is not list:
                    raise TypeError  # a text has indexes too
                # anything but a list or an object is a TypeError here
                node = cast("dict[str | int, JsonValue]", node)[step]
        except (LookupError, TypeError):
            if follow is None:
                raise
            return follow(root)
        return node

    return stepping


def _subscribing(keys: tuple[str, ...], follow: Getter) -> Getter:
    """One to three keys, written out: most paths are such."""
    if not keys:
        return lambda root: root
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


def _spreading(way: Getter, segment: Segment, after: Getter, follow: Getter) -> Getter:
    """One `[*]` or slice, over a list."""
    chosen = slice(None) if segment is None else cast(slice, segment)

    def spreading(root: JsonValue) -> JsonValue:
        items = way(root)
        if type(items) is not list:
            return follow(root)
        try:
            return list(map(after, items if segment is None else items[chosen]))
        except (LookupError, TypeError):
            return follow(root)

    return spreading
