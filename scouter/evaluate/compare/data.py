"""A comparison of two runs, as data that can be stored, and its reasons in words."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from scouter.evaluate.compare.checks import CheckChange
from scouter.evaluate.compare.counts import Change
from scouter.evaluate.compare.rows import ComparisonDecision, RateComparison, ScoreChange
from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.intervals import Interval
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.flips import Flips
from scouter.evaluate.results.run import Confirmation
from scouter.model.visible import some_of

DEFAULT_THRESHOLD: Final = 0.05
"""Smallest fall of a pass rate that counts, where nobody says another."""

Side: TypeAlias = Literal["baseline_only", "comparison_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """One task of one record, in both runs. No model: there is one per task result."""

    task_id: str
    record_id: str
    baseline_passed: bool
    comparison_passed: bool
    status_changed: bool
    baseline_outcome: Outcome
    comparison_outcome: Outcome
    message: str = ""
    """Message of the new run's result."""


class WorkflowComparison(BaseModel, frozen=True, extra="ignore"):
    """One record in both runs, over the tasks of the baseline.

    A task that is gone did not pass; one that is new is in neither rate.
    """

    baseline_id: str
    comparison_id: str
    scenario_id: str | None = None
    ordinal: int
    """Place, from 0, among the records of its scenario (or run) with the same record id."""
    attempt: int = 0
    """Number of the attempt at the scenario, from 0."""
    baseline_outcome: Outcome
    comparison_outcome: Outcome
    baseline_pass_rate: float
    comparison_pass_rate: float
    pass_rate_delta: float
    """New minus old."""
    is_regression: bool
    task_comparisons: tuple[TaskComparison, ...]
    """The tasks that both runs have."""
    lost_tasks: tuple[str, ...] = ()
    """Tasks that passed in the baseline and are gone from the record."""


class MissingTask(BaseModel, frozen=True, extra="ignore"):
    """A task that only one of the two runs judged, of a record that both have."""

    task_id: str
    present_in: Side
    record_id: str


class MissingRecord(BaseModel, frozen=True, extra="ignore"):
    """A record that only one of the two runs has."""

    record_id: str
    scenario_id: str | None = None
    ordinal: int
    attempt: int = 0
    present_in: Side
    outcome: Outcome
    """Outcome in the run that has the record."""


class TaskAggregateStats(BaseModel, frozen=True, extra="ignore"):
    """One task over all records: what each run counted, and how sure the rates are."""

    task_id: str
    workflows_evaluated: int
    """Records in which both runs judged the task; the two pass counts are over these."""
    baseline_pass_count: int
    comparison_pass_count: int
    status_changed_count: int
    baseline_count: int
    """Records of the baseline in which this task was judged, or a gate prevented that; the
    rate and its interval are over these."""
    comparison_count: int
    baseline_passed: int
    comparison_passed: int
    baseline_pass_rate: float
    comparison_pass_rate: float
    difference: float
    """New rate minus old rate."""
    baseline_interval: Interval
    """Wilson interval, 95 %, of the baseline's rate."""
    comparison_interval: Interval


class Conclusion(Stored, frozen=True):
    """The conclusion of a comparison, whatever was compared."""

    regression_threshold: float
    regressed: bool
    reasons: tuple[str, ...]
    """Reasons of `regressed`, in words; empty without one."""
    decision: ComparisonDecision
    """The decision, which the exit code follows; `regressed` is the strict rule."""
    decision_reason: str
    """The decision in words."""
    decision_reasons: tuple[str, ...] = ()
    """Each reason for `regressed` or `inconclusive`; empty for `no regression seen`."""
    advice: tuple[str, ...] = ()
    """What to do about the reasons; empty for `no regression seen`."""
    changes: tuple[CheckChange, ...] = ()
    """Checks that are not what they were in the baseline; those that are left out come first."""
    ruled_out: float | None = None
    """A fall of more points than this, of what passed as a whole, is ruled out; None where nothing
    could be compared."""
    not_cleared: tuple[str, ...] = ()
    """Names of rates that are worth a look: their own p-value is at most 0.05, which is too much
    for a regression among so many rates."""
    rates: tuple[RateComparison, ...] = ()
    """One row for whole scenarios, conversations or records, one per alias and task, and one for
    the tasks of each alias."""
    score_changes: tuple[ScoreChange, ...] = ()
    """One row per task with scores other than 0 and 1."""
    notes: tuple[str, ...] = ()
    """Sentences that help to read the comparison, such as the way in which records were matched."""

    @property
    def exit_code(self) -> int:
        """0 for `no regression seen`, 1 for `regressed`, 3 for `inconclusive`."""
        return self.decision.exit_code


