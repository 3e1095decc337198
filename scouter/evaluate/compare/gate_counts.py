"""Task results with their places, and the counts of them that gates are held against."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple, Protocol

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.counting import Ended, is_counted
from scouter.evaluate.results.run import RunResults

BROKEN: Final = "(broken scenarios)"
"""Name under which attempts are counted that raised or took too long."""


class TaskEnded(Ended, Protocol):
    """Fields of a task result that reports show."""

    @property
    def task_id(self) -> str:
        """The task's id."""
        ...

    @property
    def message(self) -> str:
        """The outcome in words."""
        ...

    @property
    def score(self) -> float | None:
        """The number beside the outcome; None where there is none."""
        ...


class TaskRow(NamedTuple):
    """One task result with its place."""

    scenario_id: str | None
    """None for a record that belongs to no scenario."""
    attempt: int
    """Number of the attempt, from 0."""
    alias: str
    """Empty for a scenario's own task."""
    record: str
    """The record's id, or else its uid; empty for a scenario's own task."""
    task: TaskEnded


class _Group(NamedTuple):
    """The results of one record, or of a scenario's own tasks in one attempt."""

    scenario_id: str | None
    attempt: int
    alias: str
    record: str
    tasks: Sequence[TaskEnded]


class TaskCount(NamedTuple):
    """The results of one task."""

    alias: str
    """Empty for a scenario's own task."""
    task_id: str
    passed: int
    total: int
    """Number of results that belong into a pass rate."""


def task_rows(results: RunResults) -> Iterator[TaskRow]:
    """Give every task result of a run: alias by alias, last the scenarios' own.

    Cost: linear in the number of task results.
    """
    for scenario_id, attempt, alias, record, tasks in _groups(results):
        for task in tasks:
            yield TaskRow(scenario_id, attempt, alias, record, task)


def count_tasks(
    results: RunResults, scenario_ids: Collection[str] | None = None
) -> list[TaskCount]:
    """Count the results of each task.

    Args:
        results: The run.
        scenario_ids: Only of these scenarios; all by default.

    Returns:
        By alias, then by task; last the scenarios' own tasks. An attempt that raised and has no
        errored task is one failure more, under `BROKEN`.

    Cost: linear in the number of task results.
    """
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for scenario_id, _, alias, _, tasks in _groups(results):
        if scenario_ids is None or scenario_id in scenario_ids:
            for task in tasks:
                key = alias, task.task_id
                passed, total = counts.get(key, (0, 0))
                passed += task.outcome is Outcome.PASSED
                counts[key] = passed, total + is_counted(task)
    broken = sum(
        is_broken(result)
        for result in results.scenario_results
        if scenario_ids is None or result.scenario_id in scenario_ids
    )
    if broken:
        counts["", BROKEN] = 0, broken
    return [TaskCount(*key, *count) for key, count in counts.items()]


def add_up(counts: Iterable[TaskCount]) -> tuple[int, int]:
    """Add counts up: passed, and all."""
    found = list(counts)
    return sum(each.passed for each in found), sum(each.total for each in found)


def is_broken(result: ScenarioAttempt) -> bool:
    """Tell whether an attempt raised or took too long, and no task of its own says so."""
    has_errored_task = any(task.outcome is Outcome.ERRORED for task in result.task_results)
    return result.outcome is Outcome.ERRORED and not has_errored_task


def _groups(results: RunResults) -> Iterator[_Group]:
    for alias, found in results.dataset_results.items():
        names, attempts = found.scenario_ids or repeat(None), found.attempts or repeat(0)
        for record, scenario_id, attempt in zip(found.records, names, attempts, strict=False):
            name = record.record_id or record.record_uid
            yield _Group(scenario_id, attempt, alias, name, record.tasks)
    for result in results.scenario_results:
        yield _Group(result.scenario_id, result.attempt, "", "", result.task_results)
