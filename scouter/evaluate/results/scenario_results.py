"""What a replay gives back: per alias, per scenario, and summed up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    PlainSerializer,
    PlainValidator,
)
from pydantic_core import CoreSchema, core_schema

from scouter.errors import DataError
from scouter.evaluate.compare.confirmation import Confirmation
from scouter.evaluate.files.read import Document
from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Outcome, Reason, is_in_rate
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.lost import Lost
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import MissingKeyError, pass_rate, record_outcome
from scouter.evaluate.results.results import EvalResults
from scouter.evaluate.results.score import plain_score
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_otlp_json
from scouter.model.span import Span

if TYPE_CHECKING:
    from scouter.evaluate.compare.results import ScenarioComparisonResults
    from scouter.evaluate.results.reliability import Reliability


def _read(value: object) -> EvalResults:
    if isinstance(value, EvalResults):
        return value
    from scouter.evaluate.results.file import load  # it builds objects of `results`

    return load(value)


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
    everywhere: a closed gate cannot hide the tasks behind it. In a run with repeats every
    attempt counts as one, in every figure.
    """

    overall_pass_rate: float
    """Mean of all `dataset_pass_rates` and, if a scenario has tasks, `scenario_pass_rate`; 0 if
    there is nothing of either."""
    workflow_pass_rate: float
    """Mean of all `dataset_pass_rates`; 0 without any."""
    dataset_pass_rates: dict[str, float]
    """Per alias: the rate of all tasks of all records of all attempts. An alias is left out if none
    of its tasks is in a rate, as all were skipped for the budget or not sampled."""
    scenario_pass_rate: float
    """`passed_scenarios` / `total_scenarios`; 0 if no scenario has tasks."""
    total_scenarios: int
    """Attempts of scenarios with tasks of their own, and attempts that raised; without those that
    were not decided, as a judge was not asked."""
    passed_scenarios: int
    """Those of them whose every task passed."""
    scenario_task_pass_rates: dict[str, dict[str, float]]
    """Per scenario and task: the share of its attempts in which it passed, of those in which the
    task is in a rate."""

    def as_table(self) -> None:
        """Print the rates to the standard output, those of each alias too."""
        from scouter.evaluate.show.tables import print_metrics  # rich loads on demand

        print_metrics(self)


def _plain_score(fields: dict[str, Any]) -> float | None:
    outcome = fields.get("outcome")
    return plain_score(outcome) if isinstance(outcome, Outcome) else None


class TaskSummary(_Part):
    """How one task of a scenario ended."""

    task_id: str
    passed: bool
    value: float
    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    score: float | None = Field(default_factory=_plain_score)
    """The number beside the outcome; None where the task was errored or skipped. Files of a time
    without scores tell it here by the outcome; `eval_results` have it as it is."""
    usage: JudgeUsage | None = None
    """What the judge's answers took; None for all other tasks."""


def _read_spans(value: object) -> tuple[Span, ...]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if isinstance(value, tuple) or any(isinstance(item, Span) for item in items):
        return by_start(cast("Sequence[Span]", items))
    decoded = spans_from_otlp_json(cast(object, value))
    if decoded.rejected:
        at, why = decoded.rejected[0]
        raise DataError(f"span {at}: {why}")
    return by_start(decoded.spans)


def by_start(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans by start time, and those of one time by their ids."""
    return tuple(sorted(spans, key=lambda span: (span.start_ns, span.trace_id, span.span_id)))


def _write_spans(spans: tuple[Span, ...]) -> dict[str, JsonValue]:
    return spans_to_otlp_json(spans)


class _AsOtlpJson:
    """Tells pydantic how spans are read and written, so that it does not look into them."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _read_spans,
            serialization=core_schema.plain_serializer_function_ser_schema(_write_spans),
        )


JsonSpans = Annotated[tuple[Span, ...], _AsOtlpJson()]
"""Spans as a field of a model that can be stored; in the file they are OTLP-JSON."""


Exchange: TypeAlias = dict[str, JsonValue]
"""One turn of a conversation: `{"user": message, "agent": response}`."""


