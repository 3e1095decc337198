"""Tallies: the results of one task under one version of an agent, and how they compare."""

from collections.abc import Sequence
from dataclasses import dataclass

from scouter.drift.series.group import Group
from scouter.drift.series.series import Kind
from scouter.evaluate.intervals import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The results of one task, or of the whole record, since its version began."""

    version: str
    passed: int
    failed: int
    errored: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.errored

    @property
    def rate(self) -> float:
        """Share that passed; there is one result at least."""
        return self.passed / self.total

    def is_below(self, other: "Tally") -> bool:
        """Tell whether it passed less: the 95 % intervals of the two rates are apart."""
        return wilson(self.passed, self.total)[1] < wilson(other.passed, other.total)[0]

    @staticmethod
    def of(group: Group, task: str) -> "Tally | None":
        """Count a task of a version; None where it has no result.

        Args:
            group: The version.
            task: Empty for the whole record.
        """
        passes, errors = (group.series.get((task, kind)) for kind in (Kind.PASS, Kind.ERROR))
        decided, failed = (passes.records, passes.failed) if passes else (0, 0)
        errored = errors.failed if errors else 0
        if not decided + errored:
            return None
        return Tally(
            version=group.agent.version, passed=decided - failed, failed=failed, errored=errored
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFall:
    """A task that passes less in a version than in the one before."""

    task: str
    """Empty for the whole record."""
    now: Tally
    before: Tally


def falls_of(group: Group) -> Sequence[TaskFall]:
    """The whole record, then its tasks, that pass less than in the version before, worst first."""
    if group.before is None:
        return ()
    found: list[TaskFall] = []
    for task in dict.fromkeys(task for task, _ in group.series):
        now, before = Tally.of(group, task), Tally.of(group.before, task)
        if now is not None and before is not None and now.is_below(before):
            found.append(TaskFall(task=task, now=now, before=before))
    return sorted(found, key=lambda each: (each.task != "", each.now.rate - each.before.rate))
