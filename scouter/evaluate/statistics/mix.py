"""Mix or behaviour: a difference of two rates, split by what it comes from.

A rate falls if more of the traffic is of a kind that always passed rarely, and if the same traffic
passes less often than before. The split says how much each of the two makes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.distributions import NORMAL, student_cdf, student_quantile
from scouter.evaluate.statistics.every_look import look_p_value, look_quantile
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.proportion import CONFIDENCE
from scouter.evaluate.statistics.strata import FEWEST, Cell, Result, cells_of

_GROUPS: Final = 100
"""Groups of conversations of a sample, each of which is left out once."""
_MIDDLE: Final = (1 + CONFIDENCE) / 2
_LEVEL: Final = 0.05
_MOST_TRAITS: Final = 40
_FEWEST: Final = 20
"""Results that a trait needs in either sample, with it and without it."""

_Cells: TypeAlias = list[tuple[int, int]]
"""Results that passed, and all, by cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a difference."""

    difference: float
    interval: Interval
    """95 %, two-sided; where a side may still get records, at all looks together."""
    p_value: float
    """One-sided, of a fall; of an open comparison valid at every look."""

    @property
    def fell(self) -> bool:
        """True if the whole interval is below 0."""
        return self.interval[1] < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A difference of two rates; the parts add up to it."""

    traffic: Part
    """Other traffic: other shares of its kinds, or kinds that only one sample has."""
    route: Part
    """Within the same traffic, another way through it: other tools, models or lengths."""
    within: Part
    """Within the same traffic that took the same way."""
    cells: Sequence[Cell]
    alone_before: float
    """Share of the results before that are of traffic which is not there now."""
    alone_after: float
    """Share of the results now that are of traffic which was not there before."""


def split_difference(
    before: Sequence[Result],
    after: Sequence[Result],
    traffic: Collection[str],
    route: Collection[str],
    *,
    is_open: bool = False,
) -> Split | None:
    """Split the difference of two rates into its parts.

    Args:
        before: Results of the baseline.
        after: Results of the sample in question.
        traffic: Traits that say what was requested, such as tags.
        route: Traits that traffic and behaviour both may change, such as tools.
        is_open: True if a side may still get records: the intervals hold at every look.

    Returns:
        The parts; None where no traffic of the two samples is alike, or a sample has fewer than
        five conversations.

    Cost: that of `cells_of`, and 200 sums over all cells.
    Source: Kitagawa 1955, doi:10.1080/01621459.1955.10501299, whose two components take the mean
        of both samples as weights; Oaxaca 1973 and Blinder 1973 did the same with regressions. The
        intervals are a jackknife's that leaves out groups of conversations (Kott 2001, Journal of
        Official Statistics 17, 521-526), with Student's quantile.
    """
    jackknife = _Jackknife(before, after)
    if jackknife.freedom < FEWEST - 1:
        return None
    cells: list[Cell] = []
    outer: list[int] = []
    """Of each cell the number of the cell of the same traffic that it lies in."""
    for number, alike in enumerate(cells_of(Cell(before=before, after=after), traffic)):
        parts = cells_of(alike, {*traffic, *route})
        if not any(each.is_shared for each in parts):
            parts = [alike]
        cells += parts
        outer += [number] * len(parts)
    if not any(each.is_shared for each in cells):
        return None
    is_alone = {
        number
        for number in outer
        if not any(cell.is_shared for cell, at in zip(cells, outer, strict=True) if at == number)
    }
    shared = [cell.is_shared for cell in cells]

    def parts_of(old: _Cells, new: _Cells) -> tuple[float, ...]:
        was, now = _merged(old, outer), _merged(new, outer)
        alike = _within(was, now, [at not in is_alone for at in range(len(was))])
        within = _within(old, new, shared)
        whole = _rate(new) - _rate(old)
        return whole - alike, alike - within, within

    found = jackknife.parts(cells, parts_of, is_open=is_open)
    return Split(
        traffic=found[0],
        route=found[1],
        within=found[2],
        cells=[cell for cell in cells if cell.is_shared],
        alone_before=_alone(cells, outer, is_alone, [len(cell.before) for cell in cells]),
        alone_after=_alone(cells, outer, is_alone, [len(cell.after) for cell in cells]),
    )