class ScenarioResult(_Part):
    """How one attempt of one scenario ended.

    `passed` and `pass_rate` are about the scenario's own tasks. A scenario without any is judged
    by the tasks of the records that it produced (see `ScenarioEvalResults.get_scenario_detail`).
    """

    scenario_id: str
    initial_query: str
    outcome: Outcome
    """`errored` if the attempt raised or took too long, whatever its tasks say; `skipped` if
    nothing failed, but a judge was not asked, for its budget or its sample: nobody knows then."""
    passed: bool
    pass_rate: float
    task_results: tuple[TaskSummary, ...]
    eval_results: JsonEvalResults | None = None
    """The full results of the scenario's own tasks."""
    attempt: int = 0
    """Which repeat, from 0."""
    error: str | None = None
    """What the agent, the simulated user or a hook raised, or that the time ran out."""
    error_frames: tuple[str, ...] = ()
    """Where in the agent's own code that was, such as `shop.py:12 in answer`; innermost last."""
    duration_ns: int = 0
    """How long the conversation took: its last try, the simulated user included."""
    response: JsonValue = None
    """What the tasks read as `response`."""
    turns: tuple[Exchange, ...] = ()
    """The conversation, as far as it is known: an overridden `execute_agent` keeps the answers
    to predefined turns to itself."""
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    """Of each turn when the agent was asked and when it had answered, in ns since the epoch; empty
    where nobody measured."""
    traces: JsonSpans = ()
    """The spans of this scenario and attempt, by start time."""

    @property
    def error_line(self) -> str:
        """The error's first line with its place: `KeyError: 'k' (shop.py:12 in answer)`."""
        first, *_ = (self.error or "").splitlines() or [""]
        where = f" ({self.error_frames[-1]})" if self.error_frames else ""
        return f"{first}{where}"

    def traces_as_table(self) -> None:
        """Print the spans as a tree to the standard output."""
        from scouter.evaluate.show.trace_tables import print_traces  # rich loads on demand

        print_traces(self.traces)

    def trace_detail(self, span_name: str) -> None:
        """Print everything about the spans of a name to the standard output.

        Args:
            span_name: The name; values longer than 200 letters are cut.

        Raises:
            MissingKeyError: No span has this name; says which names there are.
        """
        from scouter.evaluate.show.trace_tables import print_span_detail  # rich loads on demand

        spans = [span for span in self.traces if span.name == span_name]
        if not spans:
            names = ", ".join(map(repr, dict.fromkeys(span.name for span in self.traces)))
            raise MissingKeyError(
                f"Missing key: {span_name}; the spans of scenario {self.scenario_id!r} are "
                f"{names or 'none'}"
            )
        print_span_detail(spans)


class Conversation(_Part):
    """What was said and traced in one attempt of a scenario without tasks of its own."""

    scenario_id: str
    attempt: int = 0
    duration_ns: int = 0
    response: JsonValue = None
    turns: tuple[Exchange, ...] = ()
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    traces: JsonSpans = ()


DatasetResults: TypeAlias = dict[str, JsonEvalResults]
"""Per alias."""

ScenarioResults: TypeAlias = tuple[ScenarioResult, ...]


class ScenarioInfo(_Part):
    """One scenario that was run, with tasks or without."""

    scenario_id: str
    initial_query: str
    tags: tuple[str, ...] = ()
    required: bool = False
    """Whether a release stops where an attempt does not pass."""
    required_tasks: tuple[str, ...] = ()
    """Ids of those of its own tasks that have to pass."""


