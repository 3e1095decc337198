"""The change of one record or scenario, over all its attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.evaluate.compare.counts import ComparedTask
from scouter.evaluate.outcome import Outcome, is_in_rate
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness

_EPSILON: Final = 1e-9
_PASSED: Final = Outcome.PASSED


class Passes(NamedTuple):
    """Counts in either run: the times that something passed, out of the times it was evaluated."""

    before: int
    of_before: int
    now: int
    of_now: int

    def __str__(self) -> str:
        return f"{self.before} of {self.of_before} before, {self.now} of {self.of_now} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One record or scenario in both runs, over the tasks of the baseline.

    A task counts if it does so in an attempt of either run; where it is gone it did not pass. An
    attempt in which it was skipped for a budget or a sample says nothing of it.
    """

    before: float
    """Mean pass rate of the baseline's attempts, in [0, 1]."""
    after: float
    lost: tuple[str, ...]
    """Tasks that passed and are in no attempt now: nobody looks there any more."""
    is_unrelated: bool
    """True if the baseline has tasks, of which none is there again."""
    fallen: Mapping[str, Passes]
    """Tasks that fell beyond their own flakiness."""
    risen: Mapping[str, Passes]

    def regressed(self, threshold: float) -> bool:
        """Tell whether it got worse by the threshold or more, and beyond its flakiness."""
        is_lower = fell(self.after - self.before, threshold)
        return bool(self.lost) or (is_lower and bool(self.fallen))

    def improved(self, threshold: float) -> bool:
        """Tell whether it got better by the threshold or more, and beyond its flakiness."""
        return fell(self.before - self.after, threshold) and bool(self.risen)


def counts(task: ComparedTask) -> bool:
    """Tell whether a task belongs into a pass rate."""
    return is_in_rate(task.outcome, task.reason)


def fell(delta: float, threshold: float) -> bool:
    """Tell whether a rate fell at all, and by the threshold or more."""
    return delta < -_EPSILON and delta <= -threshold + _EPSILON


def change_of(
    old: Sequence[Mapping[str, ComparedTask]], new: Sequence[Mapping[str, ComparedTask]]
) -> Change:
    """Compare the attempts of one record or scenario.

    Args:
        old: The tasks of each attempt of the baseline, one or more.
        new: The same now; none if it is missing.
    """
    names = list(dict.fromkeys(name for tasks in old for name in tasks))
    present = {name for tasks in new for name in tasks}
    passes = {name: Passes(*_passes(name, old), *_passes(name, new)) for name in names}
    counted = [
        name for name, found in passes.items() if found.of_before and (found.of_now or not new)
    ]
    total = max(len(counted), 1)
    return Change(
        before=sum(passes[name].before / passes[name].of_before for name in counted) / total,
        after=sum(passes[name].now / max(passes[name].of_now, 1) for name in counted) / total,
        lost=tuple(name for name in names if name not in present and passes[name].before),
        is_unrelated=bool(names) and not present.intersection(names),
        fallen={name: passes[name] for name in counted if falls_beyond_flakiness(*passes[name])},
        risen={
            name: passes[name]
            for name in counted
            if falls_beyond_flakiness(*passes[name][2:], *passes[name][:2])
        },
    )


def _passes(name: str, attempts: Sequence[Mapping[str, ComparedTask]]) -> tuple[int, int]:
    passed = sum(name in tasks and tasks[name].outcome is _PASSED for tasks in attempts)
    return passed, sum(name not in tasks or counts(tasks[name]) for tasks in attempts)
