"""References: the mean that a series is held against, measured or stated by a profile."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from statistics import fmean, pvariance, variance
from typing import Any, Final

from scouter.alert.config import AlertThreshold
from scouter.drift.config import Healthy
from scouter.drift.detect.baseline import ENOUGH, Baseline, of_passes, of_scores
from scouter.drift.detect.detector import Design
from scouter.drift.detect.spending import Start
from scouter.drift.profile import AgentEvalProfile

GRID: Final = 1_000
"""Outcomes are counted by thousandths, rounded down: a lower bound of that mean is one of theirs,
and a sample takes 1,001 numbers at most."""
_SEED: Final = 36


BLOCK: Final = 20
"""Neighbours whose mean is one outcome where they are alike: as many as the records of most
conversations."""
_ALIKE: Final = 4.0
"""Standard errors of the correlation of neighbours beyond which they are alike: of 30,000 samples
of single records one is by chance."""


_PARTS: Final = (50, 25, 10)
"""Numbers of parts of a sample that are held against each other."""
_UNEVEN: Final = 3.0
"""Standard errors of their variance beyond which parts differ: one of 40 steady samples does."""
_NO_BLOCKS: Final[tuple[int, ...]] = ()


class Sample:
    """Counts of outcomes without their order, and what is known of it: how alike neighbours are.

    Args:
        bins: How often each thousandth came.
        records: Records in the units that were counted.
    """

    __slots__ = (
        "_block_total", "_first", "_last", "_products", "bins", "blocks", "records", "units",
    )  # fmt: skip

    def __init__(self, bins: Mapping[int, int] | None = None, records: int = 0) -> None:
        self.bins = dict(bins or {})
        self.records = records
        self.units = sum(self.bins.values())
        self.blocks = _NO_BLOCKS
        """Means of neighbours, in thousandths, in their order; see `BLOCK`."""
        self._block_total = 0
        """Sum of the outcomes since the last of them."""
        self._first = self._last = 0
        """The first outcome and the last one, in thousandths."""
        self._products = 0
        """Sum of the products of neighbours."""

    def add(self, outcome: float, records: int) -> None:
        """Count one unit's outcome, in [0, 1]."""
        place = GRID if outcome == 1 else int(outcome * GRID)  # one number in place of many
        self.bins[place] = self.bins.get(place, 0) + 1
        if self.units:
            self._products += self._last * place
        else:
            self._first = place
        self._last = place
        self.units += 1
        self.records += records
        self._block_total += place
        if not self.units % BLOCK:
            self.blocks += (self._block_total // BLOCK,)
            self._block_total = 0

    @property
    def mean(self) -> float:
        """Mean outcome of a unit; at most a thousandth too low."""
        return sum(place * count for place, count in self.bins.items()) / GRID / self.units

    @property
    def is_alike(self) -> bool:
        """True if neighbours are alike beyond chance, as are records of one conversation.

        Source: the first autocorrelation, whose standard error is one over the root of the count.
        """
        if self.units < BLOCK or not self.blocks:
            return False
        total = sum(place * count for place, count in self.bins.items())
        squares = sum(place * place * count for place, count in self.bins.items())
        mean = total / self.units
        ends = 2 * total - self._first - self._last
        spread = squares - total * mean
        together = self._products - mean * ends + (self.units - 1) * mean * mean
        return spread > 0 and together / spread * math.sqrt(self.units) > _ALIKE

    @property
    def is_even(self) -> bool:
        """False if parts of the sample differ by more than chance, as those of day and night do.

        Source: the variance of the parts' means over the one that single blocks let expect.
        """
        spread = pvariance(self.blocks) if self.blocks else 0.0
        for parts in _PARTS if spread else ():
            size = len(self.blocks) // parts
            if size < 2:
                continue
            means = [fmean(self.blocks[at * size : (at + 1) * size]) for at in range(parts)]
            if variance(means) * size / spread - 1 > _UNEVEN * math.sqrt(2 / (parts - 1)):
                return False
        return True

    def baseline(self, alpha: float) -> Baseline:
        """Take a baseline from the sample.

        Args:
            alpha: Chance of ever alarming for nothing that bound and detector share.

        Returns:
            With the bound of Clopper and Pearson where every outcome is 0 or 1, else with the one
            by betting, which takes the outcomes in an order drawn by lot. Where neighbours are
            alike, the outcomes are means of `BLOCK`.

        Raises:
            ValueError: The sample is empty.
        """
        bins = Counter(self.blocks) if self.is_alike else self.bins
        if bins.keys() <= {0, GRID}:
            return of_passes(bins.get(GRID, 0), sum(bins.values()), alpha)
        scores = [place / GRID for place in sorted(bins) for _ in range(bins[place])]
        # Sorted, a bettor would learn the wrong thing first.
        random.Random(_SEED).shuffle(scores)  # noqa: S311 no secret
        return of_scores(scores, alpha)

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
            "bins": sorted(self.bins.items()), "records": self.records,
            "blocks": self.blocks, "block_total": self._block_total,
            "first": self._first, "last": self._last, "products": self._products,
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Sample":
        """Go on from stored counts."""
        found = Sample(dict(state["bins"]), state["records"])
        found.blocks, found._block_total = tuple(state["blocks"]), state["block_total"]
        found._first, found._last = state["first"], state["last"]
        found._products = state["products"]
        return found


_HIGHEST: Final = 0.999
"""A stated level of 1 would turn the first failure ever into a proof."""


class ReferenceKind(StrEnum):
    """The source of a healthy mean."""

    VERSION = "version"
    """The agent's version before."""
    NAMED = "named"
    """A version that the profile names, such as the stable one of a canary."""
    RUN = "run"
    """A saved run of scenarios."""
    OLDEST = "oldest"
    """The oldest version with this profile: many small falls add up against it."""
    FIRST = "first"
    """The first outcomes of the series itself, healthy or not."""
    LEVEL = "level"
    """A number that somebody has stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One healthy mean.

    Args:
        kind: Where it comes from.
        name: The version's name, where it comes from one.
        baseline: The mean and its lower bound. Of a level both are the level.
        margin: How far below the mean is healthy anyway: of a small run, or as a profile states.
        is_alike: Neighbours are alike, so that it is one of means of `BLOCK` units.
    """

    kind: ReferenceKind
    name: str = ""
    baseline: Baseline
    margin: float = 0.0
    is_alike: bool = False

    @property
    def design(self) -> Design:
        """The bets against it; a level is known exactly, so that its detector has all of alpha."""
        alpha = self.baseline.alpha
        is_exact = self.kind is ReferenceKind.LEVEL
        return _design(self.baseline.lower, alpha if is_exact else alpha / 2)

    def design_of(self, run_length: float | None) -> Design:
        """The bets of a detector that is told how long healthy runs are on average.

        Args:
            run_length: Least average number of units between two false alarms (e-SR); None for a
                bounded chance of ever alarming, which is `design`.
        """
        if run_length is None:
            return self.design
        return _design(self.baseline.lower, 1 / run_length, Start.ALWAYS)

    @property
    def is_usable(self) -> bool:
        """False where nothing lower can be, as of an agent that never passed."""
        return 0 < self.baseline.lower < 1

    def sentence(self) -> str:
        """Say in words what the series is held against, and what that can see."""
        match self.kind:
            case ReferenceKind.VERSION:
                words = f"version {self.name or '(none)'} before it"
            case ReferenceKind.NAMED:
                words = f"version {self.name}, named by the profile"
            case ReferenceKind.RUN:
                words = f"the saved run {self.name}".rstrip()
            case ReferenceKind.OLDEST:
                words = f"the oldest version known, {self.name or '(none)'}"
            case ReferenceKind.FIRST:
                words = "its own first records, healthy or not"
            case ReferenceKind.LEVEL:
                return f"the stated level of {self.baseline.lower:.1%}"
        why = "it is no live traffic" if self.kind is ReferenceKind.RUN else "the profile says so"
        margin = f", of which {self.margin:.1%} less is healthy: {why}" if self.margin else ""
        alike = (
            f"; neighbours are alike, so that means of {BLOCK} are compared: give session ids"
            if self.is_alike
            else ""
        )
        return f"{words} ({self.baseline.mean:.1%}{margin}); {self.baseline.sentence()}{alike}"

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        known = self.baseline
        return {
            "kind": self.kind.value, "name": self.name, "mean": known.mean, "lower": known.lower,
            "count": known.count, "alpha": known.alpha, "margin": self.margin,
            "is_alike": self.is_alike,
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Reference":
        """Read what `to_json` wrote."""
        known = Baseline(
            mean=state["mean"], lower=state["lower"], count=state["count"], alpha=state["alpha"]
        )
        return Reference(
            kind=ReferenceKind(state["kind"]), name=state["name"], baseline=known,
            margin=state["margin"], is_alike=state["is_alike"],
        )  # fmt: skip


def of_sample(
    kind: ReferenceKind,
    name: str,
    sample: Sample,
    alpha: float,
    *,
    margin: float = 0.0,
    part: float = 1.0,
) -> Reference:
    """Take a reference from outcomes; see `Sample.baseline`.

    Args:
        kind: Where the outcomes come from.
        name: Of the version, where they come from one.
        sample: The outcomes.
        alpha: Chance of ever alarming for nothing that bound and detector share.
        margin: How far below its own lower bound the mean is still healthy.
        part: Of the chance that the bound is wrong, where several bounds share it.
    """
    known = sample.baseline(alpha * part)
    known = replace(known, alpha=alpha, lower=max(0.0, known.lower - margin))
    return Reference(kind=kind, name=name, baseline=known, margin=margin, is_alike=sample.is_alike)


def of_level(level: float, alpha: float) -> Reference:
    """Take a stated level, in (0, 1], as a reference."""
    level = min(level, _HIGHEST)
    known = Baseline(mean=level, lower=level, count=0, alpha=alpha)
    return Reference(kind=ReferenceKind.LEVEL, baseline=known)


def of_run(name: str, sample: Sample, margin: float, alpha: float) -> Reference:
    """Take a saved run as a reference.

    Live traffic is not its scenarios: so a run of fewer than 1,000 units is healthy by a margin
    below its own rate, too, and never above the lower bound of that.
    """
    known = sample.baseline(alpha)
    if known.count >= ENOUGH:
        return Reference(kind=ReferenceKind.RUN, name=name, baseline=known)
    lower = max(0.0, min(known.lower, known.mean - margin))
    known = replace(known, lower=lower)
    return Reference(kind=ReferenceKind.RUN, name=name, baseline=known, margin=margin)


@lru_cache(maxsize=4_096)
def _design(healthy: float, alpha: float, start: Start = Start.SPENT) -> Design:
    return Design(healthy=healthy, alpha=alpha, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """One reference of one task: a level, or a saved run.

    Args:
        task: Empty for the whole record.
        level: A healthy pass rate, in (0, 1]; None for a run.
        name: Of the run.
        run: Its outcomes.
        margin: See `of_run`.
    """

    task: str
    level: float | None = None
    name: str = ""
    run: Sample | None = None
    margin: float = 0.0

    def reference(self, alpha: float) -> Reference:
        """The reference, with its share of the allowed chance."""
        if self.run is not None:
            return of_run(self.name, self.run, self.margin, alpha)
        assert self.level is not None  # noqa: S101 one of both is there
        return of_level(self.level, alpha)

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        return {
            "task": self.task, "level": self.level, "name": self.name, "margin": self.margin,
            "run": None if self.run is None else self.run.to_json(),
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Standard":
        """Read what `to_json` wrote."""
        run = None if state["run"] is None else Sample.from_json(state["run"])
        return Standard(
            task=state["task"], level=state["level"], name=state["name"], run=run,
            margin=state["margin"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """All that is stated about the tasks of one profile.

    Args:
        standards: In any order.
        version: The version that others are held against; empty for the one before.
        margin: How far below a measured pass rate or score is still healthy.
    """

    standards: Sequence[Standard] = ()
    version: str = ""
    margin: float = 0.0

    @staticmethod
    def of(healthy: Healthy | None, level: float | None = None) -> "Stated":
        """Take what a profile states.

        Args:
            healthy: References in the profile; None without any.
            level: Of whole records, where nothing else is said about them.
        """
        rates = {} if level is None else {"": level}
        if healthy is None:
            return Stated(standards=[Standard(task=t, level=rate) for t, rate in rates.items()])
        rates |= healthy.rates
        standards = [Standard(task=task, level=rate) for task, rate in rates.items()]
        run = healthy.run
        if run is not None:
            standards += [
                Standard(task=task, name=run.name, run=Sample(bins), margin=run.margin)
                for task, bins in run.tasks.items()
            ]
        return Stated(standards=standards, version=healthy.version, margin=healthy.margin)

    def of_task(self, task: str) -> list[Standard]:
        """The standards of one task."""
        return [each for each in self.standards if each.task == task]

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        return {
            "standards": [each.to_json() for each in self.standards], "version": self.version,
            "margin": self.margin,
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Stated":
        """Read what `to_json` wrote."""
        standards = [Standard.from_json(each) for each in state["standards"]]
        return Stated(standards=standards, version=state["version"], margin=state["margin"])


NOTHING: Final = Stated()
"""Stated where nobody says anything."""


def stated_by(profile: AgentEvalProfile) -> Stated:
    """All that a profile states; its alert's lowest healthy rate where it says no other."""
    condition = profile.config.alert_config.alert_condition
    level = None
    if condition is not None and condition.alert_threshold is not AlertThreshold.Above:
        level = max(condition.lower_bound(), 0.0) or None
    return Stated.of(profile.config.healthy, level)
