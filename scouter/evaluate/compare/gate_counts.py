"""Attempts and task results as gates count them, and the scenarios and tasks that may not fail."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from scouter.evaluate.compare.rows import ENOUGH
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import AttemptKey, ScenarioAttempt, Seen, seen_attempts
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import EvalTaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of one scenario."""

    scenario_id: str
    attempt: int
    """Number of the repeat, from 0."""
    outcome: Outcome
    """`passed` if it ran to the end and nothing in it failed or errored: neither a task of its own
    nor a task of a record that it left; `skipped` if nobody knows, as nothing in it gave a result
    or a judge was not called for its budget."""
    is_errored: bool
    """True if it raised or took too long, or if a task in it errored."""
    is_unanswered: bool = False
    """True if it did not pass for judges alone, none of which gave an answer."""

    @property
    def passed(self) -> bool | None:
        """True if it passed; None if nobody knows."""
        return None if self.outcome is Outcome.SKIPPED else self.outcome is Outcome.PASSED


def attempts_of(
    results: RunResults,
    baseline: RunResults | None = None,
    aliases: Collection[str] | None = None,
) -> dict[str, list[Attempt]]:
    """List the attempts of a run, and say of each whether it passed.

    Args:
        results: The run.
        baseline: The other run, if there is one: where every attempt of a scenario left a record
            for an alias there, an attempt that leaves none here did not pass.
        aliases: Those that count for this; all by default.

    Returns:
        By scenario, in the order of attempts; every scenario that was run is there.

    Cost: linear in the number of task results.
    """
    seen = _look(results)
    usual = {} if baseline is None else _usual_aliases(_look(baseline))
    found: dict[str, list[Attempt]] = {}
    for key in sorted(seen, key=lambda each: each.attempt):
        one = seen[key]
        wanted = usual.get(key.scenario_id, set())
        if aliases is not None:
            wanted = wanted.intersection(aliases)
        found.setdefault(key.scenario_id, []).append(
            Attempt(
                scenario_id=key.scenario_id,
                attempt=key.attempt,
                outcome=one.outcome(lacks_alias=not wanted <= one.aliases),
                is_errored=one.has_errored,
                is_unanswered=one.is_unanswered,
            )
        )
    return {name: found[name] for name in dict.fromkeys(key.scenario_id for key in seen)}


def scenarios_passed(results: RunResults) -> tuple[int, int]:
    """Count the scenarios that passed: every attempt with a decision passed.

    Returns:
        Number of scenarios that passed, and number of those with a decided attempt.

    Cost: linear in the number of task results.
    """
    return count_passed(attempts_of(results))


def count_passed(attempts: Mapping[str, Sequence[Attempt]]) -> tuple[int, int]:
    """Count as `scenarios_passed` does, from what `attempts_of` gave."""
    decided = [found for each in attempts.values() if (found := _decided(each))]
    return sum(map(all, decided)), len(decided)


def flipped(
    old: Mapping[str, Sequence[Attempt]], new: Mapping[str, Sequence[Attempt]]
) -> list[str]:
    """Name the scenarios that passed in every attempt of the baseline and in none now."""
    return [
        name
        for name, attempts in new.items()
        if (before := _decided(old.get(name, ())))
        and (now := _decided(attempts))
        and all(before)
        and not any(now)
    ]


def _decided(attempts: Sequence[Attempt]) -> list[bool]:
    return [attempt.passed for attempt in attempts if attempt.passed is not None]


def _look(results: RunResults) -> dict[AttemptKey, Seen]:
    """Every attempt that was made, by scenario and number, with what is known of it."""
    made = {
        AttemptKey(scenario_id, attempt): Seen()
        for scenario_id in results.scenario_ids
        for attempt in range(results.repeats)
    }
    return made | seen_attempts(results.dataset_results, results.scenario_results)


