"""The permutation test: could one and the same agent have made the attempts of both runs?"""

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from scouter.evaluate.statistics.distributions import NORMAL, binomial_cdf, binomial_pmf

GRIDS: Final = (60, 24, 12, 6, 4, 2, 1)
"""Steps between 0 and 1 that values are rounded to where their own grid would cost too much."""

_FINEST: Final = 60
"""Steps for the normal approximation, where a value's own grid is finer still."""

_WORDS: Final = 30_000_000
"""Machine words that the exact count may add up, some hundredths of a second."""

_STEP: Final = 50
"""Words that could be added in the time of one step of Python."""


class Stratum(NamedTuple):
    """The attempts of one scenario in both runs; each has a value from 0 to 1.

    Whole numbers and fractions are exact; the share 1/3 is `Fraction(1, 3)`.
    """

    old: Sequence[Fraction | int]
    new: Sequence[Fraction | int]


class _Grid(NamedTuple):
    """A stratum on whole numbers: all values, sorted, and how many of them are new."""

    values: tuple[int, ...]
    taken: int


def fall_p_value(strata: Iterable[Stratum], *, mid: bool = False, coarsest: int = 1) -> float:
    """One-sided p-value of the new attempts having no lower values than the old ones.

    If nothing changed between the runs, any of the attempts of a stratum may be the new ones. The
    p-value is the share of all choices, in all strata, whose values sum up to what the new ones
    have, or less. The test holds its level whatever the strata's own rates are. With one attempt
    a run and values of 0 and 1 it is McNemar's exact test, one-sided.

    Args:
        strata: One per scenario; one with attempts of a single run, or of equal values, says
            nothing.
        mid: Count only half of the choices whose sum is the observed one. The p-value then keeps
            its level on average over what could be observed, not for each single suite.
        coarsest: Fewest steps between 0 and 1 that values are rounded to, before a normal
            approximation is better.

    Returns:
        The exact share for values that lie on a grid that is not too fine, else that of values
        rounded to a coarser grid, which keeps the level. A normal approximation with continuity
        correction where even values of 0 and 1 are too many, as for some thousand strata.

    Raises:
        ValueError: A value is outside [0, 1].

    Cost: bounded to less than 0.1 s.
    Source: exact permutation test with strata, Fisher 1935, The Design of Experiments; the counts
        of 0 and 1 are hypergeometric, as in Mantel and Haenszel 1959. Mid-p: Lancaster 1961,
        doi:10.1080/01621459.1961.10482105.
    """
    telling = [each for each in strata if each.old and each.new and _varies(each)]
    if not telling:
        return 1.0
    own = math.lcm(*{value.denominator for each in telling for value in _all(each)})
    found, observed = _on_grid(telling, min(own, _FINEST))
    if _is_fair_coin(found):
        half = binomial_pmf(observed, len(found), 0.5) / 2 if mid else 0.0
        return binomial_cdf(observed, len(found), 0.5) - half
    if len(telling) ** 3 // 32 > _WORDS:  # what even the coarsest grid costs, at least
        return _normal(found, observed)
    for steps in (own, *(steps for steps in GRIDS if coarsest <= steps < own)):
        coarse, total = _on_grid(telling, steps)
        if not coarse:
            return 1.0
        if _cost(coarse) <= _WORDS:
            return _exact(coarse, total, mid=mid)
    return _normal(found, observed)


def _all(stratum: Stratum) -> Iterator[Fraction | int]:
    yield from stratum.old
    yield from stratum.new


def _varies(stratum: Stratum) -> bool:
    old, new = stratum
    if len(old) == len(new) == 1 and old[0] == new[0]:
        return False
    low, high = min(_all(stratum)), max(_all(stratum))
    if low < 0 or high > 1:
        raise ValueError(f"{low if low < 0 else high} is no value of an attempt; each is in [0, 1]")
    return low != high


def _on_grid(strata: Sequence[Stratum], steps: int) -> tuple[list[_Grid], int]:
    """The strata on whole numbers, each from 0 up, and the sum of the new values on them.

    Offset and divisor are the same for every choice of new attempts.
    """
    rounded = [
        ([round(value * steps) for value in old], [round(value * steps) for value in new])
        for old, new in strata
    ]
    least = [min(*old, *new) for old, new in rounded]
    moved = [
        ([value - low for value in old], [value - low for value in new])
        for (old, new), low in zip(rounded, least, strict=True)
    ]
    unit = math.gcd(*(value for old, new in moved for value in (*old, *new))) or 1
    found = [
        _Grid(tuple(sorted(value // unit for value in (*old, *new))), len(new))
        for old, new in moved
        if any(old) or any(new)
    ]
    return found, sum(sum(new) for _, new in moved) // unit


def _is_fair_coin(strata: Sequence[_Grid]) -> bool:
    """Tell whether each stratum is one old and one new attempt that differ by the same."""
    return {*strata} == {_Grid((0, 1), 1)}


def _is_binary(stratum: _Grid) -> bool:
    return stratum.values[-1] == 1


@lru_cache(maxsize=4096)
def _ways(stratum: _Grid) -> dict[int, int]:
    """Count the ways in which the new values can be chosen, by their sum."""
    values, taken = stratum
    if _is_binary(stratum):
        ones = sum(values)
        zeros = len(values) - ones
        sums = range(max(0, taken - zeros), min(ones, taken) + 1)
        return {total: math.comb(ones, total) * math.comb(zeros, taken - total) for total in sums}
    by_size: list[dict[int, int]] = [{0: 1}, *({} for _ in range(taken))]
    for value in values:
        for size in range(taken, 0, -1):
            ways = by_size[size]
            for total, count in by_size[size - 1].items():
                ways[total + value] = ways.get(total + value, 0) + count
    return by_size[taken]


def _choices(stratum: _Grid) -> int:
    return math.comb(len(stratum.values), stratum.taken)


def _highest(stratum: _Grid) -> int:
    return sum(stratum.values[-stratum.taken :])


def _cost(strata: Sequence[_Grid]) -> int:
    """Machine words that `_ways` and `_exact` add up, at most."""
    terms = [min(_highest(each) + 1, _choices(each)) for each in strata]
    bits = sum(math.log2(_choices(each)) for each in strata)
    counting = sum(
        0 if _is_binary(each) else _STEP * len(each.values) * each.taken * count
        for each, count in zip(strata, terms, strict=True)
    )
    return counting + sum(terms) * sum(map(_highest, strata)) * int(bits / 64 + 1)


def _exact(strata: Sequence[_Grid], observed: int, *, mid: bool) -> float:
    """Multiply the strata's distributions, each stored as one long number."""
    choices = math.prod(map(_choices, strata))
    width = choices.bit_length() + 1
    ways = 1  # digit s, in base 2**width: in how many ways the new values sum up to s
    for stratum in strata:
        ways = sum((ways * count) << (width * total) for total, count in _ways(stratum).items())
    tail = ways & ((1 << (width * (observed + 1))) - 1)
    count = tail % ((1 << width) - 1)  # the sum of its digits
    if mid:
        return (2 * count - (tail >> (width * observed))) / (2 * choices)
    return count / choices


def _normal(strata: Sequence[_Grid], observed: int) -> float:
    mean = variance = 0.0
    for values, taken in strata:
        of = len(values)
        middle = sum(values) / of
        mean += taken * middle
        spread = math.fsum((value - middle) ** 2 for value in values) / (of - 1)
        variance += taken * (of - taken) / of * spread
    return NORMAL.cdf((observed + 0.5 - mean) / math.sqrt(variance))