class RecordsComparison(Conclusion, frozen=True):
    """The data of `ComparisonResults`."""

    workflow_comparisons: tuple[WorkflowComparison, ...]
    total_workflows: int
    improved_workflows: int
    regressed_workflows: int
    unchanged_workflows: int
    mean_pass_rate_delta: float
    task_status_changes: tuple[TaskComparison, ...]
    missing_tasks: tuple[MissingTask, ...]
    missing_records: tuple[MissingRecord, ...]
    errored_records: tuple[str, ...]
    """Records that error now and did not before, or that are new and error."""
    baseline_workflow_count: int
    comparison_workflow_count: int
    task_aggregate_stats: tuple[TaskAggregateStats, ...]
    baseline_pass_rate: float
    """Passed tasks / all tasks that were judged or that a gate skipped, over all records."""
    comparison_pass_rate: float

    @property
    def has_missing_tasks(self) -> bool:
        """Tell whether a task was judged in one run only."""
        return bool(self.missing_tasks)

    def __str__(self) -> str:
        return (
            f"{self.decision}: {self.regressed_workflows} of {self.total_workflows} records worse, "
            f"{self.improved_workflows} better, mean change {self.mean_pass_rate_delta:+.1%}"
        )


class ScenarioDelta(BaseModel, frozen=True, extra="ignore"):
    """One scenario in both runs: its attempts as a whole, with all its tasks and records.

    The rates are over all checks of the baseline, as in `WorkflowComparison`.
    """

    scenario_id: str
    initial_query: str
    baseline_passed: bool
    comparison_passed: bool
    baseline_pass_rate: float
    comparison_pass_rate: float
    status_changed: bool
    baseline_outcome: Outcome
    comparison_outcome: Outcome
    is_regression: bool
    baseline_attempts: int
    """Times that the baseline ran the scenario; with several, `passed` means every time, the
    outcome is the worst one and the rate is the mean."""
    comparison_attempts: int
    baseline_passed_attempts: int
    """Attempts that passed as a whole."""
    comparison_passed_attempts: int
    lost_tasks: tuple[str, ...] = ()
    """Tasks that passed in the baseline and are gone from the scenario."""
    has_no_common_task: bool = False
    """True if the baseline has tasks, of which none is there again."""