def _usual_aliases(seen: dict[AttemptKey, Seen]) -> dict[str, set[str]]:
    """Per scenario, the aliases that each of its attempts left a record for."""
    usual: dict[str, set[str]] = {}
    for key, one in seen.items():
        known = usual.get(key.scenario_id)
        usual[key.scenario_id] = set(one.aliases) if known is None else known & one.aliases
    return usual


BROKEN: Final = "(broken scenarios)"
"""Name under which attempts are counted that raised or took too long."""


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
    task: EvalTaskResult


class TaskCount(NamedTuple):
    """The results of one task."""

    alias: str
    """Empty for a scenario's own task."""
    task_id: str
    passed: int
    total: int
    """Number of results that belong into a pass rate."""
    conversations: int = 0
    """Scenarios, or else sessions, that these are from."""
    mean: float | None = None
    """Mean of the scores of a task that only measures: all its results pass, and its rate says
    nothing."""

    @property
    def has_interval(self) -> bool:
        """True if enough conversations stand behind the rate to show an interval."""
        return self.conversations >= ENOUGH


def task_rows(results: RunResults) -> Iterator[TaskRow]:
    """Give every task result of a run: alias by alias, last the scenarios' own.

    Cost: linear in the number of task results.
    """
    for alias, rows in results.parts:
        for row in rows:
            name = "" if alias is None else row.record_id or row.record_uid
            for task in row.record.tasks:
                yield TaskRow(row.scenario_id, row.attempt, alias or "", name, task)


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
    found: dict[tuple[str, str], list[EvalTaskResult]] = {}
    behind: dict[tuple[str, str], set[str]] = {}
    for alias, rows in results.parts:
        for row in rows:
            if scenario_ids is None or row.scenario_id in scenario_ids:
                name = row.scenario_id or row.record.session_id or row.record_uid
                for task in row.record.tasks:
                    key = alias or "", task.task_id
                    counted, names = found.setdefault(key, []), behind.setdefault(key, set())
                    if is_counted(task):
                        counted.append(task)
                        names.add(name)
    counts = [_count(*key, tasks, len(behind[key])) for key, tasks in found.items()]
    broken = sum(
        is_broken(result)
        for result in results.scenario_results
        if scenario_ids is None or result.scenario_id in scenario_ids
    )
    return [*counts, *([TaskCount("", BROKEN, 0, broken)] if broken else [])]


def _count(
    alias: str, task_id: str, tasks: Sequence[EvalTaskResult], conversations: int
) -> TaskCount:
    is_measure = bool(tasks) and tasks[0].is_measure
    scores = [task.score for task in tasks if task.score is not None] if is_measure else []
    passed = sum(task.passed for task in tasks)
    mean = fmean(scores) if scores else None
    return TaskCount(alias, task_id, passed, len(tasks), conversations, mean)


def add_up(counts: Iterable[TaskCount]) -> tuple[int, int]:
    """Add counts up: passed, and all."""
    found = list(counts)
    return sum(each.passed for each in found), sum(each.total for each in found)


def unended(results: RunResults, alias: str, task_id: str | None = None) -> TaskCount:
    """Count the attempts that did not run to their end and of which nothing there says so.

    Each is one failure more among the results of an alias, or of one of its tasks: nobody knows
    what the records that it did not leave would have shown.

    Args:
        results: The run.
        alias: The alias.
        task_id: The task; None for all tasks of the alias.

    Cost: linear in the number of task results.
    """
    keys = {(each.scenario_id, each.attempt) for each in results.scenario_results if each.error}
    for row in task_rows(results) if keys else ():
        is_it = row.alias == alias and task_id in (None, row.task.task_id)
        if is_it and row.task.outcome is Outcome.ERRORED and row.scenario_id is not None:
            keys.discard((row.scenario_id, row.attempt))
    return TaskCount(alias, BROKEN, 0, len(keys))


def is_broken(result: ScenarioAttempt) -> bool:
    """Tell whether an attempt raised or took too long, and no task of its own says so."""
    has_errored_task = any(task.outcome is Outcome.ERRORED for task in result.task_results)
    return result.outcome is Outcome.ERRORED and not has_errored_task


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
