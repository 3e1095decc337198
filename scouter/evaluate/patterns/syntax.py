"""A small part of RE2's syntax, parsed: the patterns that `proof` can reason about.

Only what a pattern means on ASCII text is kept. A character class is an integer of 128 bits, one
per character; the order of alternatives and whether a repetition is greedy are dropped, as both
change which match is found and never whether there is one.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

MAX_NESTING: Final = 20
"""Levels of groups; deeper patterns are left to RE2."""

ALL: Final = (1 << 128) - 1


class Unproven(Exception):
    """The pattern is outside the part that is understood here."""


class Edge(StrEnum):
    """A condition between two characters, written as Python's `re` writes it."""

    BEGIN = r"\A"
    END = r"\Z"
    WORD = r"\b"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    mask: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    branches: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Pattern that repeats from `low` to `high` times; `high` None means without end."""

    body: "Node"
    low: int
    high: int | None


Node: TypeAlias = Edge | Chars | Sequence | Choice | Repeat


def mask_of(chars: Iterable[str]) -> int:
    """The set of some ASCII characters."""
    mask = 0
    for char in chars:
        mask |= 1 << ord(char)
    return mask


_NEWLINE: Final = mask_of("\n")
_CLASSES: Final = {
    "d": mask_of(string.digits),
    "w": mask_of(string.digits + string.ascii_letters + "_"),
    "s": mask_of("\t\n\f\r "),  # RE2 leaves out the vertical tab
}
_CLASSES.update({name.upper(): ALL & ~mask for name, mask in tuple(_CLASSES.items())})
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_EDGES: Final = {"A": Edge.BEGIN, "z": Edge.END, "b": Edge.WORD}
_LETTERS: Final = string.ascii_letters + string.digits
_FLAGS: Final = {"(?i)": (True, False), "(?s)": (False, True), "(?is)": (True, True),
                 "(?si)": (True, True)}  # fmt: skip


def parse_pattern(text: str) -> Node:
    r"""Parse a pattern that RE2 has accepted.

    Args:
        text: The pattern.

    Returns:
        Its meaning on ASCII text.

    Raises:
        Unproven: It holds something that is not understood here: characters beyond ASCII, flags
            other than a leading `(?i)`, `(?s)` or `(?is)`, `\B`, `\p`, POSIX classes and so on.

    Cost: linear.
    """
    if not text.isascii():
        raise Unproven
    return _Parser(text).parse()


class _Parser:
    __slots__ = ("at", "dot", "fold", "text")

    def __init__(self, text: str) -> None:
        self.text, self.at, self.fold, all_chars = text, 0, False, False
        for flags, (fold, dot_all) in _FLAGS.items():
            if text.startswith(flags):
                self.fold, all_chars, self.at = fold, dot_all, len(flags)
        self.dot = ALL if all_chars else ALL & ~_NEWLINE

    def parse(self) -> Node:
        node = self._choice(0)
        if self.at != len(self.text):
            raise Unproven
        return node

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise Unproven
        self.at += 1
        return char

    def _choice(self, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise Unproven
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, depth: int) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeated(self._atom(depth)))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self, node: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return node
        if self._peek() == "?":
            self.at += 1
        if isinstance(node, Edge) or self._peek() in ("*", "+", "?", "{"):
            raise Unproven
        return Repeat(node, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if simple is not None:
            self.at += 1
            return simple
        if self._peek() != "{":
            return None
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(end, 0)].partition(",")
        if not low.isdigit() or not (high.isdigit() or not high) or len(low + high) > 8:
            raise Unproven  # a brace that stands for itself
        self.at = end + 1
        return int(low), int(high) if high else (None if comma else int(low))

    def _atom(self, depth: int) -> Node:
        char = self._take()
        if char == "(":
            return self._group(depth)
        if char == "[":
            return Chars(self._class())
        if char == "\\":
            edge = _EDGES.get(self._peek())
            if edge is not None:
                self.at += 1
                return edge
            return Chars(self._escape())
        if char in "*+?{":
            raise Unproven
        if char in "^$":
            return Edge.BEGIN if char == "^" else Edge.END
        return Chars(self.dot if char == "." else self._folded(mask_of(char)))

    def _group(self, depth: int) -> Node:
        if self._peek() == "?":
            self.at += 1
            if self._take() != ":":
                raise Unproven
        node = self._choice(depth + 1)
        if self._take() != ")":
            raise Unproven
        return node

    def _escape(self) -> int:
        char = self._take()
        known = _CLASSES.get(char)
        return known if known is not None else self._folded(mask_of(self._escaped(char)))

    @staticmethod
    def _escaped(char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _LETTERS:
            raise Unproven
        return char

    def _class(self) -> int:
        negated = self._peek() == "^"
        self.at += negated
        mask, first = 0, True
        while first or self._peek() != "]":
            mask |= self._class_item()
            first = False
        self.at += 1
        return ALL & ~mask if negated else mask

    def _class_item(self) -> int:
        char = self._take()
        if char == "[" and self._peek() in ":=.":
            raise Unproven
        if char == "\\":
            char = self._take()
            if char in _CLASSES:
                if self._peek() == "-":
                    raise Unproven
                return _CLASSES[char]
            char = self._escaped(char)
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] == "]":
            return self._folded(mask_of(char))
        self.at += 1
        last = self._take()
        if last == "\\":
            last = self._take()
            if last in _CLASSES:
                raise Unproven
            last = self._escaped(last)
        elif last == "[":
            raise Unproven
        return self._folded(mask_of(map(chr, range(ord(char), ord(last) + 1))))

    def _folded(self, mask: int) -> int:
        """Add the other case of every letter, where case does not count."""
        if not self.fold:
            return mask
        upper, lower = mask_of(string.ascii_uppercase), mask_of(string.ascii_lowercase)
        return mask | (mask & upper) << 32 | (mask & lower) >> 32
