"""Results of a replay: the run, with the ways to save, compare and show it."""

from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.shown import Drawn
from scouter.evaluate.files.read import Document
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.file import ROWS_AS_JSON
from scouter.evaluate.results.record_result import MissingKeyError
from scouter.evaluate.results.run import RunMetrics, RunResults
from scouter.evaluate.results.task_result import EvalTaskResult

if TYPE_CHECKING:
    from collections.abc import Collection

    from scouter.evaluate.api.comparison import ScenarioComparisonResults
    from scouter.evaluate.results.reliability import Reliability

JsonEvalResults: TypeAlias = Annotated[EvalResults, ROWS_AS_JSON]


class EvalMetrics(RunMetrics, frozen=True):
    """A replay in a few numbers; every rate is in [0, 1].

    Rates of tasks are `passed / (passed + failed + errored + skipped by a gate)`, here as
    everywhere: a closed gate cannot hide the tasks behind it. In a run with repeats every
    attempt counts as one in the rates of tasks; a scenario passed if each of its attempts did.
    """

    def as_table(self) -> None:
        """Print the rates to the standard output, those of each alias too."""
        from scouter.evaluate.show.tables import print_metrics  # rich loads on demand

        print_metrics(self)


class ScenarioResult(ScenarioAttempt, frozen=True):
    """Result of one attempt of one scenario.

    `passed` and `pass_rate` are about the scenario's own tasks. A scenario without any is judged
    by the tasks of the records that it produced (see `ScenarioEvalResults.get_scenario_detail`).
    """

    eval_results: JsonEvalResults | None = None

    def traces_as_table(self) -> None:
        """Print the spans as a tree to the standard output."""
        from scouter.evaluate.show.tables import print_traces  # rich loads on demand

        print_traces(self.traces)

    def trace_detail(self, span_name: str) -> None:
        """Print everything about the spans of a name to the standard output.

        Args:
            span_name: The name; values longer than 200 letters are cut.

        Raises:
            MissingKeyError: No span has this name; says which names there are.
        """
        from scouter.evaluate.show.tables import print_span_detail  # rich loads on demand

        spans = [span for span in self.traces if span.name == span_name]
        if not spans:
            names = ", ".join(map(repr, dict.fromkeys(span.name for span in self.traces)))
            raise MissingKeyError(
                f"Missing key: {span_name}; the spans of scenario {self.scenario_id!r} are "
                f"{names or 'none'}"
            )
        print_span_detail(spans)


DatasetResults: TypeAlias = dict[str, JsonEvalResults]
"""Per alias."""

ScenarioResults: TypeAlias = tuple[ScenarioResult, ...]