class RunComparison(Conclusion, frozen=True):
    """The data of `ScenarioComparisonResults`."""

    dataset_comparisons: Mapping[str, RecordsComparison]
    scenario_deltas: tuple[ScenarioDelta, ...]
    baseline_overall_pass_rate: float
    comparison_overall_pass_rate: float
    baseline_alias_pass_rates: dict[str, float]
    comparison_alias_pass_rates: dict[str, float]
    baseline_checks: tuple[int, int] = (0, 0)
    """Task results that passed, and all of them, over aliases and scenarios; the overall rates are
    means of the aliases' rates and the scenarios' rate."""
    comparison_checks: tuple[int, int] = (0, 0)
    improved_aliases: list[str]
    regressed_aliases: list[str]
    new_aliases: list[str]
    removed_aliases: list[str]
    regressed_scenarios: list[str]
    new_scenarios: list[str]
    removed_scenarios: list[str]
    scenario_task_stats: tuple[TaskAggregateStats, ...]
    """The scenarios' own tasks, each over all scenarios that have it."""
    baseline_scenarios_passed: tuple[int, int] = (0, 0)
    """Scenarios of which every attempt passed as a whole, and scenarios that were decided."""
    comparison_scenarios_passed: tuple[int, int] = (0, 0)
    repeats: tuple[int, int] = (1, 1)
    """Attempts at each scenario, in the baseline and in the new run."""
    flips: tuple[str, ...] = ()
    """Scenarios that passed in every attempt of the baseline and in none now."""
    check_flips: tuple[Flips, ...] = ()
    """Checks that passed in an attempt and not in another one, with whose each flip is."""
    broken: dict[str, str] = Field(default_factory=dict[str, str])
    """By scenario that is broken by its own failures alone, the reason that says so."""
    confirmations: tuple[Confirmation, ...] = ()
    """Results of the scenarios that were asked again alone."""

    @property
    def passed_text(self) -> str:
        """Scenarios that passed in both runs; attempts where one run made more of them.

        A scenario passes if all its attempts do, so more attempts pass less often all of them.
        """
        whole = next((row for row in self.rates if row.is_whole), None)
        before, now = self.baseline_scenarios_passed, self.comparison_scenarios_passed
        noun, beside = "scenarios passed", ""
        if whole is not None and now[1] and max(self.repeats) > 1:
            attempts = whole.comparison_passed, whole.comparison_count
            if self.repeats[0] == self.repeats[1]:
                beside = f" ({of_all(attempts)} attempts)"
            else:
                noun, now = "attempts passed", attempts
                before = whole.baseline_passed, whole.baseline_count
        return f"{of_all(now)} {noun}{beside}, {of_all(before)} in the baseline"

    def __str__(self) -> str:
        return f"{self.decision}: {self.passed_text}"


def of_all(found: tuple[int, int]) -> str:
    """Write counts as `9 of 12`."""
    return f"{found[0]:,} of {found[1]:,}"


SHOWN: Final = 5
"""Names listed before "and n more"."""


def record_reasons(
    regressions: Sequence[WorkflowComparison],
    errored: Sequence[tuple[str, str]],
    missing: Sequence[str],
    unrelated: Sequence[str],
    fallen: Sequence[tuple[str, Change]] = (),
) -> tuple[str, ...]:
    """Say which records of one alias got worse.

    Args:
        regressions: Records whose pass rate fell by the threshold or more.
        errored: Name and message of each record that errors now and did not before.
        missing: Records of the baseline that the new run lacks.
        unrelated: Records of which no task was judged in both runs.
        fallen: With repeats, records that got worse beyond their own flakiness.

    Returns:
        One sentence per task, per errored record (the first few) and for the missing ones.
    """
    gone, apart = "task {!r} passed before and is gone from", set(unrelated)
    reasons = _by_lead(
        (f"task {task.task_id!r} passed before and does not now in", task.record_id)
        for workflow in regressions
        for task in workflow.task_comparisons
        if task.baseline_passed and not task.comparison_passed
    )
    reasons += _by_lead(
        (gone.format(task_id), workflow.comparison_id)
        for workflow in regressions
        if workflow.comparison_id not in apart
        for task_id in workflow.lost_tasks
    )
    reasons += [f"record {name} errored: {message}" for name, message in errored[:SHOWN]]
    if len(errored) > SHOWN:
        reasons.append(f"{len(errored) - SHOWN} more records errored")
    reasons += _by_lead(
        (
            f"task {task_id!r} passes less often than its flakiness explains in",
            f"{name} ({passes})",
        )
        for name, change in fallen
        for task_id, passes in change.fallen.items()
        if task_id not in change.lost
    )
    reasons += _by_lead(
        (gone.format(task_id), name) for name, change in fallen for task_id in change.lost
    )
    if missing:
        reasons.append(f"{_count(missing)} of the baseline missing: {_list(missing)}")
    if unrelated:
        reasons.append(
            f"{_count(unrelated)} with no task in common with the baseline: {_list(unrelated)}"
        )
    return tuple(reasons)


def _by_lead(found: Iterable[tuple[str, str]]) -> list[str]:
    """One sentence for each beginning, with all records that have it."""
    names: dict[str, list[str]] = defaultdict(list)
    for lead, name in found:
        names[lead].append(name)
    return [f"{lead} {_count(each)}: {_list(each)}" for lead, each in names.items()]


