"""All results of one replay, as data: per alias, per scenario, what was lost, and sums."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.judge.port import JudgeUsage, sum_of
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import (
    Conversation,
    ScenarioAttempt,
    is_decided,
    seen_attempts,
)
from scouter.evaluate.results.file import JsonRows
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.provenance import Provenance, Wire
from scouter.evaluate.results.record_result import is_counted, rate_of
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.task_result import EvalTaskResult


class Loss(StrEnum):
    """Reasons why a record or a span is in no result."""

    UNKNOWN_ORIGIN = "unknown_origin"
    TOO_LATE = "too_late"
    INVALID = "invalid"
    CAPTURE_FULL = "capture_full"
    UNKNOWN_PROFILE = "unknown_profile"
    OTHER_PROCESS = "other_process"
    INTERNAL = "internal"
    SPANS_FULL = "spans_full"
    SPAN_FAULT = "span_internal"
    OPEN_SPAN = "span_open"
    OTHER_PROCESS_SPAN = "span_other_process"
    UNREADABLE = "unreadable"


_TOLD: Final[dict[Loss, tuple[Literal["record", "span"], str, str]]] = {
    Loss.UNKNOWN_ORIGIN: (
        "record",
        "of unknown origin",
        "nobody can tell which scenario made them: threads and pools do not know it by themselves. "
        "Hand work to them with contextvars.copy_context().run, wait for it before you answer, or "
        "run one scenario at a time (concurrency 1)",
    ),
    Loss.TOO_LATE: (
        "record",
        "that came when all had been judged",
        "wait for threads and tasks before you answer",
    ),
    Loss.INVALID: (
        "record",
        "that could not be taken",
        "they are no EvalRecord, or their context has no JSON form; the log names the place",
    ),
    Loss.CAPTURE_FULL: (
        "record",
        "beyond what a replay keeps at a time",
        "insert fewer records in one scenario, or run fewer scenarios at once",
    ),
    Loss.UNKNOWN_PROFILE: (
        "record",
        "for a profile that there is not",
        "write the alias or uid as the profile has it, or give that profile, too",
    ),
    Loss.OTHER_PROCESS: (
        "record",
        "made in a forked process",
        "a replay sees its own process: hand the values back, and insert the record here",
    ),
    Loss.INTERNAL: (
        "record",
        "that met an error in this package",
        "the log has its traceback; please report it",
    ),
    Loss.SPANS_FULL: (
        "span",
        "beyond what a replay keeps at a time",
        "run fewer scenarios at once, or make fewer spans in one",
    ),
    Loss.SPAN_FAULT: (
        "span",
        "that met an error in this package",
        "the log has its traceback; please report it",
    ),
    Loss.OPEN_SPAN: (
        "span",
        "that had not ended when its scenario was judged",
        "end every span before you answer",
    ),
    Loss.OTHER_PROCESS_SPAN: (
        "span",
        "made in a forked process",
        "a replay sees its own process: make the spans here, around the call",
    ),
    Loss.UNREADABLE: (
        "span",
        "or more in places of the files that could not be read",
        "mend the files; each place was named",
    ),
}


class Lost(BaseModel):
    """Number of records or spans that are in no result, for one reason."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: Loss
    count: int

    @property
    def kind(self) -> Literal["record", "span"]:
        """Kind of the lost items: `record` or `span`."""
        return _TOLD[self.reason][0]

    @property
    def remedy(self) -> str:
        """Advice on how to lose no more of them."""
        return _TOLD[self.reason][2]

    @property
    def summary(self) -> str:
        """The count and the reason in words."""
        kind, why, _ = _TOLD[self.reason]
        noun = kind if self.count == 1 else f"{kind}s"
        return f"{self.count:,} {noun} {why}"

    @property
    def text(self) -> str:
        """The count, the reason and the remedy in words."""
        return f"{self.summary}: {self.remedy}"


def lost_of(counts: Mapping[Loss, int]) -> tuple[Lost, ...]:
    """Say what was lost, in the order of the reasons."""
    return tuple(Lost(reason=reason, count=counts[reason]) for reason in Loss if counts.get(reason))


class Confirmation(BaseModel, frozen=True):
    """A scenario that passed before, did not pass once in the new run, and was asked again."""

    scenario_id: str
    asked: int
    """Further attempts that were decided; they stop at the first that passes."""
    passed: int
    """Further attempts that passed."""
    failed: int
    """All attempts of the run that failed, those of the whole suite among them."""
    chance: float
    """Chance that the scenario fails so often if nothing changed, in [0, 1]."""
    is_broken: bool
    """True if that is too improbable; alone, or together with other scenarios."""
    is_settled: bool = True
    """False if the asking ended before anybody could know, as a judge or the agent gave no answer
    or somebody interrupted it."""


class RunMetrics(BaseModel, frozen=True, extra="ignore"):
    """The data of `EvalMetrics`."""

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
            for task in filter(is_counted, result.record.tasks):
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


CONTEXT_CHARACTERS: Final = 20_000
"""Characters of a context, as JSON, that results keep whole."""


class ScenarioInfo(BaseModel, frozen=True, extra="ignore"):
    """One scenario that was run, with tasks or without."""

    scenario_id: str
    initial_query: str
    tags: tuple[str, ...] = ()
    required: bool = False
    """True if an attempt at the scenario that does not pass stops a release."""
    required_tasks: tuple[str, ...] = ()
    """Ids of those of its own tasks that have to pass."""
    content: Wire | None = None
    """The question to the agent and what its tasks can read; None where it is not known."""
    tasks: tuple[Wire, ...] | None = None
    """Its own tasks, so that a later run can tell which of them changed."""


