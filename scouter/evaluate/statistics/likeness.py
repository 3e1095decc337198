"""Likeness of neighbours: conversations that nobody named show in the order of the results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

_LAGS: Final = 5
_SURE: Final = 2.0
"""Standard errors from which neighbours count as alike. To take them for alike in vain costs a few
per cent of precision; not to see it makes intervals too narrow."""
BLOCK: Final = 20
"""Neighbours that are taken for one conversation where they are alike."""
_FEWEST: Final = 10
"""Blocks that are needed to say how blocks differ; of fewer results, blocks are smaller."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Correlation of results with those next to them."""

    correlation: float
    """That of direct neighbours, in [-1, 1]."""
    is_beyond_chance: bool
    """True if neighbours at up to five places are more alike than in a random order."""


def likeness(values: Sequence[int]) -> Likeness:
    """Measure how much results resemble their neighbours.

    Args:
        values: 0 or 1, in the order in which the records were made.

    Returns:
        Correlation at lag 1, and whether the sum of those at lags 1 to 5 is beyond chance; without
        chance to tell, as where all are equal, 0 and False.

    Cost: five steps for each value.
    Source: under a random order each correlation has the variance 1/n (Bartlett 1946,
        doi:10.2307/2983611).
    """
    count = len(values)
    mean = sum(values) / count if count else 0.0
    apart = [value - mean for value in values]
    spread = math.fsum(each * each for each in apart)
    if count <= 2 * _LAGS or spread <= 0:
        return Likeness(correlation=0.0, is_beyond_chance=False)
    found = [
        math.fsum(a * b for a, b in zip(apart, apart[lag:], strict=False)) / spread
        for lag in range(1, _LAGS + 1)
    ]
    z = math.fsum(found) * math.sqrt(count / _LAGS)
    return Likeness(correlation=found[0], is_beyond_chance=z > _SURE)


def blocks(values: Sequence[T]) -> list[Sequence[T]]:
    """Cut a sequence into blocks of 20 neighbours; into ten blocks where it is shorter than 200."""
    size = max(1, min(BLOCK, len(values) // _FEWEST))
    return [values[at : at + size] for at in range(0, len(values), size)]


def conversations_of(results: Sequence[tuple[str, bool]]) -> list[int]:
    """Number the conversations of results in the order of time.

    A result without a session id is a conversation of its own; where neighbours are more alike
    than chance explains, each 20 of them in a row are one.

    Args:
        results: Session id, empty where there is none, and whether it passed.

    Returns:
        A number for each result.
    """
    numbers: dict[str | int, int] = {}
    alone = [at for at, (session, _) in enumerate(results) if not session]
    block_of: dict[int, int] = {}
    if likeness([results[at][1] for at in alone]).is_beyond_chance:
        block_of = {at: number for number, some in enumerate(blocks(alone)) for at in some}
    return [
        numbers.setdefault(session or -1 - block_of.get(at, len(results) + at), len(numbers))
        for at, (session, _) in enumerate(results)
    ]
