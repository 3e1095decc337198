"""Reliability figures of each check of a scenario, from its repeats."""

from collections.abc import Iterator
from typing import TypeAlias

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import is_decided
from scouter.evaluate.results.counting import Ended, is_counted
from scouter.evaluate.results.reliability import WHOLE_SCENARIO, Reliability, reliability_of
from scouter.evaluate.results.run import RunResults

_Key: TypeAlias = tuple[str, str | None, str]
"""Scenario id, alias, task id."""
_Outcomes: TypeAlias = dict[_Key, dict[int, bool]]
"""Per check and attempt, whether it passed."""


def reliability(results: RunResults) -> tuple[Reliability, ...]:
    """Say for each check of a run how it did over the attempts.

    Args:
        results: The run. An attempt that raised passed none of its scenario's own tasks; an
            attempt in which an alias got no record did not pass the tasks of that alias.

    Returns:
        By scenario: the scenario as a whole, its own tasks, the tasks of its aliases. A scenario
        without own tasks is there as a whole only if an attempt raised; the others pass if no
        task of their records failed.

    Cost: linear in the number of task results, and `repeats` per check.
    """
    attempts = range(max(results.repeats, 1))
    outcomes: _Outcomes = {}
    left_out: set[tuple[_Key, int]] = set()
    for scenario_id in _only_raised(results):
        outcomes[scenario_id, None, WHOLE_SCENARIO] = dict.fromkeys(attempts, True)
    for key, attempt, task in _judged(results):
        if not is_counted(task):
            left_out.add((key, attempt))
            continue
        row = outcomes.setdefault(key, {})
        row[attempt] = row.get(attempt, True) and task.outcome is Outcome.PASSED
        whole = outcomes.get((key[0], None, WHOLE_SCENARIO), {})
        if attempt in whole:
            whole[attempt] = whole[attempt] and row[attempt]
    for result in results.scenario_results:
        key = (result.scenario_id, None, WHOLE_SCENARIO)
        if not is_decided(result):
            left_out.add((key, result.attempt))
            continue
        outcomes.setdefault(key, {})[result.attempt] = result.passed
    return tuple(
        reliability_of(
            *key,
            [
                outcomes[key].get(attempt, False)
                for attempt in attempts
                if attempt in outcomes[key] or (key, attempt) not in left_out
            ],
        )
        for key in _in_order(outcomes, results)
    )


def _only_raised(results: RunResults) -> set[str]:
    """Scenarios that are among the results only because an attempt raised."""
    names = {result.scenario_id for result in results.scenario_results}
    return names - {r.scenario_id for r in results.scenario_results if r.task_results}


def _in_order(outcomes: _Outcomes, results: RunResults) -> list[_Key]:
    places = {scenario_id: at for at, scenario_id in enumerate(results.scenario_ids)}
    aliases = {alias: at for at, alias in enumerate(results.dataset_results)}

    def place(key: _Key) -> tuple[int, int, bool]:
        scenario_id, alias, task_id = key
        at = -1 if alias is None else aliases[alias]
        return places.get(scenario_id, len(places)), at, task_id != WHOLE_SCENARIO

    return sorted(outcomes, key=place)


def _judged(results: RunResults) -> Iterator[tuple[_Key, int, Ended]]:
    for result in results.scenario_results:
        for task in result.task_results:
            yield (result.scenario_id, None, task.task_id), result.attempt, task
    for alias, dataset in results.dataset_results.items():
        for row in dataset:
            for task in row.record.tasks:
                yield (row.scenario_id or "", alias, task.task_id), row.attempt, task
