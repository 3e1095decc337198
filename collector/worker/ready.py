"""Things that a record waits for, and records whose wait is over."""

from dataclasses import dataclass
from enum import Enum

from collector.store.rows import Completeness, RecordRow, TaskRow
from collector.worker.profiles import RegisteredProfile
from scouter.evaluate.engine.plan import Plan, compile_plan, reads_spans


class Need(Enum):
    """Thing that a record has to wait for."""

    NOTHING = "nothing"
    TRACE = "trace"
    PROFILE = "profile"


def need_of(row: RecordRow, registered: RegisteredProfile | None) -> Need:
    """The thing that a record waits for.

    Args:
        row: The record.
        registered: Its profile.
    """
    if registered is None:
        return Need.PROFILE
    plan = registered.profile.plan
    reads = plan.reads_spans or row.is_derived or row.is_score
    reads |= row.lacks_session and plan.session is not None
    return Need.TRACE if reads and row.trace_id is not None else Need.NOTHING


@dataclass(slots=True, kw_only=True)
class Ready:
    """A record that waits no longer. Treat it as read-only, as the rows of the store."""

    record: RecordRow
    completeness: Completeness = Completeness.COMPLETE
    missing_parents: int = 0
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """The tasks that spans can change, with what they read from."""

    plan: Plan
    affected: frozenset[str]
    """Ids of the tasks that read spans or depend on one that does; the others' results stay."""
    order: tuple[str, ...]
    """Ids of all tasks, in the whole plan's order."""

    def merge(
        self, earlier: tuple[TaskRow, ...], again: tuple[TaskRow, ...]
    ) -> tuple[TaskRow, ...] | None:
        """Put results that stay beside those that were made again.

        Args:
            earlier: Results of the evaluation before.
            again: Results of `plan`.

        Returns:
            One result per task; None if the evaluation before has other tasks.
        """
        found = {task.task_id: task for task in earlier}
        if found.keys() != set(self.order):
            return None
        found |= {task.task_id: task for task in again if task.task_id in self.affected}
        return tuple(found[task_id] for task_id in self.order)


def rerun_all(plan: Plan) -> Rerun:
    """Let every task run again."""
    ids = tuple(task.id for task in plan.tasks)
    return Rerun(plan=plan, affected=frozenset(ids), order=ids)


def rerun_of(plan: Plan) -> Rerun:
    """Find what spans can change.

    Cost: linear in tasks and dependencies.
    """
    affected: set[int] = set()
    for step in plan.steps:
        for at in step:
            if reads_spans(plan.tasks[at]) or not affected.isdisjoint(plan.dependencies[at]):
                affected.add(at)
    needed = set(affected)
    for step in reversed(plan.steps):
        for at in needed.intersection(step):
            needed.update(plan.dependencies[at])
    return Rerun(
        plan=compile_plan(plan.tasks[at] for at in sorted(needed)),
        affected=frozenset(plan.tasks[at].id for at in affected),
        order=tuple(task.id for task in plan.tasks),
    )
