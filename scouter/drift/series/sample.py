"""Outcomes of a time that is taken for healthy, as counts: what a baseline is made of."""

import random
from collections.abc import Mapping
from typing import Any, Final

from scouter.drift.detect.baseline import Baseline, of_passes, of_scores

GRID: Final = 1_000
"""Outcomes are counted by thousandths, rounded down: a lower bound of that mean is one of theirs,
and a sample takes 1,001 numbers at most."""
_SEED: Final = 36


class Sample:
    """Counts of outcomes, without their order.

    Args:
        bins: How often each thousandth came.
        records: Records in the units that were counted.
    """

    __slots__ = ("bins", "records", "units")

    def __init__(self, bins: Mapping[int, int] | None = None, records: int = 0) -> None:
        self.bins = dict(bins or {})
        self.records = records
        self.units = sum(self.bins.values())

    def add(self, outcome: float, records: int) -> None:
        """Count one unit's outcome, in [0, 1]."""
        place = int(outcome * GRID)
        self.bins[place] = self.bins.get(place, 0) + 1
        self.units += 1
        self.records += records

    @property
    def mean(self) -> float:
        """Mean outcome of a unit; at most a thousandth too low."""
        return sum(place * count for place, count in self.bins.items()) / GRID / self.units

    def baseline(self, alpha: float) -> Baseline:
        """Take a baseline from the sample.

        Args:
            alpha: Chance of ever alarming for nothing that bound and detector share.

        Returns:
            With the bound of Clopper and Pearson where every outcome is 0 or 1, else with the one
            by betting, which takes the outcomes in an order drawn by lot.

        Raises:
            ValueError: The sample is empty.
        """
        if self.bins.keys() <= {0, GRID}:
            return of_passes(self.bins.get(GRID, 0), self.units, alpha)
        scores = [place / GRID for place in sorted(self.bins) for _ in range(self.bins[place])]
        # Sorted, a bettor would learn the wrong thing first.
        random.Random(_SEED).shuffle(scores)  # noqa: S311 no secret
        return of_scores(scores, alpha)

    def __eq__(self, other: object) -> bool:
        """The same counts."""
        if not isinstance(other, Sample):
            return NotImplemented
        return (self.bins, self.records) == (other.bins, other.records)

    __hash__ = None  # type: ignore[assignment] it grows

    def copy(self) -> "Sample":
        """The same counts, to go on with apart."""
        return Sample(self.bins, self.records)

    def to_json(self) -> dict[str, Any]:
        """The counts, from which `from_json` goes on exactly."""
        return {"bins": sorted(self.bins.items()), "records": self.records}

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Sample":
        """Go on from stored counts."""
        return Sample(dict(state["bins"]), state["records"])
