"""References: the mean that a series is held against, and where it comes from."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from scouter.drift.detect.baseline import ENOUGH, Baseline
from scouter.drift.detect.detector import Design
from scouter.drift.detect.spending import Start
from scouter.drift.series.sample import Sample

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
        margin: How far below the mean is healthy anyway; of a small run only.
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
        less = f", of which {self.margin:.1%} less is healthy: it is no live traffic"
        margin = less if self.margin else ""
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
            margin=state.get("margin", 0.0),
        )  # fmt: skip


def of_sample(kind: ReferenceKind, name: str, sample: Sample, alpha: float) -> Reference:
    """Take a reference from outcomes; see `Sample.baseline`."""
    return Reference(kind=kind, name=name, baseline=sample.baseline(alpha))


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
