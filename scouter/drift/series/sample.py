"""Samples: how often each outcome came, by hour of the day, and what their order says of traffic.

Traffic is rarely steady. Its rate may differ by the time of the day, or move by itself. A sample
says both, so that a reference that is taken from it makes no fall of what is usual.
"""

import math
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import mul
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from scouter.drift.detect.baseline import Baseline, of_passes, of_scores

GRID: Final = 1_000
"""Outcomes are counted by thousandths, rounded down: a lower bound of that mean is one of theirs,
and a sample has 1,001 counts an hour at most."""
BLOCK: Final = 20
"""Neighbours whose mean is one outcome where they are alike: as many as the records of most
conversations."""
COMPLETE: Final = 5_000
"""Records at which a sample of two whole days or more is complete."""
HOUR_NS: Final = 3_600 * 10**9
DAY: Final = 24
_SEED: Final = 36
_MOST_BLOCKS: Final = 512
"""Blocks that are stored at most: beyond, two neighbours become one."""
_MOST_SCORES: Final = 5_000
"""Scores that a bound is taken from at most, drawn by lot: it takes a hundred looks at each."""
_ALIKE: Final = 4.0
"""Standard errors of the correlation of neighbours beyond which they are alike: of 30,000 samples
of single records one is by chance."""
_APART: Final = 3.7
"""Standard errors by which the best of 24 halves of the day is apart from the other half."""
_AGAIN: Final = 2.33
"""Standard errors by which it is apart again, in each half of the days, where it is confirmed."""
_BEYOND: Final = 3.0
"""Standard errors beyond which the rates of parts differ by more than chance."""
_PARTS: Final = {50: (0.873, 0.217), 25: (0.789, 0.290), 10: (0.618, 0.379)}
"""Numbers of parts that are compared. Of so many normal variables: mean and standard deviation of
half the mean square of the steps from one to the next, the largest of them left out (400,000 draws
each)."""


