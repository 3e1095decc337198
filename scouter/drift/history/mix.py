"""Mixes: how far the shares of names, such as tools or models, moved between two times.

They describe, and page nobody: with enough calls any difference is proven.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_EXPECTED: Final = 5.0
"""Names with a smaller expected count on either side are tested as one (Cochran 1954)."""
_ADDED: Final = 0.5
"""Added to each count, so that a name that is new has no infinite weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of one name, in [0, 1], before and since."""

    name: str
    before: float
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The distance of two mixes."""

    psi: float
    """Population stability index, 0 or more; above 0.25 is commonly called a shift."""
    jensen_shannon: float
    """Divergence of Jensen and Shannon in bits, in [0, 1]."""
    chance: float | None
    """Chance of a distance like this by lot, in [0, 1], if calls were independent of each other;
    None where too few are known."""
    shares: tuple[Share, ...]
    """By name, the one that moved most first."""


def moved(before: Mapping[str, int], since: Mapping[str, int]) -> Moved | None:
    """Compare two mixes.

    Args:
        before: Counts by name.
        since: Counts by name.

    Returns:
        None where one of them is empty: nothing is known then.

    Source: Jensen-Shannon divergence, Lin 1991, doi:10.1109/18.61115; the index is the symmetric
        divergence of Jeffreys, here of counts with a half added to each. The test is the
        chi-square test of homogeneity, Pearson 1900.
    """
    names = sorted({*before, *since})
    totals = sum(before.values()), sum(since.values())
    if not all(totals):
        return None
    shares = [
        Share(name=n, before=before.get(n, 0) / totals[0], since=since.get(n, 0) / totals[1])
        for n in names
    ]
    return Moved(
        psi=math.fsum(
            (q - p) * math.log(q / p)
            for p, q in zip(_smooth(before, names), _smooth(since, names), strict=True)
        ),
        jensen_shannon=math.fsum(
            (_bits(each.before, each.since) + _bits(each.since, each.before)) / 2 for each in shares
        ),
        chance=_chance(before, since),
        shares=tuple(sorted(shares, key=lambda each: (-abs(each.since - each.before), each.name))),
    )


def _smooth(counts: Mapping[str, int], names: list[str]) -> list[float]:
    total = sum(counts.values()) + _ADDED * len(names)
    return [(counts.get(name, 0) + _ADDED) / total for name in names]


def _bits(share: float, other: float) -> float:
    """The part of a name in the divergence from the middle of both."""
    return share * math.log2(2 * share / (share + other)) if share else 0.0


def _chance(before: Mapping[str, int], since: Mapping[str, int]) -> float | None:
    """The p-value of the chi-square test of two samples."""
    totals = sum(before.values()), sum(since.values())
    smaller = min(totals) / sum(totals)
    cells: list[tuple[int, int]] = []
    rest = (0, 0)
    for name in sorted({*before, *since}):
        cell = before.get(name, 0), since.get(name, 0)
        if sum(cell) * smaller >= _EXPECTED:
            cells.append(cell)
        else:
            rest = rest[0] + cell[0], rest[1] + cell[1]
    if sum(rest) * smaller >= _EXPECTED:
        cells.append(rest)
    kept = [sum(column) for column in zip(*cells, strict=True)]
    if len(cells) < 2 or not all(kept):
        return None
    statistic = math.fsum(
        (count - sum(cell) * total / sum(kept)) ** 2 / (sum(cell) * total / sum(kept))
        for cell in cells
        for count, total in zip(cell, kept, strict=True)
    )
    return _chi_square_tail(statistic, len(cells) - 1)


def _chi_square_tail(statistic: float, freedom: int) -> float:
    """P(chi-square of `freedom` degrees >= statistic), by the finite sums for whole degrees.

    Source: Abramowitz and Stegun 26.4.4 and 26.4.5.
    """
    if statistic <= 0:
        return 1.0
    half = statistic / 2
    powers = [freedom / 2 - step for step in range(1, freedom // 2 + 1)]
    terms = (math.exp(k * math.log(half) - half - math.lgamma(k + 1)) for k in powers)
    return min(1.0, math.fsum(terms) + (math.erfc(math.sqrt(half)) if freedom % 2 else 0.0))
