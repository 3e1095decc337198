"""Counting two runs: what each task did, pair by pair, and the change of each record."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import Final, NamedTuple

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.statistics.clustered import Cluster
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness
from scouter.evaluate.statistics.permutation import Stratum

_FELL: Final = Stratum((1,), (0,))
_ROSE: Final = Stratum((0,), (1,))
_SAME: Final = Stratum((0,), (0,))


class Tally:
    """One task in both runs, or a sum over tasks.

    Args:
        alias: The alias, or None for tasks of scenarios.
        task_id: The task, or the name of a sum.
        is_clustered: True if several pairs may belong to one conversation.
    """

    __slots__ = (
        "alias", "both", "both_after", "both_before", "changed", "clusters", "fell", "is_apart",
        "missing", "new_count", "new_passed", "new_seen", "old_count", "old_passed", "own_test",
        "pairs", "rose", "strata", "task_id",
    )  # fmt: skip

    def __init__(self, alias: str | None, task_id: str, *, is_clustered: bool) -> None:
        self.alias = alias
        self.task_id = task_id
        self.old_passed = self.old_count = self.new_passed = self.new_count = 0
        self.both = self.both_before = self.both_after = self.changed = 0
        """Records in which both runs judged the task, and what came of it there."""
        self.fell = self.rose = self.pairs = self.missing = 0
        self.clusters: dict[Hashable, list[int]] | None = {} if is_clustered else None
        """Per conversation: falls, rises, pairs."""
        self.new_seen = False
        """True if the new run has a result at all, in a rate or not."""
        self.strata: Sequence[Stratum] | None = None
        """Old and new values that the test compares; None for the pairs of each conversation."""
        self.own_test: tuple[float, float] | None = None
        """P-value and level, where the rule of a release check says them."""
        self.is_apart = False
        """True if nothing of the one run could be paired with anything of the other."""

    @property
    def old_rate(self) -> float:
        """Pass rate in the baseline; 0 without results."""
        return self.old_passed / self.old_count if self.old_count else 0.0

    @property
    def new_rate(self) -> float:
        """Pass rate in the new run; 0 without results."""
        return self.new_passed / self.new_count if self.new_count else 0.0

    @property
    def is_gone(self) -> bool:
        """True if the baseline judged it and the new run has no result of it."""
        return bool(self.old_count) and not self.new_seen

    def add_old(self, passed: bool, is_counted: bool) -> None:
        """Count a result of the baseline."""
        self.old_passed += passed
        self.old_count += is_counted

    def add_new(self, passed: bool, is_counted: bool) -> None:
        """Count a result of the new run."""
        self.new_seen = True
        self.new_passed += passed
        self.new_count += is_counted

    def add_twice(
        self, cluster: Hashable, was: bool, was_counted: bool, now: bool, now_counted: bool
    ) -> None:
        """Count what both runs say of one record; whether each passed, and belongs into a rate."""
        self.new_seen = True
        self.old_passed += was
        self.old_count += was_counted
        self.new_passed += now
        self.new_count += now_counted
        if was_counted or now_counted:
            self.both += 1
            self.both_before += was
            self.both_after += now
            self.changed += was is not now
            if was_counted and now_counted:
                if self.clusters is None:
                    self.pairs += 1
                    if was is not now:
                        self.fell += was
                        self.rose += now
                else:
                    self.add_pairs(cluster, was and not now, now and not was, 1)

    def add_missing(self, cluster: Hashable, was: bool) -> None:
        """Count a result that the new run lacks: it did not pass."""
        self.missing += 1
        self.add_pairs(cluster, int(was), 0, 1)

    def add_pairs(self, cluster: Hashable, fell: int, rose: int, pairs: int) -> None:
        """Count several pairs of one conversation."""
        self.fell += fell
        self.rose += rose
        self.pairs += pairs
        if self.clusters is not None:
            found = self.clusters.get(cluster)
            if found is None:
                self.clusters[cluster] = [fell, rose, pairs]
            else:
                found[0] += fell
                found[1] += rose
                found[2] += pairs

    def cluster_counts(self) -> list[Cluster] | None:
        """The pairs of each conversation; None if each pair is one of its own."""
        if self.clusters is None or len(self.clusters) == self.pairs:
            return None
        return [Cluster(*counts) for counts in self.clusters.values()]

    def tested(self) -> Iterator[Stratum]:
        """Give the values that the test compares: by default one old and one new per conversation.

        The test uses only their difference, so that passes in both runs may be left out.
        """
        if self.strata is not None:
            yield from self.strata
        elif self.clusters is not None:
            for fell, rose, pairs in self.clusters.values():
                if fell == rose:
                    yield _SAME
                else:
                    yield Stratum((Fraction(fell, pairs),), (Fraction(rose, pairs),))
        else:
            same = self.pairs - self.fell - self.rose
            for count, stratum in ((self.fell, _FELL), (self.rose, _ROSE), (same, _SAME)):
                yield from repeat(stratum, count)

    def add_counts(self, tasks: Iterable["Tally"]) -> None:
        """Add what the tasks of a sum counted, but for the pairs."""
        for task in tasks:
            self.old_passed += task.old_passed
            self.old_count += task.old_count
            self.new_passed += task.new_passed
            self.new_count += task.new_count
            self.missing += task.missing
            self.new_seen |= task.new_seen


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


def fell(delta: float, threshold: float) -> bool:
    """Tell whether a rate fell at all, and by the threshold or more."""
    return delta < -_EPSILON and delta <= -threshold + _EPSILON


def change_of(
    old: Sequence[Mapping[str, EvalTaskResult]], new: Sequence[Mapping[str, EvalTaskResult]]
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


def _passes(name: str, attempts: Sequence[Mapping[str, EvalTaskResult]]) -> tuple[int, int]:
    passed = sum(name in tasks and tasks[name].outcome is _PASSED for tasks in attempts)
    return passed, sum(name not in tasks or is_counted(tasks[name]) for tasks in attempts)
