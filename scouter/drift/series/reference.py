"""References: the mean that a series is held against, measured or stated by a profile."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
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
    """

    kind: ReferenceKind
    name: str = ""
    baseline: Baseline
    margin: float = 0.0

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
        return f"{words} ({self.baseline.mean:.1%}{margin}); {self.baseline.sentence()}"

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        known = self.baseline
        return {
            "kind": self.kind.value, "name": self.name, "mean": known.mean, "lower": known.lower,
            "count": known.count, "alpha": known.alpha, "margin": self.margin,
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Reference":
        """Read what `to_json` wrote."""
        known = Baseline(
            mean=state["mean"], lower=state["lower"], count=state["count"], alpha=state["alpha"]
        )
        return Reference(
            kind=ReferenceKind(state["kind"]), name=state["name"], baseline=known,
            margin=state["margin"],
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
    return Reference(kind=kind, name=name, baseline=known, margin=margin)


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