def _alone(
    cells: Sequence[Cell], outer: Sequence[int], is_alone: Collection[int], counts: Sequence[int]
) -> float:
    return sum(n for at, n in zip(outer, counts, strict=True) if at in is_alone) / sum(counts)


def _merged(cells: _Cells, outer: Sequence[int]) -> _Cells:
    found = [(0, 0)] * (max(outer) + 1)
    for at, (passed, count) in zip(outer, cells, strict=True):
        found[at] = found[at][0] + passed, found[at][1] + count
    return found


def _rate(cells: _Cells) -> float:
    return sum(passed for passed, _ in cells) / max(1, sum(count for _, count in cells))


def _within(old: _Cells, new: _Cells, shared: Sequence[bool]) -> float:
    """Mean change of the rate inside the cells, weighted by both samples' mean shares."""
    pairs = [
        (was, now)
        for was, now, is_shared in zip(old, new, shared, strict=True)
        if is_shared and was[1] and now[1]
    ]
    sizes = sum(was[1] for was, _ in pairs), sum(now[1] for _, now in pairs)
    return math.fsum(
        (was[1] / sizes[0] + now[1] / sizes[1]) / 2 * (now[0] / now[1] - was[0] / was[1])
        for was, now in pairs
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitChange:
    """A trait of the results, and what changed with it inside the same traffic."""

    trait: str
    before: tuple[int, int]
    """Results with the trait that passed, and all of them."""
    after: tuple[int, int]
    within: Part
    """Change of the rate of results with the trait, inside the cells."""
    beyond: Part
    """The same less the change of results without it."""
    adjusted_p: float
    """One-sided p-value of `beyond` after Holm's correction over all traits."""

    @property
    def is_named(self) -> bool:
        """True if results with the trait fell, and further than those without."""
        return self.adjusted_p <= _LEVEL and self.within.difference < 0


def trait_changes(
    split: Split, traits: Collection[str], *, is_open: bool = False
) -> list[TraitChange]:
    """Look for traits whose results fell further than others inside the same traffic.

    A trait that comes with another kind of question falls with that question alone; inside the
    cells it is compared with results that are alike.

    Args:
        split: Cells of the two samples.
        traits: The 40 that most results have are looked at.
        is_open: As in `split_difference`.

    Returns:
        A change for each trait with 20 results in either sample, and as many without it; those
        that fell furthest first.

    Cost: for each trait as that of the split.
    """
    cells = split.cells
    before, after = (
        [each for cell in cells for each in (cell.before, cell.after)[side]] for side in (0, 1)
    )
    jackknife = _Jackknife(before, after)
    sizes = Counter(trait for each in (*before, *after) for trait in each.traits)
    found: list[TraitChange] = []
    for trait in sorted(traits, key=lambda name: (-sizes[name], name))[:_MOST_TRAITS]:
        halves = [_half(cell, trait, has) for has in (True, False) for cell in cells]
        of = len(cells)
        counts = [
            [_counts([each for half in some for each in side(half)]) for side in (_old, _new)]
            for some in (halves[:of], halves[of:])
        ]
        if min(count for side in counts for _, count in side) < _FEWEST:
            continue

        def parts_of(old: _Cells, new: _Cells, of: int = of) -> tuple[float, ...]:
            every = [True] * of
            has, lacks = _within(old[:of], new[:of], every), _within(old[of:], new[of:], every)
            return has, has - lacks

        within, beyond = jackknife.parts(halves, parts_of, is_open=is_open)
        found.append(
            TraitChange(
                trait=trait,
                before=counts[0][0],
                after=counts[0][1],
                within=within,
                beyond=beyond,
                adjusted_p=beyond.p_value,
            )
        )
    adjusted = holm([each.adjusted_p for each in found])
    return sorted(
        (replace(each, adjusted_p=p) for each, p in zip(found, adjusted, strict=True)),
        key=lambda each: (not each.is_named, each.within.difference * each.after[1], each.trait),
    )


def _old(cell: Cell) -> Sequence[Result]:
    return cell.before


def _new(cell: Cell) -> Sequence[Result]:
    return cell.after


def _half(cell: Cell, trait: str, has: bool) -> Cell:
    before, after = (
        [each for each in side if (trait in each.traits) is has]
        for side in (cell.before, cell.after)
    )
    return Cell(before=before, after=after)


def _counts(results: Iterable[Result]) -> tuple[int, int]:
    passed = [each.passed for each in results]
    return sum(passed), len(passed)


class _Jackknife:
    """Standard errors of what is computed from counts by cell.

    Args:
        before: Results of the baseline.
        after: Results of the sample in question.
    """

    def __init__(self, before: Sequence[Result], after: Sequence[Result]) -> None:
        self._groups = [_groups(side) for side in (before, after)]
        self._many = [max(side.values(), default=-1) + 1 for side in self._groups]
        self._floor = math.hypot(*(math.sqrt(0.5) / max(1, len(side)) for side in (before, after)))
        self.freedom = min(self._many) - 1
        """Degrees of freedom: one less than the conversations of the smaller sample, at most 99."""

    def parts(
        self,
        cells: Sequence[Cell],
        parts_of: Callable[[_Cells, _Cells], tuple[float, ...]],
        *,
        is_open: bool,
    ) -> list[Part]:
        """Compute parts of a difference, each with its interval.

        Args:
            cells: Results of both samples.
            parts_of: Gets passed and count of both samples by cell.
            is_open: True for intervals that hold at every look.
        """
        whole = [[_counts(side(cell)) for cell in cells] for side in (_old, _new)]
        found = parts_of(*whole)
        variances = [0.0] * len(found)
        for side, groups, many in zip((0, 1), self._groups, self._many, strict=True):
            left_out = _by_group([(_old, _new)[side](cell) for cell in cells], groups)
            values: list[tuple[float, ...]] = []
            for number in range(many):
                cut = list(whole[side])
                for at, (passed, count) in left_out[number].items():
                    cut[at] = cut[at][0] - passed, cut[at][1] - count
                values.append(parts_of(cut, whole[1]) if side == 0 else parts_of(whole[0], cut))
            for at, each in enumerate(zip(*values, strict=True)):
                mean = math.fsum(each) / many
                variances[at] += math.fsum((v - mean) ** 2 for v in each) * (many - 1) / many
        errors = [max(self._floor, math.sqrt(each)) for each in variances]
        return [self._part(*each, is_open=is_open) for each in zip(found, errors, strict=True)]

    def _part(self, difference: float, error: float, *, is_open: bool) -> Part:
        quantile = student_quantile(_MIDDLE, self.freedom)
        p_value = student_cdf(difference / error, self.freedom)
        if is_open:
            information = 1 / error**2
            quantile *= look_quantile(information) / NORMAL.inv_cdf(_MIDDLE)
            z = -NORMAL.inv_cdf(min(max(p_value, 1e-300), 1 - 1e-15))
            p_value = look_p_value(z, information)
        return Part(
            difference=difference,
            interval=(difference - quantile * error, difference + quantile * error),
            p_value=p_value,
        )


def _groups(results: Sequence[Result]) -> Mapping[Hashable, int]:
    """Number of its group by conversation; each has one or more."""
    names = dict.fromkeys(each.conversation for each in results)
    return {name: at % _GROUPS for at, name in enumerate(names)}


def _by_group(
    cells: Sequence[Sequence[Result]], groups: Mapping[Hashable, int]
) -> Mapping[int, Mapping[int, tuple[int, int]]]:
    """Passed and count of each group in each cell that it has results in."""
    found: defaultdict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for at, results in enumerate(cells):
        for each in results:
            counts = found[groups[each.conversation]]
            passed, count = counts.get(at, (0, 0))
            counts[at] = passed + each.passed, count + 1
    return found