class ScenarioEvalResults(Stored):
    """All results of one replay."""

    dataset_results: DatasetResults
    """Per alias, one row for each record of any scenario and attempt."""
    scenario_results: ScenarioResults
    """One for each attempt of a scenario that has tasks of its own, or that raised; by scenario,
    then by attempt."""
    metrics: EvalMetrics
    scenarios: tuple[ScenarioInfo, ...] = ()
    """Every scenario that was run."""
    conversations: tuple[Conversation, ...] = ()
    """One for each attempt that is not among the `scenario_results`."""
    provenance: Provenance = Provenance()
    repeats: int = 1
    """How often each scenario was run."""
    runs: int = 1
    """Runs whose attempts are here; several where a baseline keeps them all."""
    reasked: "ScenarioEvalResults | None" = None
    """The further attempts behind the confirmations; they are in no rate and no count of these."""
    contexts: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The records' contexts by uid, for people; a large one is a text that is cut."""
    judge_rates: tuple[JudgeRate, ...] = ()
    """Of each judge task: how often it passed, beside what a calibration says of its judge."""
    required_tasks: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Per alias, the ids of the tasks that have to pass; aliases without one are left out."""
    lost: tuple[Lost, ...] = ()
    """Records and spans that were captured, or should have been, and are in no result: by reason,
    with the way to mend it. A release check does not pass over them."""
    confirmations: tuple[Confirmation, ...] = ()
    """Scenarios that passed in the baseline, failed here and were asked again."""

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
        from scouter.evaluate.results.pooling import pooled  # it reads this module

        return pooled(runs, [f"run {number}" for number in range(1, len(runs) + 1)])

    @property
    def scenario_ids(self) -> list[str]:
        """Ids of every scenario that was run."""
        return [scenario.scenario_id for scenario in self.scenarios]

    def get_scenario_detail(self, scenario_id: str, attempt: int = 0) -> ScenarioResult:
        """Look one attempt of one scenario up.

        Args:
            scenario_id: Any scenario of the run. One without tasks is summed up from the records
                that it produced: passed if all of them did and there is one.
            attempt: Which repeat, from 0.

        Raises:
            MissingKeyError: There was no such scenario or attempt; names those there were.

        Cost: linear in the number of scenarios, and of records for one without tasks.
        """
        for result in self.scenario_results:
            if result.scenario_id == scenario_id and result.attempt == attempt:
                return result
        for scenario in self.scenarios:
            if scenario.scenario_id == scenario_id and 0 <= attempt < self.repeats:
                tasks = self._tasks_of(scenario_id, attempt)
                detail = scenario_result(scenario_id, scenario.initial_query, tasks)
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
        from scouter.evaluate.results.repeats import reliability  # it reads this module

        return reliability(self)

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
        from scouter.evaluate.compare.runs import compare_scenario_results  # it reads this module

        return compare_scenario_results(baseline, self, regression_threshold)

    def as_table(self, show_workflow: bool = False) -> None:
        """Print the results to standard output.

        Args:
            show_workflow: Also one table per alias with a row for each record.
        """
        from scouter.evaluate.show.tables import print_scenario_results  # rich loads when needed

        print_scenario_results(self, show_workflow=show_workflow)


def scenario_result(
    scenario_id: str,
    initial_query: str,
    tasks: Sequence[EvalTaskResult],
    eval_results: EvalResults | None = None,
    error: str | None = None,
) -> ScenarioResult:
    """Sum an attempt up from task results, and from the error that ended it if there was one."""
    outcome = record_outcome(tasks) if error is None else Outcome.ERRORED
    if outcome is Outcome.PASSED and not all(map(is_counted, tasks)):
        outcome = Outcome.SKIPPED
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
                score=task.score,
                usage=task.usage,
            )
            for task in tasks
        ),
        eval_results=eval_results,
        error=error,
    )


def is_counted(task: Ended) -> bool:
    """Tell whether a task belongs into a pass rate, as `scouter.evaluate.outcome` says."""
    return is_in_rate(task.outcome, task.reason)


def is_decided(result: ScenarioResult) -> bool:
    """Tell whether an attempt belongs into the pass rate of scenarios."""
    return result.outcome is not Outcome.SKIPPED


def rate_of(tasks: Iterable[Ended]) -> float:
    """Compute the `pass_rate` of those tasks that count."""
    return pass_rate(Counter(task.outcome for task in tasks if is_counted(task)))


def sum_up(
    dataset_results: Mapping[str, EvalResults], scenario_results: Sequence[ScenarioResult]
) -> EvalMetrics:
    """Compute the metrics of a replay.

    Args:
        dataset_results: Per alias, its records' results.
        scenario_results: The attempts that count.
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
    passed = sum(result.passed for result in scenario_results)
    total = sum(map(is_decided, scenario_results))
    scenario_rate = passed / total if total else 0.0
    parts = [*rates.values(), *([scenario_rate] if total else [])]
    values_by_scenario: dict[str, dict[str, list[float]]] = {}
    for result in scenario_results:
        tasks = values_by_scenario.setdefault(result.scenario_id, {})
        for task in filter(is_counted, result.task_results):
            tasks.setdefault(task.task_id, []).append(task.value)
    return EvalMetrics(
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


def _mean(rates: Sequence[float]) -> float:
    return sum(rates) / len(rates) if rates else 0.0
