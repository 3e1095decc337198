"""References: the mean that a series is compared with, measured or stated by a profile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pydantic import TypeAdapter

from scouter.alert.config import AlertThreshold
from scouter.drift.config import AMOUNTS, Healthy
from scouter.drift.detect.baseline import ENOUGH, Baseline
from scouter.drift.detect.detector import Design
from scouter.drift.detect.spending import Start
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.sample import BLOCK, Halves, Sample, StoredSample
from scouter.evaluate.tasks.score import ScoreTask

SPREADS: Final = 2.0
"""Standard deviations of a rate that moves by itself, below which it is not healthy any more."""
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
    """Outcomes of the series itself, healthy or not."""
    LEVEL = "level"
    """A number that somebody has stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One healthy mean.

    Args:
        kind: Where it comes from.
        name: The version's name, where it comes from one.
        baseline: The mean and its lower bound. Of a level both are the level; of halves of the day
            they are those of the better half.
        margin: How far below the mean is healthy anyway: of a small run, or as a profile states.
        is_alike: Neighbours are alike, so that it is one of means of `BLOCK` units.
        spread: Standard deviation of the rate beyond chance; twice that below the mean is healthy.
        halves: Halves of the day whose means differ.
        other: The same as `baseline` of the other half, where two days have confirmed them;
            otherwise `baseline` is the worse half's.
        is_early: It holds no whole day, or no second one has confirmed the halves: a fall below it
            may be the time of the day.
    """

    kind: ReferenceKind
    name: str = ""
    baseline: Baseline
    margin: float = 0.0
    is_alike: bool = False
    spread: float = 0.0
    halves: Halves | None = None
    other: Baseline | None = None
    is_early: bool = False

    def lower_in(self, hour: int) -> float:
        """The lower bound of the healthy mean in an hour since 1970."""
        if self.other is None or self.halves is None or self.halves.is_better(hour):
            return self.baseline.lower
        return self.other.lower

    def design(self, run_length: float | None = None, hour: int = 0) -> Design:
        """The bets against it; a level is known exactly, so that its detector has all of alpha.

        Args:
            run_length: Least average number of units between two false alarms (e-SR); None for a
                bounded chance of ever alarming.
            hour: Of the outcome, since 1970.
        """
        lower = self.lower_in(hour)
        if run_length is not None:
            return _design(lower, 1 / run_length, Start.ALWAYS)
        is_exact = self.kind is ReferenceKind.LEVEL
        return _design(lower, self.baseline.alpha / (1 if is_exact else 2))

    @property
    def is_usable(self) -> bool:
        """False where nothing lower can be, as of an agent that never passed."""
        return all(0 < each.lower < 1 for each in (self.baseline, self.other) if each)

    @property
    def rates(self) -> str:
        """The healthy mean in words, by half of the day where they differ, and its own spread."""
        rate = f"{self.baseline.mean:.1%}"
        if self.other is not None:
            rate = f"{rate} {self.halves}, {self.other.mean:.1%} at other times"
        if self.spread:
            rate = f"{rate}, moving by itself by {self.spread:.1%} (standard deviation)"
        return rate

    def sentence(self) -> str:
        """Say in words what the series is compared with, and what that can see."""
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
        more = ""
        if self.is_alike:
            more += (
                f"; neighbours are alike, so that means of {BLOCK} are compared: give session ids"
            )
        if self.is_early:
            more += "; its first days are not over, so that a fall may be the time of day"
        return f"{words} ({self.rates}{margin}); {self.baseline.sentence()}{more}"


REFERENCE: Final = TypeAdapter(Reference)
"""Writes a reference for a store, and reads it."""


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
    halves = sample.halves()
    spread = sample.spread(halves)
    parts = 1 if halves is None else 2
    known = [
        replace(each, alpha=alpha, lower=max(0.0, each.lower - margin - SPREADS * spread))
        for each in (
            sample.baseline(alpha * part / parts, halves, side) for side in (True, False)[:parts]
        )
    ]
    is_confirmed = halves is not None and halves.is_confirmed
    return Reference(
        kind=kind, name=name, margin=margin, is_alike=sample.is_alike, spread=spread,
        halves=halves, other=known[1] if is_confirmed else None,
        baseline=known[0] if is_confirmed else min(known, key=lambda each: each.lower),
        is_early=sample.days < 1 or (sample.days < 2 and halves is not None and not is_confirmed),
    )  # fmt: skip


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
        kind: Kind of the series that it is about.
    """

    task: str
    level: float | None = None
    name: str = ""
    run: StoredSample | None = None
    margin: float = 0.0
    kind: str = "pass"

    def reference(self, alpha: float) -> Reference:
        """The reference, with its share of the allowed chance."""
        if self.run is not None:
            return of_run(self.name, self.run, self.margin, alpha)
        assert self.level is not None  # noqa: S101 one of both is there
        return of_level(self.level, alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """All that is stated about the tasks of one profile.

    Args:
        standards: In any order.
        version: The version that others are compared with; empty for the one before.
        margin: How far below a measured pass rate or score is still healthy.
        slices: Parts of the records that are watched for themselves.
        amounts: What is watched of a record beside its results: `cost`, `latency`.
    """

    standards: Sequence[Standard] = ()
    version: str = ""
    margin: float = 0.0
    slices: tuple[str, ...] = ()
    amounts: tuple[str, ...] = AMOUNTS

    @staticmethod
    def of(
        healthy: Healthy | None, level: float | None = None, slices: tuple[str, ...] = ()
    ) -> "Stated":
        """Take what a profile states.

        Args:
            healthy: References in the profile; None without any.
            level: Of whole records, where nothing else is said about them.
            slices: See the class.
        """
        rates = {} if level is None else {"": level}
        if healthy is None:
            standards = [Standard(task=task, level=rate) for task, rate in rates.items()]
            return Stated(standards=standards, slices=slices)
        rates |= healthy.rates
        standards = [Standard(task=task, level=rate) for task, rate in rates.items()]
        run = healthy.run
        if run is not None:
            standards += [
                Standard(task=task, name=run.name, run=Sample(bins), margin=run.margin)
                for task, bins in run.tasks.items()
            ]
        return Stated(
            standards=standards, version=healthy.version, margin=healthy.margin, slices=slices
        )

    def of_series(self, task: str, kind: str) -> list[Standard]:
        """The standards of one kind of series of a task."""
        return [each for each in self.standards if (each.task, each.kind) == (task, kind)]


NOTHING: Final = Stated()
"""Stated where nobody says anything."""
STATED: Final = TypeAdapter(Stated)
"""Writes what is stated for a store, and reads it."""


def stated_by(profile: AgentEvalProfile) -> Stated:
    """All that a profile states; its alert's lowest healthy rate where it says no other."""
    condition = profile.config.alert_config.alert_condition
    level = None
    if condition is not None and condition.alert_threshold is not AlertThreshold.Above:
        level = max(condition.lower_bound(), 0.0) or None
    found = Stated.of(profile.config.healthy, level, profile.config.slices)
    found = replace(found, amounts=profile.config.amounts)
    means = {each.id for each in profile.tasks if isinstance(each, ScoreTask) and not each.has_rule}
    if not means:
        return found
    standards = [
        replace(each, kind="score") if each.task in means else each for each in found.standards
    ]
    return replace(found, standards=standards)