def scenario_reasons(
    comparisons: Mapping[str, RecordsComparison],
    regressions: Sequence[tuple[ScenarioDelta, ScenarioAttempt]],
    *,
    removed_aliases: Sequence[str],
    removed_scenarios: Sequence[str],
    unjudged_scenarios: Sequence[str],
    errored_scenarios: Sequence[str],
) -> tuple[str, ...]:
    """Say why a replay is worse: the aliases' own reasons, then the scenarios'."""
    reasons = [
        f"{alias}: {reason}"
        for alias, comparison in comparisons.items()
        for reason in comparison.reasons
    ]
    reasons += [f"{alias}: no records in the new run" for alias in removed_aliases]
    reasons += [_scenario(delta, result) for delta, result in regressions]
    for names, what in (
        (errored_scenarios, "new, and its tasks errored"),
        (unjudged_scenarios, "judged by tasks of its own before, not now"),
        (removed_scenarios, "in the baseline, missing in the new run"),
    ):
        reasons += [f"scenario {name!r}: {what}" for name in names[:SHOWN]]
        if len(names) > SHOWN:
            reasons.append(f"{len(names) - SHOWN} more scenarios: {what}")
    return tuple(reasons)


def _scenario(delta: ScenarioDelta, result: ScenarioAttempt) -> str:
    bad = [
        f"{task.task_id} {task.outcome}" + (f" ({task.message})" if task.message else "")
        for task in result.task_results
        if not task.passed
    ]
    lead = f"scenario {delta.scenario_id!r}"
    if result.error is not None:
        bad.insert(0, result.error_line)
    elif delta.has_no_common_task:
        return f"{lead}: no task in common with the baseline"
    elif delta.lost_tasks:
        bad.append(f"gone, passed before: {_list(delta.lost_tasks)}")
    if max(delta.baseline_attempts, delta.comparison_attempts) > 1:
        before = (
            f"passed in {delta.baseline_passed_attempts} of {delta.baseline_attempts} attempts "
            "before"
        )
        now = (
            f"in {delta.comparison_passed_attempts} of {delta.comparison_attempts} now"
            f"{_checks(delta)}"
        )
    else:
        before = "passed" if delta.baseline_passed else f"{delta.baseline_pass_rate:.0%}"
        before += " before"
        found = delta.comparison_outcome if delta.status_changed else None
        now = f"{found or format(delta.comparison_pass_rate, '.0%')} now"
    return f"{lead}: {before}, {now}: {_list(bad, '; ')}"


def _checks(delta: ScenarioDelta) -> str:
    """The rates of its checks, where as many attempts passed and only they say what fell."""
    passed = delta.comparison_passed_attempts * delta.baseline_attempts
    if passed < delta.baseline_passed_attempts * delta.comparison_attempts:
        return ""
    rates = delta.baseline_pass_rate, delta.comparison_pass_rate
    return (
        f"; of its checks {rates[0]:.0%} before, {rates[1]:.0%} now" if rates[1] < rates[0] else ""
    )


def unstable_notes(scenarios: Collection[str]) -> tuple[str, ...]:
    """Say where records were matched by their order as their ids are others in every run."""
    if not scenarios:
        return ()
    return (
        f"the record ids of {_list(sorted(scenarios))} are others in each run; records were "
        "matched by their order",
    )


def repeats_notes(old: int, new: int) -> tuple[str, ...]:
    """Say that the runs tried their scenarios differently often, if they did."""
    if old == new:
        return ()
    least = min(old, new)
    return (
        f"each scenario ran {_times(old)} in the baseline and {_times(new)} now; the test takes "
        f"all of them, intervals only the first {least if least > 1 else 'one'}",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _count(items: Sequence[object]) -> str:
    return f"{len(items)} record" + ("" if len(items) == 1 else "s")


def _list(names: Sequence[str], separator: str = ", ") -> str:
    return some_of(names, SHOWN, separator, separator)
