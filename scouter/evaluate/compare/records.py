"""Changes of the records of one alias."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scouter.evaluate.compare.counts import Change, Tally, change_of, fell
from scouter.evaluate.compare.data import MissingTask, Side, TaskComparison, WorkflowComparison
from scouter.evaluate.compare.pairing import Identity, Matched, Pair, Row, by_identity, name_of
from scouter.evaluate.compare.rows import ALL_TASKS
from scouter.evaluate.compare.strata import add_strata, add_strata_apart
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness

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
    errored: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and message of each record that errors now and did not before."""
    fallen: list[tuple[str, Change]] = field(default_factory=list[tuple[str, Change]])
    """Records that got worse beyond their flakiness; used where a run has repeats."""
    counts: "Counts"


def compare_records(
    matched: Matched,
    alias: str | None,
    threshold: float,
    scenarios: Collection[str] | None = None,
) -> RecordChanges:
    """Compare the records of one alias.

    Args:
        matched: The records of both runs, side by side.
        alias: Its name, if it has one.
        threshold: Smallest fall of a record's pass rate that counts.
        scenarios: Those that both runs ran, where that is known.

    Cost: linear in the number of task results.
    """
    counts = count_records(matched, alias, scenarios)
    found = RecordChanges(counts=counts, errored=_errored(matched))
    repeated = _over_attempts(matched) if matched.is_repeated else None
    for pair, rates in zip(matched.pairs, counts.rates, strict=True):
        change = None if repeated is None else repeated[pair.old.identity]
        workflow, improved = _workflow(pair, rates, change, threshold)
        found.workflows.append(workflow)
        found.improved += improved
        if pair.old.tasks.keys() != pair.now.tasks.keys():
            found.missing_tasks += _missing_tasks(pair, workflow.comparison_id)
            if pair.old.tasks and not pair.old.tasks.keys() & pair.now.tasks.keys():
                found.unrelated.append(workflow.comparison_id)
    if repeated is not None:
        found.fallen = [
            (name_of(rows[0]), repeated[identity])
            for identity, rows in by_identity(matched.old_rows).items()
            if repeated[identity].regressed(threshold) and not repeated[identity].is_unrelated
        ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The task results of two runs, counted."""

    tallies: Mapping[str, Tally]
    """Per task."""
    whole: Tally
    """All tasks."""
    rates: Sequence[tuple[float, float]]
    """Pass rates of each pair of records, before and now."""
    missing: Sequence[Row]
    """Records that should be there and are not."""


def count_records(
    matched: Matched, alias: str | None, scenarios: Collection[str] | None = None
) -> Counts:
    """Count what each task did, pair by pair.

    Args:
        matched: The records of both runs, side by side.
        alias: Their alias, if they have one.
        scenarios: Those that both runs ran, where that is known.

    Cost: linear in the number of task results.
    """
    paired, lost = matched.clusters()
    counter = _Counter(alias, is_clustered=len({*paired, *lost}) < len(paired) + len(lost))
    rates = [
        counter.add_pair(pair, cluster)
        for pair, cluster in zip(matched.pairs, paired, strict=True)
    ]  # fmt: skip
    missing = _gone(matched)
    gone = {row.key for row in missing}
    ran = None if scenarios is None else {None, *scenarios}
    for row, cluster in zip(matched.missing, lost, strict=True):
        is_ran = ran is None or row.identity.scenario_id in ran
        counter.add_old(row, cluster if row.key in gone and is_ran else None)
    for row in matched.left_out:
        counter.add_old(row, None)
    for row in matched.added:
        counter.add_new(row)
    counter.whole.add_counts(counter.tallies.values())
    if any(row.identity.scenario_id is not None for row in matched.old_rows):
        add_strata(matched, missing, counter.tallies, counter.whole, scenarios)
    elif not matched.pairs and matched.added:
        add_strata_apart(counter.tallies, counter.whole, matched)
    return Counts(tallies=counter.tallies, whole=counter.whole, rates=rates, missing=missing)


class _Counter:
    """Adds results to the tallies of their tasks."""

    def __init__(self, alias: str | None, *, is_clustered: bool) -> None:
        self._alias = alias
        self._is_clustered = is_clustered
        self.tallies: dict[str, Tally] = {}
        self.whole = Tally(alias, ALL_TASKS, is_clustered=True)

    def _of(self, task_id: str) -> Tally:
        tally = self.tallies.get(task_id)
        if tally is None:
            tally = Tally(self._alias, task_id, is_clustered=self._is_clustered)
            self.tallies[task_id] = tally
        return tally

    def add_pair(self, pair: Pair, cluster: Hashable) -> tuple[float, float]:
        """Count all tasks of a record that both runs have.

        Returns:
            Its pass rates before and now, over the tasks of the baseline; a task that counts in
            one run counts in both.
        """
        now_tasks = pair.now.tasks
        total = before = after = pairs = fell = rose = 0
        for name, was in pair.old.tasks.items():
            tally = self.tallies.get(name) or self._of(name)
            passed, counted = was.outcome is _PASSED, is_counted(was)
            before += passed
            now = now_tasks.get(name)
            if now is None:
                tally.add_old(passed, counted)
                if counted:
                    total += 1
                    pairs += 1
                    fell += passed
                    tally.add_missing(cluster, passed)
                continue
            passes, counts_now = now.outcome is _PASSED, is_counted(now)
            tally.add_twice(cluster, passed, counted, passes, counts_now)
            after += passes
            total += counted or counts_now
            if counted and counts_now:
                pairs += 1
                fell += passed and not passes
                rose += passes and not passed
        if pairs:
            self.whole.add_pairs(cluster, fell, rose, pairs)
        if now_tasks.keys() != pair.old.tasks.keys():
            for name, now in now_tasks.items():
                if name not in pair.old.tasks:
                    self._of(name).add_new(now.outcome is _PASSED, is_counted(now))
        return before / max(total, 1), after / max(total, 1)

    def add_old(self, row: Row, cluster: Hashable | None) -> None:
        """Count a record of the baseline; in a cluster if it is missing."""
        for name, task in row.tasks.items():
            tally, passed, counted = self._of(name), task.outcome is _PASSED, is_counted(task)
            tally.add_old(passed, counted)
            if cluster is not None and counted:
                tally.add_missing(cluster, passed)
                self.whole.add_pairs(cluster, int(passed), 0, 1)

    def add_new(self, row: Row) -> None:
        """Count a record that only the new run has."""
        for name, task in row.tasks.items():
            self._of(name).add_new(task.outcome is _PASSED, is_counted(task))


def _over_attempts(matched: Matched) -> dict[Identity, Change]:
    """Find the change of each record of the baseline, over all attempts of both runs."""
    now = by_identity(matched.new_rows)
    return {
        identity: change_of(
            [row.tasks for row in rows], [row.tasks for row in now.get(identity, ())]
        )
        for identity, rows in by_identity(matched.old_rows).items()
    }


def _workflow(
    pair: Pair, rates: tuple[float, float], change: Change | None, threshold: float
) -> tuple[WorkflowComparison, bool]:
    """Compare one record, and tell whether it improved.

    Args:
        pair: The record, or one attempt of it, in both runs.
        rates: Its pass rates before and now.
        change: That of all its attempts, in whose light one is seen; None without repeats.
        threshold: Smallest fall of the rate that counts.
    """
    (old, now), (before, after) = pair, rates
    was, tasks = old.tasks, now.tasks
    names = [name_of(row, with_attempt=change is not None) for row in pair]
    lost = tuple(
        name for name in was if name not in tasks and was[name].outcome is _PASSED
    )  # fmt: skip
    is_worse = bool(lost) or fell(after - before, threshold)
    is_better = fell(before - after, threshold)
    if change is not None:
        shows_it = any(
            name in was
            and was[name].outcome is _PASSED
            and (name not in tasks or tasks[name].outcome is not _PASSED)
            for name in (*change.fallen, *change.lost)
        )
        is_worse = shows_it and change.regressed(threshold)
        is_better = is_better and change.improved(threshold)
    workflow = WorkflowComparison(
        baseline_id=names[0],
        comparison_id=names[1],
        scenario_id=now.identity.scenario_id,
        ordinal=now.identity.ordinal,
        attempt=now.attempt,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        baseline_pass_rate=before,
        comparison_pass_rate=after,
        pass_rate_delta=after - before,
        is_regression=is_worse,
        task_comparisons=tuple(
            [
                _task(task, tasks[task_id], names[1])
                for task_id, task in was.items()
                if task_id in tasks
            ]
        ),
        lost_tasks=lost,
    )
    return workflow, is_better and not is_worse


def _task(old: EvalTaskResult, now: EvalTaskResult, record: str) -> TaskComparison:
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
    sides: list[tuple[Side, list[str]]] = [
        ("baseline_only", [task_id for task_id in old if task_id not in now]),
        ("comparison_only", [task_id for task_id in now if task_id not in old]),
    ]
    return [
        MissingTask(task_id=task_id, present_in=side, record_id=name)
        for side, ids in sides
        for task_id in ids
    ]


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
    errored_before = {row.identity for row in matched.old_rows if _has_error(row)}
    return [
        (name_of(row, with_attempt=matched.is_repeated), _error_message(row))
        for row in matched.new_rows
        if _has_error(row) and row.identity not in errored_before
    ]


def _has_error(row: Row) -> bool:
    return row.outcome is _ERRORED or any(t.outcome is _ERRORED for t in row.tasks.values())


def _error_message(row: Row) -> str:
    return next(
        (
            f"{task_id}: {task.message}"
            for task_id, task in row.tasks.items()
            if task.outcome is _ERRORED
        ),
        "no task could be judged",
    )
