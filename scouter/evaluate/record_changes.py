"""What became of the records of one alias."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scouter.evaluate.changes import Change, change_of, counts, fell
from scouter.evaluate.comparison_results import MissingTask, TaskComparison, WorkflowComparison
from scouter.evaluate.matching import Identity, Matched, Pair, Row, by_identity, name_of
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness
from scouter.evaluate.tallies import Judged, Tally

_PASSED: Final = Outcome.PASSED
_ERRORED: Final = Outcome.ERRORED


@dataclass(slots=True, kw_only=True)
class RecordChanges:
    """Everything that a comparison says of one alias' records."""

    workflows: list[WorkflowComparison] = field(default_factory=list[WorkflowComparison])
    improved: int = 0
    missing_tasks: list[MissingTask] = field(default_factory=list[MissingTask])
    unrelated: list[str] = field(default_factory=list[str])
    """Records of which no task is there again."""
    missing: list[Row] = field(default_factory=list[Row])
    """Records that should be there and are not."""
    errored: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and message of each record that errors now and did not before."""
    fallen: list[tuple[str, Change]] = field(default_factory=list[tuple[str, Change]])
    """With repeats: records that got worse beyond their flakiness."""
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """Per task."""


def compare_records(matched: Matched, alias: str | None, threshold: float) -> RecordChanges:
    """Compare the records of one alias.

    Args:
        matched: The records of both runs, side by side.
        alias: Its name, if it has one.
        threshold: Smallest fall of a record's pass rate that counts.

    Cost: linear in the number of task results.
    """
    found = RecordChanges()
    clusters = matched.cluster_of()
    repeated = _over_attempts(matched) if matched.is_repeated else None
    counter = _Counter(alias, found.tallies)
    for pair in matched.pairs:
        workflow, improved = _workflow(pair, matched, repeated, threshold)
        found.workflows.append(workflow)
        found.improved += improved
        counter.add_pair(pair, clusters[pair.old.key])
        if pair.old.tasks.keys() != pair.now.tasks.keys():
            found.missing_tasks += _missing_tasks(pair, workflow.comparison_id)
            if pair.old.tasks and not pair.old.tasks.keys() & pair.now.tasks.keys():
                found.unrelated.append(workflow.comparison_id)
    found.missing = _gone(matched)
    gone = {row.key for row in found.missing}
    for row in (*matched.missing, *matched.left_out):
        counter.add_old(row, clusters[row.key] if row.key in gone else None)
    for row in matched.added:
        counter.add_new(row)
    found.errored = _errored(matched)
    if repeated is not None:
        found.fallen = [
            (name_of(rows[0]), repeated[identity])
            for identity, rows in by_identity(matched.old_rows).items()
            if repeated[identity].regressed(threshold) and not repeated[identity].is_unrelated
        ]
    return found


class _Counter:
    """Adds results to the tallies of their tasks."""

    def __init__(self, alias: str | None, tallies: dict[str, Tally]) -> None:
        self._alias = alias
        self._tallies = tallies

    def _of(self, task_id: str) -> Tally:
        tally = self._tallies.get(task_id)
        if tally is None:
            tally = self._tallies[task_id] = Tally(self._alias, task_id)
        return tally

    def add_pair(self, pair: Pair, cluster: Hashable) -> None:
        """Count all tasks of a record that both runs have."""
        now_tasks = pair.now.tasks
        for name, was in pair.old.tasks.items():
            tally = self._tallies.get(name) or self._of(name)
            was_passed, was_counted = was.outcome is _PASSED, counts(was)
            tally.add_old(was_passed, was_counted)
            now = now_tasks.get(name)
            if now is None:
                if was_counted:
                    tally.add_missing(cluster, was_passed)
                continue
            now_passed, now_counted = now.outcome is _PASSED, counts(now)
            tally.add_new(now_passed, now_counted)
            if was_counted or now_counted:
                tally.add_both(was_passed, now_passed)
                if was_counted and now_counted:
                    tally.add_pair(cluster, was_passed, now_passed)
        if len(now_tasks) > len(pair.old.tasks) or now_tasks.keys() != pair.old.tasks.keys():
            for name, now in now_tasks.items():
                if name not in pair.old.tasks:
                    self._of(name).add_new(now.outcome is _PASSED, counts(now))

    def add_old(self, row: Row, cluster: Hashable | None) -> None:
        """Count a record of the baseline; in a cluster if it is missing."""
        for name, task in row.tasks.items():
            tally, passed, is_counted = self._of(name), task.outcome is _PASSED, counts(task)
            tally.add_old(passed, is_counted)
            if cluster is not None and is_counted:
                tally.add_missing(cluster, passed)

    def add_new(self, row: Row) -> None:
        """Count a record that only the new run has."""
        for name, task in row.tasks.items():
            self._of(name).add_new(task.outcome is _PASSED, counts(task))


def _over_attempts(matched: Matched) -> dict[Identity, Change]:
    """What became of each record of the baseline, over all attempts of both runs."""
    now = by_identity(matched.new_rows)
    return {
        identity: change_of(
            [row.tasks for row in rows], [row.tasks for row in now.get(identity, ())]
        )
        for identity, rows in by_identity(matched.old_rows).items()
    }


def _workflow(
    pair: Pair,
    matched: Matched,
    repeated: Mapping[Identity, Change] | None,
    threshold: float,
) -> tuple[WorkflowComparison, bool]:
    """Compare one record; and tell whether it improved."""
    old, now = pair
    tasks = now.tasks
    name = name_of(now, with_attempt=matched.is_repeated)
    before, after = _rates(old.tasks, tasks)
    lost = tuple(
        task_id
        for task_id, task in old.tasks.items()
        if task_id not in tasks and task.outcome is _PASSED
    )
    worse = bool(lost) or fell(after - before, threshold)
    better = not worse and fell(before - after, threshold)
    if repeated is not None:
        change = repeated[old.identity]
        dropped = any(
            task_id in old.tasks
            and old.tasks[task_id].outcome is _PASSED
            and (task_id not in tasks or tasks[task_id].outcome is not _PASSED)
            for task_id in (*change.fallen, *change.lost)
        )
        worse = change.regressed(threshold) and dropped
        better = better and change.improved(threshold)
    workflow = WorkflowComparison(
        baseline_id=name_of(old, with_attempt=matched.is_repeated),
        comparison_id=name,
        scenario_id=now.identity.scenario_id,
        ordinal=now.identity.ordinal,
        attempt=now.attempt,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        baseline_pass_rate=before,
        comparison_pass_rate=after,
        pass_rate_delta=after - before,
        is_regression=worse,
        task_comparisons=tuple(
            _task(task, tasks[task_id], name)
            for task_id, task in old.tasks.items()
            if task_id in tasks
        ),
        lost_tasks=lost,
    )
    return workflow, better


def _rates(old: Mapping[str, Judged], now: Mapping[str, Judged]) -> tuple[float, float]:
    """Rate of the baseline's tasks in both runs; one that counts in one run counts in both."""
    total = before = after = 0
    for name, was in old.items():
        task = now.get(name)
        if counts(was) or (task is not None and counts(task)):
            total += 1
            before += was.outcome is _PASSED
            after += task is not None and task.outcome is _PASSED
    return before / max(total, 1), after / max(total, 1)


