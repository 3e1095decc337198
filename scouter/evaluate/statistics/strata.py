"""Traffic that is alike: results of two samples in cells that differ in no trait.

A trait is anything that a result has or has not: a tag, a tool, a model, a length. The cells are
the leaves of a tree that tells the two samples apart by their traits alone. No split looks at
whether a result passed, so that comparing rates inside the cells stays fair, however the tree came
about.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

FEWEST: Final = 5
"""Conversations that a cell needs in either sample."""
_CLEAR: Final = 15
"""Conversations in one sample beside fewer than `FEWEST` in the other that show that only one
sample has such traffic."""
_MOST_ALONE: Final = 0.8
"""Part of a sample that may be traffic which the other one lacks: a trait of nearly all results of
one sample and of none of the other tells the versions apart, and not their traffic."""
_SURE: Final = 1.0
"""Standard errors of a difference of shares from which a trait splits a cell. A split in vain costs
next to nothing; a shift that is not split is taken for a change within the same traffic."""
_MOST_CELLS: Final = 32


class Result(NamedTuple):
    """One result of a sample."""

    conversation: Hashable
    passed: bool
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Results of both samples that are alike."""

    before: Sequence[Result]
    after: Sequence[Result]
    is_shared: bool = True
    """False if only one of the samples has such traffic."""


def cells_of(cell: Cell, traits: Iterable[str]) -> list[Cell]:
    """Split a cell until its traits no longer tell the samples apart.

    Args:
        cell: Results of both samples.
        traits: Those that may split it.

    Returns:
        At most 32 cells; each has five conversations or more in either sample, or is not shared.

    Cost: linear in results times their traits, for each cell.
    Source: cells of equal propensity to belong to either sample, Rosenbaum and Rubin 1984,
        doi:10.1080/01621459.1984.10478078.
    """
    wanted = frozenset(traits)
    found: list[Cell] = []
    left = [cell]
    while left:
        each = left.pop()
        trait = None if len(found) + len(left) + 2 > _MOST_CELLS else _telling(each, wanted)
        if trait is None:
            found.append(each)
        else:
            left += _split(each, trait)
    return found


def _split(cell: Cell, trait: str) -> list[Cell]:
    parts: list[Cell] = []
    for has in (True, False):
        before, after = (
            [each for each in side if (trait in each.traits) is has]
            for side in (cell.before, cell.after)
        )
        is_shared = cell.is_shared and min(_conversations(before), _conversations(after)) >= FEWEST
        parts.append(Cell(before=before, after=after, is_shared=is_shared))
    return parts


def _conversations(results: Iterable[Result]) -> int:
    return len({each.conversation for each in results})


def _telling(cell: Cell, wanted: frozenset[str]) -> str | None:
    """The trait whose share differs most surely between the samples; None where none does."""
    if not cell.is_shared:
        return None
    sizes = len(cell.before), len(cell.after)
    counts = [
        Counter(trait for each in side for trait in each.traits & wanted)
        for side in (cell.before, cell.after)
    ]
    old, new = counts
    by_z = sorted(
        ((_apart((old[name], new[name]), sizes), name) for name in {**old, **new}), reverse=True
    )
    for z, name in by_z:
        if z <= _SURE:
            return None
        if _is_large((old[name], new[name]), sizes) and all(
            _is_allowed(each, sizes) for each in _split(cell, name)
        ):
            return name
    return None


def _apart(counts: tuple[int, int], sizes: tuple[int, int]) -> float:
    """Standard errors by which two shares differ."""
    share = sum(counts) / sum(sizes)
    variance = share * (1 - share) * (1 / sizes[0] + 1 / sizes[1])
    if variance <= 0:
        return 0.0
    return abs(counts[0] / sizes[0] - counts[1] / sizes[1]) / math.sqrt(variance)


def _is_large(counts: tuple[int, int], sizes: tuple[int, int]) -> bool:
    """Tell whether both parts may be allowed, by their results alone: a look that costs nothing."""
    others = sizes[0] - counts[0], sizes[1] - counts[1]
    return all(min(part) >= FEWEST or max(part) >= _CLEAR for part in (counts, others))


def _is_allowed(part: Cell, sizes: tuple[int, int]) -> bool:
    """Tell whether a part has enough in both samples, or clearly belongs to one of them alone."""
    if part.is_shared:
        return True
    by_conversations = sorted(map(_conversations, (part.before, part.after)))
    shares = len(part.before) / sizes[0], len(part.after) / sizes[1]
    return by_conversations[1] >= _CLEAR and max(shares) <= _MOST_ALONE
