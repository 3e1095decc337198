"""Required scenarios and tasks: a single attempt that does not pass stops a release."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.compare.attempts import attempts_of
from scouter.evaluate.compare.gate_counts import TaskRow, task_rows
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.run import RunResults

_NO_MISS: Final = frozenset({Reason.SAMPLED, Reason.NOT_APPLICABLE})
"""Reasons of skips that say nothing of what is required."""
_MESSAGE: Final = 300
"""Characters of a message that a reason keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An attempt in which something required did not pass."""

    scenario_id: str | None
    """None for a record that belongs to no scenario."""
    text: str
    """Attempt, record, task and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """A required scenario or task in a run."""

    name: str
    """`required scenario 'x'` or `required task 'y'`."""
    unit: str
    """`attempts` of a scenario, `results` of a task."""
    total: int
    """Number of these attempts or results."""
    misses: tuple[Miss, ...]
    """Attempts or results that did not pass."""

    @property
    def is_met(self) -> bool:
        """True if there was something, and all of it passed."""
        return self.total > 0 and not self.misses


def required_of(results: RunResults) -> tuple[Required, ...]:
    """Look at everything that the scenarios and the profiles of a run require.

    A required scenario is met if every attempt of it passed as a whole. A required task is met if
    it passed wherever it was run. There, failed and errored results are misses, and so are those
    that a gate or the budget skipped; results that were not sampled, and
    those of a task that did not apply, count neither way.

    Args:
        results: The run, which knows what is required.

    Returns:
        The required scenarios in the run's order, then the required tasks, each id once.

    Cost: linear in the number of task results; constant if nothing is required.
    """
    scenarios = [each.scenario_id for each in results.scenarios if each.required]
    own: dict[str | None, tuple[str, ...]] = {
        each.scenario_id: each.required_tasks for each in results.scenarios
    }
    by_place = [*results.required_tasks.values(), *own.values()]
    tasks = dict.fromkeys(task_id for required in by_place for task_id in required)
    if not scenarios and not tasks:
        return ()

    def is_required(row: TaskRow) -> bool:
        whose = results.required_tasks.get(row.alias) if row.alias else own.get(row.scenario_id)
        return row.task.task_id in (whose or ())

    rows = list(task_rows(results))
    of_tasks = filter(is_required, rows)
    return (*_scenarios(results, scenarios, rows), *_tasks(results, tasks, of_tasks))


def _scenarios(
    results: RunResults, required: Sequence[str], rows: Iterable[TaskRow]
) -> Iterator[Required]:
    if not required:
        return
    attempts, causes = attempts_of(results), _causes(results, rows)
    for scenario_id in required:
        found = attempts.get(scenario_id, [])
        yield Required(
            name=f"required scenario {scenario_id!r}",
            unit="attempts",
            total=len(found),
            misses=tuple(
                Miss(
                    scenario_id=scenario_id,
                    text=_joined(
                        _nth(results, each.attempt),
                        end=causes.get((scenario_id, each.attempt), "nothing was judged"),
                    ),
                )
                for each in found
                if not each.passed
            ),
        )


def _causes(results: RunResults, rows: Iterable[TaskRow]) -> Mapping[tuple[str | None, int], str]:
    """Say why attempts did not pass: an exception, or else the first task that says so."""
    causes: dict[tuple[str | None, int], str] = {
        (each.scenario_id, each.attempt): shorten(each.error_line, _MESSAGE)
        for each in results.scenario_results
        if each.error
    }
    # The scenario's own tasks come first, and skipped ones last: the gate before them says more.
    ordered = sorted(rows, key=lambda row: (row.task.outcome is Outcome.SKIPPED, bool(row.alias)))
    for row in ordered:
        if _is_miss(row):
            text = _joined(_record(row), f"task {row.task.task_id!r}", end=_ended(row))
            causes.setdefault((row.scenario_id, row.attempt), text)
    return causes


def _tasks(
    results: RunResults, required: Iterable[str], rows: Iterable[TaskRow]
) -> Iterator[Required]:
    found: dict[str, list[TaskRow]] = {task_id: [] for task_id in required}
    for row in rows:
        if row.task.reason not in _NO_MISS:
            found[row.task.task_id].append(row)
    for task_id, results_of in found.items():
        yield Required(
            name=f"required task {task_id!r}",
            unit="results",
            total=len(results_of),
            misses=tuple(
                Miss(
                    scenario_id=row.scenario_id,
                    text=_joined(
                        f"scenario {row.scenario_id!r}" if row.scenario_id else "",
                        _nth(results, row.attempt),
                        _record(row),
                        end=_ended(row),
                    ),
                )
                for row in results_of
                if _is_miss(row)
            ),
        )


def _is_miss(row: TaskRow) -> bool:
    outcome = row.task.outcome
    return outcome is not Outcome.PASSED and row.task.reason not in _NO_MISS


def _joined(*parts: str, end: str) -> str:
    place = ", ".join(filter(None, parts))
    return f"{place}: {end}" if place else end


def _nth(results: RunResults, attempt: int) -> str:
    return f"attempt {attempt + 1} of {results.repeats}" if results.repeats > 1 else ""


def _record(row: TaskRow) -> str:
    return f"alias {row.alias!r}, record {row.record!r}" if row.alias else ""


def _ended(row: TaskRow) -> str:
    message = shorten(row.task.message, _MESSAGE)
    return f"{row.task.outcome}: {message}" if message else str(row.task.outcome)
