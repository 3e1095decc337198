"""Decide whether Python's `re` may run a pattern, and write the pattern for it.

`re` backtracks. It stays linear where at no point of the text more than one way through the
pattern can go on (the pattern is *deterministic*, or one-unambiguous): a way that was given up is
then never followed by another long one. A search starts at every character, so the starts must
not add up either: the pattern is bound to the beginning of the text, or no character that can
begin a match can be inside one of its unbounded repetitions, which keeps the starts that read the
same character below the width of the rest.

Source: deterministic expressions as in Brüggemann-Klein and Wood, One-unambiguous regular
    languages, 1998, doi:10.1006/inco.1997.2695; counted repetitions are read as unbounded ones,
    which can only refuse more.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.patterns.syntax import (
    ALL,
    Chars,
    Choice,
    Edge,
    Node,
    Repeat,
    Sequence,
    Unproven,
    parse_pattern,
)

MAX_WIDTH: Final = 64
"""Characters that the bounded parts of an unanchored pattern may take together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A pattern for Python's `re`, with the same verdict as RE2's on every ASCII text."""

    pattern: str
    anchored: bool
    """A match can only begin at the beginning of the text, so `match` finds what `search` does."""


def prove(text: str) -> Proven | None:
    """Translate a pattern that RE2 has accepted, if `re` is proven to run it in linear time.

    Returns:
        None where it is not proven, which does not say that it is slow.

    Cost: linear in the pattern, times its nesting.
    """
    try:
        node = parse_pattern(text)
    except Unproven:
        return None
    if not _deterministic(node, 0):
        return None
    anchored = _anchored(node)
    if not anchored and (_first(node) & _looped(node) or _width(node) > MAX_WIDTH):
        return None
    return Proven(pattern=_write(node), anchored=anchored)


def _nullable(node: Node) -> bool:
    """Tell whether a node can take no character at all."""
    match node:
        case Edge():
            return True
        case Chars():
            return False
        case Sequence(items=items):
            return all(map(_nullable, items))
        case Choice(branches=branches):
            return any(map(_nullable, branches))
        case Repeat(body=body, low=low):
            return low == 0 or _nullable(body)


def _first(node: Node) -> int:
    """The characters that can be the first that a node takes."""
    match node:
        case Edge():
            return 0
        case Chars(mask=mask):
            return mask
        case Sequence(items=items):
            return _first_of(items, 0)
        case Choice(branches=branches):
            mask = 0
            for branch in branches:
                mask |= _first(branch)
            return mask
        case Repeat(body=body):
            return _first(body)


def _first_of(items: Items[Node], follow: int) -> int:
    mask = 0
    for item in items:
        mask |= _first(item)
        if not _nullable(item):
            return mask
    return mask | follow


def _deterministic(node: Node, follow: int) -> bool:
    """Tell whether no character can be taken in two ways.

    Args:
        node: Part of a pattern.
        follow: The characters that can be taken after it.
    """
    match node:
        case Edge() | Chars():
            return True
        case Sequence(items=items):
            after = follow
            for item in reversed(items):
                if not _deterministic(item, after):
                    return False
                after = _first(item) | (after if _nullable(item) else 0)
            return True
        case Choice(branches=branches):
            taken = 0
            for branch in branches:
                first = _first(branch)
                if _nullable(branch) or first & taken or not _deterministic(branch, follow):
                    return False
                taken |= first
            return True
        case Repeat(body=body, low=low, high=high):
            first = _first(body)
            if _nullable(body) or high == 0 or (low != high and first & follow):
                return False
            return _deterministic(body, follow if high == 1 else follow | first)


def _anchored(node: Node) -> bool:
    match node:
        case Edge():
            return node is Edge.BEGIN
        case Sequence(items=items):
            return bool(items) and _anchored(items[0])
        case Choice(branches=branches):
            return all(map(_anchored, branches))
        case _:
            return False


def _looped(node: Node, inside: bool = False) -> int:
    """All characters that unbounded repetitions can take."""
    match node:
        case Edge():
            return 0
        case Chars(mask=mask):
            return mask if inside else 0
        case Sequence(items=parts) | Choice(branches=parts):
            mask = 0
            for part in parts:
                mask |= _looped(part, inside)
            return mask
        case Repeat(body=body, high=high):
            return _looped(body, inside or high is None)


def _width(node: Node) -> int:
    """The most characters that the parts outside unbounded repetitions can take."""
    match node:
        case Edge():
            return 0
        case Chars():
            return 1
        case Sequence(items=items):
            return sum(map(_width, items))
        case Choice(branches=branches):
            return max(map(_width, branches))
        case Repeat(body=body, high=high):
            return 0 if high is None else high * _width(body)


def _write(node: Node) -> str:
    match node:
        case Edge():
            return node.value
        case Chars(mask=mask):
            return _write_class(mask)
        case Sequence(items=items):
            return "".join(map(_write, items))
        case Choice(branches=branches):
            return f"(?:{'|'.join(map(_write, branches))})"
        case Repeat(body=body, low=low, high=high):
            inner = _write(body)
            if not isinstance(body, Chars | Choice):
                inner = f"(?:{inner})"
            return inner + _write_counts(low, high)


def _write_counts(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    if low == high:
        return f"{{{low}}}"
    return "?" if high == 1 else f"{{{low},{high}}}"


def _write_class(mask: int) -> str:
    chars = [at for at in range(128) if mask >> at & 1]
    if len(chars) == 1:
        return _escape(chars[0])
    if not chars or len(chars) > 64:
        left_out = [at for at in range(128) if (ALL & ~mask) >> at & 1]
        # text is ASCII, so that what lies beyond may be in or out
        return f"[^{_ranges(left_out)}]" if left_out else r"[\x00-\x7f]"
    return f"[{_ranges(chars)}]"


def _ranges(chars: list[int]) -> str:
    text, at = "", 0
    while at < len(chars):
        end = at
        while end + 1 < len(chars) and chars[end + 1] == chars[end] + 1:
            end += 1
        text += _escape(chars[at]) + (f"-{_escape(chars[end])}" if end > at else "")
        at = end + 1
    return text


def _escape(code: int) -> str:
    return chr(code) if chr(code).isalnum() else f"\\x{code:02x}"