class RunResults(Stored, frozen=True):
    """All results of one replay."""

    dataset_results: Mapping[str, JsonRows]
    """Per alias, one row for each record of any scenario and attempt."""
    scenario_results: tuple[ScenarioAttempt, ...]
    """One for each attempt of a scenario that has tasks of its own, or that raised; by scenario,
    then by attempt."""
    metrics: RunMetrics
    scenarios: tuple[ScenarioInfo, ...] = ()
    """Every scenario that was run."""
    conversations: tuple[Conversation, ...] = ()
    """One for each attempt that is not among the `scenario_results`."""
    provenance: Provenance = Provenance()
    repeats: int = 1
    """Number of attempts at each scenario, over all rounds."""
    planned: int = 0
    """Most first attempts at each scenario in a sequential run, which ends once its outcome is
    decided; else 0."""
    rounds: int = 1
    """Rounds of the whole suite: 1, or more where a fall had to be looked into."""
    is_unfinished: bool = False
    """True if attempts that the rule of the release check requested were not made, as somebody
    pressed Ctrl-C or the budget was spent."""
    releases: int = 0
    """Releases that were compared with this baseline so far."""
    runs: int = 1
    """Runs whose attempts are here; several where a baseline keeps them all."""
    reasked: "RunResults | None" = None
    """Further attempts at single scenarios, behind the confirmations; they are in no rate and no
    count of these."""
    contexts: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The records' contexts by uid; one of more than `CONTEXT_CHARACTERS` is a text that is cut."""
    judge_rates: tuple[JudgeRate, ...] = ()
    """Pass rate of each judge task, with the correction that a calibration of its judge allows."""
    required_tasks: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Per alias, the ids of the tasks that have to pass; aliases without one are left out."""
    lost: tuple[Lost, ...] = ()
    """Records and spans that were captured, or should have been, and are in no result: by reason,
    with the way to mend it. A release check does not pass over them."""
    left_out: tuple[str, ...] = ()
    """Checks that the source of the cases asks for and that nobody ran, in words."""
    confirmations: tuple[Confirmation, ...] = ()
    """Scenarios that passed in the baseline, never passed here and were asked again alone."""

    @property
    def own_rows(self) -> ResultRows:
        """Results of the scenarios' own tasks, a row for each attempt."""
        own = self.scenario_results
        return ResultRows(
            [item.record for item in own],
            [item.scenario_id for item in own],
            [item.attempt for item in own],
        )

    @property
    def parts(self) -> Iterator[tuple[str | None, ResultRows]]:
        """The rows of each alias, then the `own_rows`, whose alias is None."""
        yield from self.dataset_results.items()
        yield None, self.own_rows

    def whole_context(self, record_uid: str) -> JsonValue:
        """Find the context of a record; None where it is not stored as a whole."""
        found = self.contexts.get(record_uid)
        is_cut = isinstance(found, str) and len(found) > CONTEXT_CHARACTERS - 2  # its quotes
        return None if is_cut else found

    @property
    def scenario_ids(self) -> list[str]:
        """Ids of every scenario that was run."""
        return [scenario.scenario_id for scenario in self.scenarios]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTotals:
    """Sums over the results of a run.

    Args:
        usage: Calls, cached answers, tokens and cost.
        over_budget: Tasks that were skipped as the budget left too little.
    """

    usage: JudgeUsage
    over_budget: int

    @property
    def text(self) -> str:
        """Sums in words: `judges: 3 calls, 7 cached, 120 tokens in, 30 out, $0.0012`."""
        used = self.usage
        noun = "call" if used.calls == 1 else "calls"
        parts = [f"{used.calls:,} {noun}", f"{used.cached:,} cached"]
        if used.input_tokens is not None:
            parts.append(f"{used.input_tokens:,} tokens in")
        if used.output_tokens is not None:
            parts.append(f"{used.output_tokens:,} out")
        if used.cost_usd is not None:
            parts.append(f"${used.cost_usd:,.4f}")
        if used.unpriced_calls:
            parts.append(f"cost of {used.unpriced_calls:,} not known")
        text = f"judges: {', '.join(parts)}"
        if self.over_budget:
            tasks = "task" if self.over_budget == 1 else "tasks"
            text += f"; {self.over_budget:,} {tasks} skipped, as the budget left too little"
        return text

    def to_json(self) -> dict[str, JsonValue]:
        """Write all figures as plain JSON."""
        return {**self.usage.to_json(), "over_budget": self.over_budget}


def totals_of(results: RunResults) -> JudgeTotals | None:
    """Add up what the judges of a replay took; None where no judge had anything to do.

    Cost: linear in the number of task results.
    """
    return judge_totals(
        task for _, rows in results.parts for record in rows.records for task in record.tasks
    )


def judge_totals(tasks: Iterable[EvalTaskResult]) -> JudgeTotals | None:
    """Add up what judges took; None where no judge had anything to do.

    Args:
        tasks: Results of any tasks.
    """
    usages: list[JudgeUsage] = []
    over_budget = 0
    for task in tasks:
        over_budget += task.reason is Reason.BUDGET
        if task.usage is not None:
            usages.append(task.usage)
    if not usages and not over_budget:
        return None
    return JudgeTotals(usage=sum_of(usages), over_budget=over_budget)
