"""Patterns that are found in no text, or in every one."""

from typing import Final

from scouter.evaluate.patterns.pattern import compile_pattern
from scouter.evaluate.patterns.syntax import (
    Chars,
    Choice,
    Edge,
    Node,
    Repeat,
    Sequence,
    Unproven,
    parse_pattern,
)

_PROBES: Final = ("", " ", "\n", "a", "Z", "0", "_", "-", "é", "\x00", "\n\n", "a b\nc", "0.5\n")


def is_found_nowhere(pattern: str) -> bool:
    """Tell whether a pattern asks for something before the beginning or behind the end of a text.

    Returns:
        False also where it is not known: for patterns outside of `syntax`.

    Cost: linear in the pattern, times its nesting.
    """
    try:
        return _is_impossible(parse_pattern(pattern))
    except Unproven:
        return False


def is_found_everywhere(pattern: str) -> bool:
    """Tell whether a pattern is found in the empty text and in a dozen different ones."""
    found_in = compile_pattern(pattern, "Matches").found_in
    return all(map(found_in, _PROBES))


def _is_impossible(node: Node) -> bool:
    match node:
        case Sequence(items):
            if any(map(_is_impossible, items)):
                return True
            return any(
                (_has(item, Edge.END) and any(map(_width, items[at + 1 :])))
                or (_has(item, Edge.BEGIN) and any(map(_width, items[:at])))
                for at, item in enumerate(items)
            )
        case Choice(branches):
            return all(map(_is_impossible, branches))
        case Repeat(body, low, _):
            return low > 0 and _is_impossible(body)
        case _:
            return False


def _width(node: Node) -> int:
    """Characters that a match has at least."""
    match node:
        case Chars():
            return 1
        case Sequence(items):
            return sum(map(_width, items))
        case Choice(branches):
            return min(map(_width, branches))
        case Repeat(body, low, _):
            return low * _width(body)
        case Edge():
            return 0


def _has(node: Node, edge: Edge) -> bool:
    """Tell whether every way through a node passes an edge."""
    match node:
        case Sequence(items):
            return any(_has(item, edge) for item in items)
        case Choice(branches):
            return all(_has(branch, edge) for branch in branches)
        case Repeat(body, low, _):
            return low > 0 and _has(body, edge)
        case _:
            return node is edge
