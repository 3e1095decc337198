"""A replay in a few numbers."""

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import BaseModel

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import ScenarioAttempt, is_decided, seen_attempts
from scouter.evaluate.results.counting import is_counted, rate_of
from scouter.evaluate.results.rows import ResultRows


class RunMetrics(BaseModel, frozen=True, extra="ignore"):
    """A replay in a few numbers; every rate is in [0, 1].

    Rates of tasks are `passed / (passed + failed + errored + skipped by a gate)`, here as
    everywhere: a closed gate cannot hide the tasks behind it. In a run with repeats every
    attempt counts as one in the rates of tasks; a scenario passed if each of its attempts did.
    """

    overall_pass_rate: float
    """Mean of all `dataset_pass_rates` and, if a scenario has tasks of its own or raised, of
    `scenario_pass_rate`; 0 if there is nothing of either."""
    workflow_pass_rate: float
    """Mean of all `dataset_pass_rates`; 0 without any."""
    dataset_pass_rates: dict[str, float]
    """Per alias: the rate of all tasks of all records of all attempts. An alias is left out if none
    of its tasks is in a rate, as all were skipped for the budget or not sampled."""
    scenario_pass_rate: float
    """`passed_scenarios` / `total_scenarios`; 0 if no scenario was decided."""
    total_scenarios: int
    """Scenarios of which an attempt was decided, by tasks of their own or of their records."""
    passed_scenarios: int
    """Scenarios among them of which every decided attempt passed."""
    scenario_task_pass_rates: dict[str, dict[str, float]]
    """Per scenario and task: the share of its attempts in which it passed, of those in which the
    task is in a rate."""

    @classmethod
    def of(
        cls, dataset_results: Mapping[str, ResultRows], attempts: Sequence[ScenarioAttempt]
    ) -> Self:
        """Compute the metrics of a replay.

        Args:
            dataset_results: Per alias, its records' results.
            attempts: The attempts that count.
        """
        tasks_of = {
            alias: [task for record in results.records for task in record.tasks]
            for alias, results in dataset_results.items()
        }
        rates = {
            alias: rate_of(tasks)
            for alias, tasks in tasks_of.items()
            if not tasks or any(map(is_counted, tasks))
        }
        passed, total = _scenarios_passed(dataset_results, attempts)
        scenario_rate = passed / total if total else 0.0
        parts = [*rates.values(), *([scenario_rate] if any(map(is_decided, attempts)) else [])]
        values_by_scenario: dict[str, dict[str, list[float]]] = {}
        for result in attempts:
            tasks = values_by_scenario.setdefault(result.scenario_id, {})
            for task in filter(is_counted, result.task_results):
                tasks.setdefault(task.task_id, []).append(task.value)
        return cls(
            overall_pass_rate=_mean(parts),
            workflow_pass_rate=_mean(list(rates.values())),
            dataset_pass_rates=rates,
            scenario_pass_rate=scenario_rate,
            total_scenarios=total,
            passed_scenarios=passed,
            scenario_task_pass_rates={
                scenario_id: {task_id: _mean(values) for task_id, values in tasks.items()}
                for scenario_id, tasks in values_by_scenario.items()
            },
        )


def _scenarios_passed(
    dataset_results: Mapping[str, ResultRows], attempts: Sequence[ScenarioAttempt]
) -> tuple[int, int]:
    found: dict[str, set[Outcome]] = {}
    for key, one in seen_attempts(dataset_results, attempts).items():
        if (outcome := one.outcome()) is not Outcome.SKIPPED:
            found.setdefault(key.scenario_id, set()).add(outcome)
    return sum(outcomes == {Outcome.PASSED} for outcomes in found.values()), len(found)


def _mean(rates: Sequence[float]) -> float:
    return sum(rates) / len(rates) if rates else 0.0