class Halves(NamedTuple):
    """Two halves of the day whose rates differ."""

    first_hour: int
    """Hour (UTC) at which the better one begins."""
    is_confirmed: bool
    """True if earlier and later days both show it. Otherwise it may be one change."""

    def is_better(self, hour: int) -> bool:
        """Tell whether an hour (of the day, or since 1970) is in the better half."""
        return (hour - self.first_hour) % DAY < DAY // 2

    def __str__(self) -> str:
        """The better half in words."""
        end = (self.first_hour + DAY // 2) % DAY
        return f"from {self.first_hour:02}:00 to {end:02}:00 UTC"


class Sample:
    """Counts of outcomes by hour of the day, and sums of blocks of neighbours in their order.

    Args:
        bins: How often each thousandth came, at no known hour.
        records: Records in the units that were counted.
    """

    __slots__ = (
        "_block_total", "_first_hour", "_labels", "_middle", "_run", "_today", "_together",
        "_width", "_within", "bins", "blocks", "days", "is_complete", "records", "units",
    )  # fmt: skip

    def __init__(self, bins: Mapping[int, int] | None = None, records: int = 0) -> None:
        self.bins = {place: _hours([count]) for place, count in (bins or {}).items()}
        """By thousandth how often it came in each hour of the day (UTC)."""
        self.records = records
        self.units = sum((bins or {}).values())
        self.days = 0
        """Whole days, each 24 hours from the hour of the first unit, that had a unit."""
        self.is_complete = False
        """It takes nothing more: two whole days and `COMPLETE` records are enough."""
        self.blocks, self._labels = array("I"), array("H")
        """Sums of so many neighbours in thousandths, and hours since the first unit."""
        self._width = BLOCK
        """Units of a block; more of them make wider blocks."""
        self._block_total = self._middle = 0
        """Sum of the outcomes since the last block, and the hour in the middle of them."""
        self._first_hour, self._today = 0, 0
        """Hour since 1970 of the first unit, and days since then."""
        self._run: list[int] = []
        """The last outcomes, fewer than `BLOCK`, in thousandths."""
        self._together = self._within = 0.0
        """Sums of the products of neighbours and of squares, both about the mean of their run."""

    def ends_day(self, hour: int) -> bool:
        """Let time pass up to the next unit; True if a day is whole with that.

        Args:
            hour: Of the next unit, since 1970.
        """
        if not self.units or (hour - self._first_hour) // DAY <= self._today:
            return False
        self._today = (hour - self._first_hour) // DAY
        self.days += 1
        self.is_complete = self.days > 1 and self.records >= COMPLETE
        return True

    def add(self, outcome: float, records: int, hour: int = 0) -> None:
        """Count one unit.

        Args:
            outcome: In [0, 1].
            records: In it.
            hour: In which it was created, since 1970.
        """
        place = GRID if outcome == 1 else int(outcome * GRID)  # one number in place of many
        counts = self.bins.get(place)
        if counts is None:
            counts = self.bins[place] = _hours()
        counts[hour % DAY] += 1
        if not self.units:
            self._first_hour = hour
        self.units += 1
        self.records += records
        self._run.append(place)
        if len(self._run) == BLOCK:
            self._end_run()
        at = self.units % self._width
        if at == self._width // 2:
            self._middle = hour
        elif not at:
            self._end_block()

    def _end_run(self) -> None:
        total, mean = sum(self._run), sum(self._run) / BLOCK
        from_mean = [place - mean for place in self._run]
        self._together += sum(map(mul, from_mean, from_mean[1:]))
        self._within += sum(map(mul, from_mean, from_mean))
        self._block_total += total
        self._run.clear()

    def _end_block(self) -> None:
        self.blocks.append(self._block_total)
        self._labels.append(min(max(0, self._middle - self._first_hour), 2**16 - 1))
        self._block_total = 0
        if len(self.blocks) == _MOST_BLOCKS:
            pairs = zip(self.blocks[::2], self.blocks[1::2], strict=True)
            self.blocks = array("I", [one + other for one, other in pairs])
            self._labels = self._labels[::2]
            self._width *= 2

    @property
    def mean(self) -> float:
        """Mean outcome of a unit; at most a thousandth too low."""
        return self._total / GRID / self.units

    @property
    def _total(self) -> int:
        return sum(place * sum(counts) for place, counts in self.bins.items())

    @property
    def is_alike(self) -> bool:
        """True if neighbours are alike beyond chance, as are records of one conversation.

        Source: the first autocorrelation within runs of `BLOCK`, so that it is none of the time of
            day. It is -1 / `BLOCK` by chance, with an error of one over the root of the count.
        """
        if not self.blocks or self._within <= 0:
            return False
        alike = self._together / self._within + 1 / BLOCK
        return alike * math.sqrt(self.units) > _ALIKE

    @property
    def _variance(self) -> float:
        """Variance of a unit; where neighbours are alike, that of the mean of many times many."""
        if self.is_alike:
            size = self._width * GRID
            means = [block / size for block in self.blocks]
            mean = sum(means) / len(means)
            return self._width * sum((each - mean) ** 2 for each in means) / len(means)
        squares = sum(place * place * sum(counts) for place, counts in self.bins.items())
        return max(0.0, squares / GRID**2 / self.units - self.mean**2)

    def halves(self) -> Halves | None:
        """Find two halves of the day whose rates differ beyond chance.

        Returns:
            The best of 24; None where no whole day is known, or none is apart by 3.7 standard
            errors (of 1,000 steady samples some two are).
        """
        variance = self._variance if self.days else 0.0
        if not variance:
            return None
        blocks = [
            (self._first_hour + label, self._width, total / GRID)
            for label, total in zip(self._labels, self.blocks, strict=True)
        ]
        hours = blocks if self.is_alike else self._by_hour()
        apart, first = max(
            (_apart(hours, Halves(start, False), variance), start) for start in range(DAY)
        )
        if apart <= _APART:
            return None
        found, middle = Halves(first, False), max(self._labels, default=0) // DAY / 2
        days = [label // DAY for label in self._labels]
        earlier = [block for day, block in zip(days, blocks, strict=True) if day <= middle]
        later = [block for day, block in zip(days, blocks, strict=True) if day > middle]
        is_again = all(_apart(each, found, variance) > _AGAIN for each in (earlier, later))
        return found._replace(is_confirmed=is_again)

    def _by_hour(self) -> list[tuple[int, int, float]]:
        """By hour of the day the number of units and the sum of their outcomes."""
        places = [place / GRID for place in self.bins]
        return [
            (hour, sum(counts), sum(map(mul, counts, places)))
            for hour, counts in enumerate(zip(*self.bins.values(), strict=True))
        ]

    def spread(self, halves: Halves | None = None) -> float:
        """Estimate how far the rate moves by itself, beyond chance and the time of day.

        Args:
            halves: Halves of the day whose means are taken out.

        Returns:
            Standard deviation of the rate, in [0, 1]; 0 where parts differ by no more than chance.

        Source: mean square of successive differences (von Neumann 1941,
            doi:10.1214/aoms/1177731677), without the largest one: one change is no spread.
        """
        variance, rates = self._variance, [total / self._width / GRID for total in self.blocks]
        hours = [self._first_hour + label for label in self._labels]
        better = [halves is not None and halves.is_better(hour) for hour in hours]
        if any(better) and not all(better):
            means = [_mean(r for r, b in zip(rates, better, strict=True) if b is side)
                     for side in (False, True)]  # fmt: skip
            rates = [rate - means[side] for rate, side in zip(rates, better, strict=True)]
            share = sum(better) / len(better)
            variance -= share * (1 - share) * (means[True] - means[False]) ** 2
        found = 0.0
        for parts, (mean, error) in _PARTS.items():
            size = len(rates) // parts
            if not size or variance <= 0:
                continue
            of_part = [_mean(rates[at * size : (at + 1) * size]) for at in range(parts)]
            steps = sorted((after - before) ** 2 for before, after in pairwise(of_part))[:-1]
            chance = variance / size / self._width
            ratio = sum(steps) / 2 / (parts - 1) / chance
            if ratio - mean > _BEYOND * error:
                found = max(found, math.sqrt((ratio / mean - 1) * chance))
        return found

    def baseline(self, alpha: float, halves: Halves | None = None, side: bool = True) -> Baseline:
        """Take a baseline from the sample, or from one half of the day.

        Args:
            alpha: Chance of ever alarming for nothing that bound and detector share.
            halves: Halves of the day; None for the whole one.
            side: True for the better half.

        Returns:
            With the bound of Clopper and Pearson where every outcome is 0 or 1, else with the one
            by betting, which takes the outcomes in an order drawn by lot. Where neighbours are
            alike, the outcomes are means of `BLOCK` or more.

        Raises:
            ValueError: There is no outcome.
        """
        bins = self._counted(halves, side)
        if bins.keys() <= {0, GRID}:
            return of_passes(bins[GRID], bins.total(), alpha)
        scores = [place / GRID for place in sorted(bins) for _ in range(bins[place])]
        # Sorted, a bettor would learn the wrong thing first.
        random.Random(_SEED).shuffle(scores)  # noqa: S311 no secret
        return of_scores(scores[:_MOST_SCORES], alpha)

    def _counted(self, halves: Halves | None, side: bool) -> Counter[int]:
        found: Counter[int] = Counter()
        if self.is_alike:
            for label, total in zip(self._labels, self.blocks, strict=True):
                if halves is None or halves.is_better(self._first_hour + label) is side:
                    found[total // self._width] += 1
            return found
        for place, counts in self.bins.items():
            found[place] = sum(
                count
                for hour, count in enumerate(counts)
                if halves is None or halves.is_better(hour) is side
            )
        return +found

    def __eq__(self, other: object) -> bool:
        """The same counts."""
        if not isinstance(other, Sample):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment] it grows

    def copy(self) -> "Sample":
        """The same counts, to go on with apart."""
        return Sample.from_json(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The counts, from which `from_json` goes on exactly."""
        return {
            "bins": [(place, list(counts)) for place, counts in sorted(self.bins.items())],
            "records": self.records, "days": self.days, "is_complete": self.is_complete,
            "blocks": list(self.blocks), "labels": list(self._labels), "width": self._width,
            "block": (self._block_total, self._middle), "hours": (self._first_hour, self._today),
            "run": list(self._run), "together": self._together, "within": self._within,
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Sample":
        """Go on from stored counts."""
        found = Sample(records=state["records"])
        found.bins = {place: _hours(counts) for place, counts in state["bins"]}
        found.units = sum(sum(counts) for counts in found.bins.values())
        found.days, found.is_complete = state["days"], state["is_complete"]
        found.blocks, found._labels = array("I", state["blocks"]), array("H", state["labels"])
        found._width = state["width"]
        found._block_total, found._middle = state["block"]
        found._first_hour, found._today = state["hours"]
        found._run = list(state["run"])
        found._together, found._within = state["together"], state["within"]
        return found


StoredSample: TypeAlias = Annotated[
    Sample, PlainValidator(Sample.from_json), PlainSerializer(Sample.to_json)
]
"""A sample as a part of what is stored."""


def _hours(counts: Sequence[int] = ()) -> "array[int]":
    """Counts by hour of the day."""
    return array("I", [*counts, *[0] * (DAY - len(counts))])


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def _apart(units: Iterable[tuple[int, int, float]], halves: Halves, variance: float) -> float:
    """Tell by how many standard errors the better half of the day is apart from the other one.

    Args:
        units: Hour, number of outcomes and their sum.
        halves: The halves.
        variance: Of an outcome.

    Returns:
        0 where one of them has fewer than `BLOCK` outcomes.
    """
    counts, totals = [0, 0], [0.0, 0.0]
    for hour, count, total in units:
        side = halves.is_better(hour)
        counts[side] += count
        totals[side] += total
    if min(counts) < BLOCK:
        return 0.0
    difference = totals[True] / counts[True] - totals[False] / counts[False]
    return difference / math.sqrt(variance * (1 / counts[True] + 1 / counts[False]))
