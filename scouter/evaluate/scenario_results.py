"""What a replay gives back: per alias, per scenario, and summed up."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue, PlainSerializer, PlainValidator

from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.provenance import Provenance
from scouter.evaluate.results import EvalResults, MissingKeyError, pass_rate, record_outcome
from scouter.evaluate.stored import Stored
from scouter.evaluate.task_result import EvalTaskResult

if TYPE_CHECKING:
    from scouter.evaluate.comparison_results import ScenarioComparisonResults


def _read(value: object) -> EvalResults:
    if isinstance(value, EvalResults):
        return value
    return EvalResults.model_validate_json(json.dumps(value))


def _write(results: EvalResults) -> JsonValue:
    return results.model_dump()


JsonEvalResults = Annotated[EvalResults, PlainValidator(_read), PlainSerializer(_write)]
"""Results of one dataset as a field of a model that can be stored."""


class Ended(Protocol):
    """What a rate needs to know of a task's result."""

    @property
    def outcome(self) -> Outcome:
        """One of four."""
        ...

    @property
    def reason(self) -> Reason | None:
        """Why it errored or was skipped."""
        ...


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class EvalMetrics(_Part):
    """A replay in a few numbers; every rate is in [0, 1].

    Rates of tasks are `passed / (passed + failed + errored + skipped by a gate)`, here as
    everywhere: a closed gate cannot hide the tasks behind it.
    """

    overall_pass_rate: float
    """Mean of all `dataset_pass_rates` and, if a scenario has tasks, `scenario_pass_rate`."""
    workflow_pass_rate: float
    """Mean of all `dataset_pass_rates`; 0 without records."""
    dataset_pass_rates: dict[str, float]
    """Per alias: the rate of all tasks of all records."""
    scenario_pass_rate: float
    """`passed_scenarios` / `total_scenarios`; 0 if no scenario has tasks."""
    total_scenarios: int
    """Scenarios with tasks of their own."""
    passed_scenarios: int
    """Those of them whose every task passed."""
    scenario_task_pass_rates: dict[str, dict[str, float]]
    """Per scenario and task: 1.0 if it passed, else 0.0."""


class TaskSummary(_Part):
    """How one task of a scenario ended."""

    task_id: str
    passed: bool
    value: float
    outcome: Outcome
    reason: Reason | None = None
    message: str = ""


class ScenarioResult(_Part):
    """How one scenario ended.

    `passed` and `pass_rate` are about the scenario's own tasks. A scenario without any is judged
    by the tasks of the records that it produced (see `ScenarioEvalResults.get_scenario_detail`).
    """

    scenario_id: str
    initial_query: str
    outcome: Outcome
    passed: bool
    pass_rate: float
    task_results: tuple[TaskSummary, ...]
    eval_results: JsonEvalResults | None = None
    """The full results of the scenario's own tasks."""


class ScenarioInfo(_Part):
    """One scenario that was run, with tasks or without."""

    scenario_id: str
    initial_query: str


