"""Agreement beyond chance: of a judge with people, of people with each other, of repeats."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.kappa_profile import profile_interval
from scouter.evaluate.statistics.proportion import CONFIDENCE

Weights: TypeAlias = Literal["none", "linear", "quadratic"]
"""Weights of two different categories in the agreement.

`none` gives them 0; the others give them more, the closer they are.
"""

ANY_KAPPA: Final[Interval] = (-1.0, 1.0)
"""The interval where nothing is known."""
_NEARLY_ONE: Final = 1 - 1e-9
_TWO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kappa:
    """Agreement beyond chance: 1 if perfect, 0 if by chance alone, below 0 if worse."""

    value: float | None
    """None where chance alone would agree always: without items, or with one category only."""
    standard_error: float | None
    """Standard error of `value`, for large samples."""
    interval: Interval
    """(-1, 1) where there is no value."""


def cohen_kappa(
    table: Sequence[Sequence[int]], weights: Weights = "none", confidence: float = CONFIDENCE
) -> Kappa:
    """Compute Cohen's kappa of two raters, weighted for ordered categories if wanted.

    The interval counts one more item, spread over all cells: perfect agreement on 20 items is no
    proof that the raters never differ, and the plain interval says so with certainty, (1, 1). Of
    two categories it is that of the profile likelihood, which covers 93 % and more from 20 items
    on, however rare one of them is, where the plain one covers 53 to 95 %
    (`tests/bench/calibration.py`). Of more categories it is one on Fisher's scale, atanh(kappa).

    Args:
        table: Square; items by the first rater's category (rows) and the second's (columns).
        weights: `linear` and `quadratic` need categories in their order.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Raises:
        ValueError: The table is not square, holds a negative count, or the level is out of range.

    Source: Cohen 1960, doi:10.1177/001316446002000104, and 1968, doi:10.1037/h0026256; standard
        error Fleiss, Cohen and Everitt 1969, doi:10.1037/h0028106; the added item as in
        `corrected_rate`, after Perks 1947.
    """
    size = len(table)
    if any(len(row) != size or min(row) < 0 for row in table):
        raise ValueError("an agreement table is square and holds counts")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    total = sum(map(sum, table))
    if not total:
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    weight = _weight(weights, size)
    shares = [[count / total for count in row] for row in table]
    found = _kappa(shares, weight)
    if found is None:
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    value, spread = found
    added = 1 / (total + 1)
    filled = [[(1 - added) * share + added / size**2 for share in row] for row in shares]
    middle, wider = _kappa(filled, weight) or found
    if size == _TWO:
        cells = [(total + 1) * share for row in filled for share in row]
        low, high = profile_interval(cells, middle, confidence)
        interval = min(value, low), max(value, high)
    else:
        interval = fisher_interval(value, middle, wider / math.sqrt(total + 1), confidence)
    return Kappa(value=value, standard_error=spread / math.sqrt(total), interval=interval)


def fisher_interval(value: float, middle: float, spread: float, confidence: float) -> Interval:
    """Make an interval on Fisher's scale, atanh, of a figure in [-1, 1].

    Args:
        value: The figure; the interval is widened to hold it.
        middle: Its centre before that.
        spread: Standard error at the centre.
        confidence: Two-sided level, between 0 and 1, both excluded.
    """
    z = NORMAL.inv_cdf((1 + confidence) / 2)
    middle = min(_NEARLY_ONE, max(-_NEARLY_ONE, middle))
    half = z * spread / (1 - middle * middle)
    centre = math.atanh(middle)
    return min(value, math.tanh(centre - half)), max(value, math.tanh(centre + half))


def _weight(weights: Weights, size: int) -> Callable[[int, int], float]:
    """Make the function from two categories to their weight in [0, 1]; equal ones have 1."""
    reach = max(1, size - 1)
    if weights == "linear":
        return lambda i, j: 1 - abs(i - j) / reach
    if weights == "quadratic":
        return lambda i, j: 1 - ((i - j) / reach) ** 2
    return lambda i, j: float(i == j)


def _kappa(
    shares: Sequence[Sequence[float]], weight: Callable[[int, int], float]
) -> tuple[float, float] | None:
    """Kappa and its standard error times the root of the number of items."""
    every = range(len(shares))
    rows = [math.fsum(row) for row in shares]
    columns = [math.fsum(column) for column in zip(*shares, strict=True)]
    observed = math.fsum(weight(i, j) * shares[i][j] for i in every for j in every)
    chance = math.fsum(weight(i, j) * rows[i] * columns[j] for i in every for j in every)
    if 1 - chance < 1e-12:
        return None
    kappa = (observed - chance) / (1 - chance)
    of_row = [math.fsum(weight(i, j) * columns[j] for j in every) for i in every]
    of_column = [math.fsum(weight(i, j) * rows[i] for i in every) for j in every]
    squares = math.fsum(
        shares[i][j] * (weight(i, j) - (of_row[i] + of_column[j]) * (1 - kappa)) ** 2
        for i in every
        for j in every
    )
    variance = squares - (kappa - chance * (1 - kappa)) ** 2
    return kappa, math.sqrt(max(0.0, variance)) / (1 - chance)


def fleiss_kappa(counts: Sequence[Sequence[int]], confidence: float = CONFIDENCE) -> Kappa:
    """Compute Fleiss' kappa: do several answers on each item agree more than by chance?

    Items may have different numbers of answers; those with fewer than two say nothing about
    agreement and are left out. The items are the sample, as an item's answers go together. The
    interval adds one item that agrees by chance only, and is taken as in `cohen_kappa`.

    Args:
        counts: For each item, how many answers fell into each category.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Source: Fleiss 1971, doi:10.1037/h0031619; standard error by linearisation over the items,
        Gwet 2008, doi:10.1348/000711006X126600.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    items = [row for row in counts if sum(row) > 1]
    answers = sum(map(sum, items))
    if not items:
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    shares = [sum(column) / answers for column in zip(*items, strict=True)]
    chance = math.fsum(share * share for share in shares)
    if 1 - chance < 1e-12:
        return Kappa(value=None, standard_error=None, interval=ANY_KAPPA)
    agreements = [_agreement(row) for row in items]
    mean = math.fsum(agreements) / len(items)
    kappa = (mean - chance) / (1 - chance)

    def pull(row: Sequence[int], agreement: float, kappa: float) -> float:
        """Compute the change of kappa by one item, times the number of items."""
        beyond = (agreement - chance) / (1 - chance) - kappa
        moved = math.fsum(
            2 * share * (count - sum(row) * share) for share, count in zip(shares, row, strict=True)
        )
        return beyond - (1 - kappa) / (1 - chance) * moved * len(items) / answers

    def squares(kappa: float) -> float:
        pairs = zip(items, agreements, strict=True)
        return math.fsum(pull(row, agreement, kappa) ** 2 for row, agreement in pairs)

    # One more item, of the same categories, whose answers agree by chance only: its own pull is
    # how far it is from the others.
    size = len(items) + 1
    middle = kappa * len(items) / size
    spread = math.sqrt(squares(middle) + middle * middle) / size
    return Kappa(
        value=kappa,
        standard_error=math.sqrt(squares(kappa)) / len(items),
        interval=fisher_interval(kappa, middle, spread, confidence),
    )


def _agreement(row: Sequence[int]) -> float:
    """Share of the pairs of answers on one item that are the same."""
    answers = sum(row)
    return sum(count * (count - 1) for count in row) / (answers * (answers - 1))
