"""Sets of a tree's spans: one byte per span in time order, 1 where it belongs to the set.

Every function is one pass, most of them inside the interpreter's own loops. That is what makes a
filter of filters linear: each inner filter is answered once for all spans, not once per span.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import compress
from typing import Final, TypeAlias

Mask: TypeAlias = bytes

_FLIP: Final = bytes((1, 0)) + bytes(254)


def intersect(masks: Sequence[Mask]) -> Mask:
    """Spans in all sets; at least one set is given."""
    return reduce(int.__and__, map(int.from_bytes, masks)).to_bytes(len(masks[0]))


def unite(masks: Sequence[Mask]) -> Mask:
    """Spans in any set; at least one set is given."""
    return reduce(int.__or__, map(int.from_bytes, masks)).to_bytes(len(masks[0]))


def invert(mask: Mask) -> Mask:
    """Spans that are not in the set."""
    return mask.translate(_FLIP)


def children(mask: Mask, parents: Sequence[int]) -> Mask:
    """Spans whose parent is in the set.

    Args:
        mask: The set.
        parents: Position of each span's parent, -1 for none: it reads the 0 that is put behind.
    """
    return bytes(map((mask + b"\0").__getitem__, parents))


def parents_of(mask: Mask, parents: Sequence[int]) -> Mask:
    """Spans with a child in the set."""
    found = bytearray(len(mask) + 1)  # roots write to the last place, which is cut off
    for parent in compress(parents, mask):
        found[parent] = 1
    return bytes(found[:-1])


def descendants(mask: Mask, parents: Sequence[int], order: Sequence[int]) -> Mask:
    """Spans with an ancestor in the set.

    Args:
        mask: The set.
        parents: Position of each span's parent, -1 for none.
        order: All positions, each after its parent's.
    """
    reached = bytearray(mask + b"\0")
    for at in order:
        if reached[parents[at]]:
            reached[at] = 1
    return bytes(map(reached.__getitem__, parents))


def ancestors(mask: Mask, parents: Sequence[int], order: Sequence[int]) -> Mask:
    """Spans with a descendant in the set; arguments as in `descendants`."""
    found = bytearray(len(mask) + 1)
    for at in reversed(order):
        if mask[at] or found[at]:
            found[parents[at]] = 1
    return bytes(found[:-1])
