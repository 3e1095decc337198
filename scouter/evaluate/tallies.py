"""Counting two runs: what each task did, pair by pair and conversation by conversation."""

from collections.abc import Hashable, Iterable
from typing import Protocol

from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.statistics.clustered import Cluster


class Judged(Protocol):
    """What a comparison reads of a task's result."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def outcome(self) -> Outcome:
        """One of four."""
        ...

    @property
    def reason(self) -> Reason | None:
        """Why it errored or was skipped."""
        ...

    @property
    def message(self) -> str:
        """What happened, in words."""
        ...


class Tally:
    """One task in both runs.

    Args:
        alias: The alias, or None for tasks of scenarios.
        task_id: The task, or the name of a sum.
        parts: Tasks that a sum is over; 1 for a task.
    """

    __slots__ = (
        "alias", "both", "both_after", "both_before", "changed", "clusters", "missing",
        "new_count", "new_passed", "old_count", "old_passed", "parts", "task_id",
    )  # fmt: skip

    def __init__(self, alias: str | None, task_id: str, parts: int = 1) -> None:
        self.alias = alias
        self.task_id = task_id
        self.parts = parts
        self.old_passed = self.old_count = self.new_passed = self.new_count = 0
        self.both = self.both_before = self.both_after = self.changed = 0
        self.missing = 0
        self.clusters: dict[Hashable, list[int]] = {}
        """Per conversation: falls, rises, pairs."""

    def add_old(self, passed: bool, is_counted: bool) -> None:
        """Count a result of the baseline."""
        self.old_passed += passed
        self.old_count += is_counted

    def add_new(self, passed: bool, is_counted: bool) -> None:
        """Count a result of the new run."""
        self.new_passed += passed
        self.new_count += is_counted

    def add_both(self, was: bool, now: bool) -> None:
        """Count a record that both runs judged."""
        self.both += 1
        self.both_before += was
        self.both_after += now
        self.changed += was is not now

    def add_pair(self, cluster: Hashable, was: bool, now: bool) -> None:
        """Count two results that belong together."""
        found = self.clusters.get(cluster)
        if found is None:
            found = self.clusters[cluster] = [0, 0, 0]
        found[2] += 1
        if was is not now:
            found[now] += 1

    def add_missing(self, cluster: Hashable, was: bool) -> None:
        """Count a result that the new run lacks: it did not pass."""
        self.missing += 1
        self.add_pair(cluster, was, False)

    def cluster_counts(self) -> list[Cluster]:
        """The pairs of each conversation."""
        return [Cluster(*counts) for counts in self.clusters.values()]


def sum_of(alias: str | None, task_id: str, tallies: Iterable[Tally]) -> Tally:
    """Sum tasks up; what belongs to one conversation stays together."""
    parts = list(tallies)
    total = Tally(alias, task_id, len(parts))
    for part in parts:
        total.old_passed += part.old_passed
        total.old_count += part.old_count
        total.new_passed += part.new_passed
        total.new_count += part.new_count
        total.missing += part.missing
        for cluster, counts in part.clusters.items():
            found = total.clusters.get(cluster)
            if found is None:
                total.clusters[cluster] = list(counts)
            else:
                found[0] += counts[0]
                found[1] += counts[1]
                found[2] += counts[2]
    return total
