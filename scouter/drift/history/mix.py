"""Mixes: how far the shares of names, such as tools or models, moved between two times.

They describe, and page nobody: with enough calls any difference is proven.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
        divergence of Jeffreys, here of counts with a half added to each.
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
        shares=tuple(sorted(shares, key=lambda each: (-abs(each.since - each.before), each.name))),
    )


def _smooth(counts: Mapping[str, int], names: list[str]) -> list[float]:
    total = sum(counts.values()) + _ADDED * len(names)
    return [(counts.get(name, 0) + _ADDED) / total for name in names]


def _bits(share: float, other: float) -> float:
    """The part of a name in the divergence from the middle of both."""
    return share * math.log2(2 * share / (share + other)) if share else 0.0