def _task(old: Judged, now: Judged, record: str) -> TaskComparison:
    was, passes = old.outcome is _PASSED, now.outcome is _PASSED
    return TaskComparison(
        task_id=now.task_id,
        record_id=record,
        baseline_passed=was,
        comparison_passed=passes,
        status_changed=was is not passes,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        message=now.message,
    )


def _missing_tasks(pair: Pair, name: str) -> list[MissingTask]:
    old, now = pair.old.tasks, pair.now.tasks
    gone = [
        MissingTask(task_id=task_id, present_in="baseline_only", record_id=name)
        for task_id in old
        if task_id not in now
    ]
    new = [
        MissingTask(task_id=task_id, present_in="comparison_only", record_id=name)
        for task_id in now
        if task_id not in old
    ]
    return gone + new


def _gone(matched: Matched) -> list[Row]:
    """Records that the new run should have: those that came and went before come and go still."""
    if not matched.is_repeated:
        return list(matched.missing)
    tried, tries = matched.repeats
    before, now = by_identity(matched.old_rows), by_identity(matched.new_rows)
    gone: list[Row] = []
    for row in matched.missing:
        came = len(before[row.identity])
        comes = len(now.get(row.identity, ()))
        if came == tried or falls_beyond_flakiness(came, tried, comes, tries):
            gone.append(row)
    return gone


def _errored(matched: Matched) -> list[tuple[str, str]]:
    errored_before = {row.identity for row in matched.old_rows if row.outcome is _ERRORED}
    return [
        (name_of(row, with_attempt=matched.is_repeated), _error_message(row))
        for row in matched.new_rows
        if row.outcome is _ERRORED and row.identity not in errored_before
    ]


def _error_message(row: Row) -> str:
    return next(
        (
            f"{task_id}: {task.message}"
            for task_id, task in row.tasks.items()
            if task.outcome is _ERRORED
        ),
        "no task could be judged",
    )