class ScenarioEvalResults(RunResults, Drawn, frozen=True):
    """All results of one replay."""

    dataset_results: DatasetResults
    scenario_results: ScenarioResults
    metrics: EvalMetrics
    reasked: "ScenarioEvalResults | None" = None

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read what `save` wrote from a file that was parsed already.

        Raises:
            FileFormatError: Names the file, and line and field where they are known.
        """
        value = document.value
        if isinstance(value, dict) and "dataset_results" not in value and "results" in value:
            is_report = "exit_code" in value
            what = "is a report (--json)" if is_report else "holds results of records"
            raise document.error(
                f"this {what} and not the results of a replay",
                expected="the file that scouter eval --save or ScenarioEvalResults.save() wrote",
            )
        if not (isinstance(value, dict) and {"dataset_results", "schema_version"} & set(value)):
            raise document.error(
                "this holds no results of a replay",
                expected="the file that scouter eval --save or ScenarioEvalResults.save() wrote",
            )
        return super().from_document(document)

    @classmethod
    def pooled(cls, *runs: "ScenarioEvalResults") -> "ScenarioEvalResults":
        """Put the attempts of several runs together, as if there had been one with more repeats.

        Args:
            runs: At least one, of the same scenarios and profiles.

        Returns:
            All attempts with numbers of their own, in the order of the runs.

        Raises:
            ConfigError: Scenarios or profiles differ; names the run, counted from 1, and the field.

        Cost: linear in the number of task results.
        """
        from scouter.evaluate.results.pooling import pooled  # few runs are put together

        return pooled(runs, [f"run {number}" for number in range(1, len(runs) + 1)])

    def get_scenario_detail(self, scenario_id: str, attempt: int = 0) -> ScenarioResult:
        """Look one attempt of one scenario up.

        Args:
            scenario_id: Any scenario of the run. A scenario without tasks is summed up from the
                records that it produced: passed if all of them passed and there is one.
            attempt: Number of the attempt, from 0.

        Raises:
            MissingKeyError: There was no such scenario or attempt; names those of the run.

        Cost: linear in the number of scenarios, and of records for one without tasks.
        """
        for result in self.scenario_results:
            if result.scenario_id == scenario_id and result.attempt == attempt:
                return result
        for scenario in self.scenarios:
            if scenario.scenario_id == scenario_id and 0 <= attempt < self.repeats:
                tasks = self._tasks_of(scenario_id, attempt)
                detail = ScenarioResult.of(scenario_id, scenario.initial_query, tasks)
                return detail.model_copy(update=self._said(scenario_id, attempt))
        if scenario_id in self.scenario_ids:
            raise MissingKeyError(
                f"Missing key: attempt {attempt} of {scenario_id}; there are attempts 0 to "
                f"{self.repeats - 1}"
            )
        known = ", ".join(map(repr, self.scenario_ids[:20])) or "none"
        raise MissingKeyError(f"Missing key: {scenario_id}; the scenarios are {known}")

    def _said(self, scenario_id: str, attempt: int) -> dict[str, object]:
        """The fields of a result that tell of the conversation."""
        for found in self.conversations:
            if found.scenario_id == scenario_id and found.attempt == attempt:
                return dict(found)
        return {"attempt": attempt}

    def _tasks_of(self, scenario_id: str, attempt: int) -> list[EvalTaskResult]:
        return [
            task
            for results in self.dataset_results.values()
            for aligned in results.aligned_results
            if aligned.scenario_id == scenario_id and aligned.attempt == attempt
            for task in aligned.record.tasks
        ]

    def reliability(self) -> "tuple[Reliability, ...]":
        """Say for each check how it did over the attempts.

        Returns:
            By scenario: first the scenario as a whole (task id `""`) where it is judged itself
            or raised, then each of its own tasks, then each task of each alias that it sent
            records to. A task of an alias passes an attempt if it passes for all records that
            the attempt sent to the alias and there is one. A task that was skipped, but not by
            a gate, is in no attempt's figures.

        Cost: linear in the number of task results, and `repeats` per check.
        """
        from scouter.evaluate.results.reliability import reliability  # few runs repeat

        return reliability(self)

    def compare_to(
        self,
        baseline: "ScenarioEvalResults",
        regression_threshold: float = 0.05,
        accept_changed: "Collection[str]" = (),
    ) -> "ScenarioComparisonResults":
        """Hold this run against an earlier one.

        Args:
            baseline: The earlier run.
            regression_threshold: Smallest fall of a pass rate that counts, in [0, 1].
            accept_changed: Ids of tasks, scenarios and aliases that changed since, and that a
                person looked at.

        Raises:
            ValueError: The threshold is not in [0, 1].
            ConfigError: Nothing of an accepted id changed; names the ids of what did.
        """
        from scouter.evaluate.api.comparison import (  # few runs have a baseline
            ScenarioComparisonResults,
        )

        return ScenarioComparisonResults.of(baseline, self, regression_threshold, accept_changed)

    def as_table(self, show_workflow: bool = False) -> None:
        """Print the results to standard output.

        Args:
            show_workflow: Also one table per alias with a row for each record.
        """
        from scouter.evaluate.show.tables import print_scenario_results  # rich loads when needed

        print_scenario_results(self, show_workflow=show_workflow)