class ScenarioEvalResults(Stored):
    """All results of one replay."""

    dataset_results: dict[str, JsonEvalResults]
    """Per alias, one row for each record of any scenario."""
    scenario_results: tuple[ScenarioResult, ...]
    """Scenarios with tasks of their own, in the order in which they ran."""
    metrics: EvalMetrics
    scenarios: tuple[ScenarioInfo, ...] = ()
    """Every scenario that was run."""
    provenance: Provenance = Provenance()

    @property
    def scenario_ids(self) -> list[str]:
        """Ids of every scenario that was run."""
        return [scenario.scenario_id for scenario in self.scenarios]

    def get_scenario_detail(self, scenario_id: str) -> ScenarioResult:
        """Look one scenario up.

        Args:
            scenario_id: Any scenario of the run. One without tasks is summed up from the records
                that it produced: passed if all of them did and there is one.

        Raises:
            MissingKeyError: There was no such scenario; names those there were.

        Cost: linear in the number of scenarios, and of records for one without tasks.
        """
        for result in self.scenario_results:
            if result.scenario_id == scenario_id:
                return result
        for scenario in self.scenarios:
            if scenario.scenario_id == scenario_id:
                return scenario_result(
                    scenario_id, scenario.initial_query, self._records_of(scenario_id)
                )
        known = ", ".join(map(repr, self.scenario_ids[:20])) or "none"
        raise MissingKeyError(f"Missing key: {scenario_id}; the scenarios are {known}")

    def _records_of(self, scenario_id: str) -> list[EvalTaskResult]:
        return [
            task
            for results in self.dataset_results.values()
            for aligned in results.aligned_results
            if aligned.scenario_id == scenario_id
            for task in aligned.eval_set.records
        ]

    def compare_to(
        self, baseline: "ScenarioEvalResults", regression_threshold: float = 0.05
    ) -> "ScenarioComparisonResults":
        """Hold this run against an earlier one.

        Args:
            baseline: The earlier run.
            regression_threshold: Smallest fall of a pass rate that counts, in [0, 1].

        Raises:
            ValueError: The threshold is not in [0, 1].
        """
        from scouter.evaluate.compare import compare_scenario_results  # it reads this module

        return compare_scenario_results(baseline, self, regression_threshold)

    def as_table(self, show_workflow: bool = False) -> None:
        """Print the results to standard output.

        Args:
            show_workflow: Also one table per alias with a row for each record.
        """
        from scouter.evaluate.tables import print_scenario_results  # rich loads when needed

        print_scenario_results(self, show_workflow=show_workflow)


def scenario_result(
    scenario_id: str,
    initial_query: str,
    tasks: Sequence[EvalTaskResult],
    eval_results: EvalResults | None = None,
) -> ScenarioResult:
    """Sum a scenario up from task results."""
    outcome = record_outcome(tasks)
    return ScenarioResult(
        scenario_id=scenario_id,
        initial_query=initial_query,
        outcome=outcome,
        passed=outcome is Outcome.PASSED,
        pass_rate=rate_of(tasks),
        task_results=tuple(
            TaskSummary(
                task_id=task.task_id,
                passed=task.passed,
                value=task.value,
                outcome=task.outcome,
                reason=task.reason,
                message=task.message,
            )
            for task in tasks
        ),
        eval_results=eval_results,
    )


def is_counted(task: Ended) -> bool:
    """Tell whether a task belongs into a pass rate: it was judged, or a gate kept it from that.

    A skipped task without a reason comes from a file of a time when gates were the only reason.
    """
    return task.outcome is not Outcome.SKIPPED or task.reason in {None, Reason.GATE}


def rate_of(tasks: Iterable[Ended]) -> float:
    """Compute the `pass_rate` of those tasks that count."""
    return pass_rate(Counter(task.outcome for task in tasks if is_counted(task)))


def sum_up(
    dataset_results: Mapping[str, EvalResults], scenario_results: Sequence[ScenarioResult]
) -> EvalMetrics:
    """Compute the metrics of a replay.

    Args:
        dataset_results: Per alias, its records' results.
        scenario_results: The scenarios with tasks of their own.
    """
    rates = {
        alias: rate_of(task for record in results.records for task in record.tasks)
        for alias, results in dataset_results.items()
    }
    passed = sum(result.passed for result in scenario_results)
    total = len(scenario_results)
    scenario_rate = passed / total if total else 0.0
    parts = [*rates.values(), *([scenario_rate] if total else [])]
    return EvalMetrics(
        overall_pass_rate=_mean(parts),
        workflow_pass_rate=_mean(list(rates.values())),
        dataset_pass_rates=rates,
        scenario_pass_rate=scenario_rate,
        total_scenarios=total,
        passed_scenarios=passed,
        scenario_task_pass_rates={
            result.scenario_id: {task.task_id: task.value for task in result.task_results}
            for result in scenario_results
        },
    )


def _mean(rates: Sequence[float]) -> float:
    return sum(rates) / len(rates) if rates else 0.0
