"""Compare two runs: every record, task and scenario of the baseline must be found again.

Records are matched by what stays the same from run to run: the scenario and the user's record id,
and among records with one id by their order. Records without an id are matched by their order
among those without one. Never by bare position where there are ids, as sub-agents that work at the
same time finish in any order, and never by a uid, which is new in every run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from scouter.evaluate.aligned_result import AlignedEvalResult
from scouter.evaluate.comparison_results import (
    ComparisonResults,
    MissingRecord,
    MissingTask,
    ScenarioComparisonResults,
    ScenarioDelta,
    Side,
    TaskAggregateStats,
    TaskComparison,
    WorkflowComparison,
)
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.reasons import profile_notes, record_reasons, scenario_reasons
from scouter.evaluate.results import EvalResults
from scouter.evaluate.scenario_results import (
    ScenarioEvalResults,
    ScenarioResult,
    is_counted,
    rate_of,
)

DEFAULT_THRESHOLD: Final = 0.05
_EPSILON: Final = 1e-9

_Group: TypeAlias = tuple[str | None, str]
"""Scenario and record id; an empty id is the group of those without one."""

_Key: TypeAlias = tuple[_Group, int]
"""A group and the place in it, from 0."""


class _Judged(Protocol):
    """What a comparison reads of a task's result."""

    @property
    def task_id(self) -> str: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def reason(self) -> Reason | None: ...
    @property
    def passed(self) -> bool: ...
    @property
    def message(self) -> str: ...


_Tasks: TypeAlias = Mapping[str, _Judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One record of one run, under the key that it has in every run."""

    name: str
    scenario_id: str | None
    ordinal: int
    outcome: Outcome
    tasks: _Tasks


def compare_results(
    baseline: EvalResults,
    new: EvalResults,
    regression_threshold: float = DEFAULT_THRESHOLD,
) -> ComparisonResults:
    """Compare two evaluations of one profile, record by record.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        regression_threshold: Smallest fall of a record's pass rate that counts, in [0, 1].

    Returns:
        The comparison; `regressed` also for records that error now or are missing.

    Raises:
        ValueError: The threshold is not in [0, 1].

    Cost: linear in the number of task results.
    """
    _check_threshold(regression_threshold)
    old_rows, new_rows = _rows(baseline), _rows(new)
    pairs = [(row, new_rows[key]) for key, row in old_rows.items() if key in new_rows]
    workflows = tuple(_workflow(old, now, regression_threshold) for old, now in pairs)
    missing = _missing_records(old_rows, new_rows)
    errored = [
        row
        for key, row in new_rows.items()
        if row.outcome is Outcome.ERRORED
        and (key not in old_rows or old_rows[key].outcome is not Outcome.ERRORED)
    ]
    stats = _task_stats(
        [row.tasks for row in old_rows.values()],
        [row.tasks for row in new_rows.values()],
        [(old.tasks, now.tasks) for old, now in pairs],
    )
    regressions = [workflow for workflow in workflows if workflow.is_regression]
    reasons = record_reasons(
        regressions,
        [(row.name, _error_message(row)) for row in errored],
        [row for row in missing if row.present_in == "baseline_only"],
        [now.name for old, now in pairs if _is_unrelated(old.tasks, now.tasks)],
    )
    deltas = [workflow.pass_rate_delta for workflow in workflows]
    improved = sum(_rose(delta, regression_threshold) for delta in deltas)
    return ComparisonResults(
        regression_threshold=regression_threshold,
        workflow_comparisons=workflows,
        total_workflows=len(workflows),
        improved_workflows=improved,
        regressed_workflows=len(regressions),
        unchanged_workflows=len(workflows) - improved - len(regressions),
        mean_pass_rate_delta=sum(deltas) / len(deltas) if deltas else 0.0,
        task_status_changes=tuple(
            task
            for workflow in workflows
            for task in workflow.task_comparisons
            if task.status_changed
        ),
        missing_tasks=tuple(task for old, now in pairs for task in _missing_tasks(old, now)),
        missing_records=missing,
        errored_records=tuple(row.name for row in errored),
        baseline_workflow_count=len(old_rows),
        comparison_workflow_count=len(new_rows),
        task_aggregate_stats=stats,
        baseline_pass_rate=rate_of(t for r in old_rows.values() for t in r.tasks.values()),
        comparison_pass_rate=rate_of(t for r in new_rows.values() for t in r.tasks.values()),
        regressed=bool(reasons),
        reasons=reasons,
    )


def compare_scenario_results(
    baseline: ScenarioEvalResults,
    new: ScenarioEvalResults,
    regression_threshold: float = DEFAULT_THRESHOLD,
) -> ScenarioComparisonResults:
    """Compare two replays: every alias, every scenario, every record.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        regression_threshold: Smallest fall of a pass rate that counts, in [0, 1].

    Returns:
        The comparison; see `ScenarioComparisonResults` for what makes it `regressed`.

    Raises:
        ValueError: The threshold is not in [0, 1].

    Cost: linear in the number of task results.
    """
    _check_threshold(regression_threshold)
    aliases = _Sides(baseline.dataset_results, new.dataset_results)
    comparisons = {
        alias: compare_results(
            baseline.dataset_results[alias], new.dataset_results[alias], regression_threshold
        )
        for alias in aliases.both
    }
    old_details = {result.scenario_id: result for result in baseline.scenario_results}
    new_details = {result.scenario_id: result for result in new.scenario_results}
    judged = _Sides(old_details, new_details)
    deltas = tuple(
        _scenario_delta(old_details[name], new_details[name], regression_threshold)
        for name in judged.both
    )
    scenarios = _Sides(baseline.scenario_ids, new.scenario_ids)
    no_longer_judged = [name for name in judged.removed if name not in scenarios.removed]
    newly_errored = [name for name in judged.added if new_details[name].outcome is Outcome.ERRORED]
    reasons = scenario_reasons(
        comparisons,
        [(delta, new_details[delta.scenario_id]) for delta in deltas if delta.is_regression],
        removed_aliases=aliases.removed,
        removed_scenarios=scenarios.removed,
        unjudged_scenarios=no_longer_judged,
        errored_scenarios=newly_errored,
    )
    return ScenarioComparisonResults(
        regression_threshold=regression_threshold,
        dataset_comparisons=comparisons,
        scenario_deltas=deltas,
        baseline_overall_pass_rate=baseline.metrics.overall_pass_rate,
        comparison_overall_pass_rate=new.metrics.overall_pass_rate,
        baseline_alias_pass_rates=baseline.metrics.dataset_pass_rates,
        comparison_alias_pass_rates=new.metrics.dataset_pass_rates,
        regressed=bool(reasons),
        improved_aliases=[
            alias
            for alias, comparison in comparisons.items()
            if not comparison.regressed and comparison.improved_workflows
        ],
        regressed_aliases=[
            *(alias for alias, comparison in comparisons.items() if comparison.regressed),
            *aliases.removed,
        ],
        new_aliases=aliases.added,
        removed_aliases=aliases.removed,
        regressed_scenarios=[
            *(delta.scenario_id for delta in deltas if delta.is_regression),
            *newly_errored,
            *no_longer_judged,
            *scenarios.removed,
        ],
        new_scenarios=scenarios.added,
        removed_scenarios=scenarios.removed,
        scenario_task_stats=_task_stats(
            [_by_id(result) for result in old_details.values()],
            [_by_id(result) for result in new_details.values()],
            [(_by_id(old_details[name]), _by_id(new_details[name])) for name in judged.both],
        ),
        reasons=reasons,
        notes=profile_notes(baseline.provenance.profile_digests, new.provenance.profile_digests),
    )


class _Sides:
    """Names that both runs have, that are new, and that are gone; each in its run's order."""

    def __init__(self, old: Iterable[str], new: Iterable[str]) -> None:
        before, after = dict.fromkeys(old), dict.fromkeys(new)
        self.both = [name for name in before if name in after]
        self.added = [name for name in after if name not in before]
        self.removed = [name for name in before if name not in after]


def _check_threshold(value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"regression_threshold is {value}; expected a share from 0 to 1")


def _rows(results: EvalResults) -> dict[_Key, _Row]:
    """Give each record the key that it has in every run."""
    seen: Counter[_Group] = Counter()
    rows: dict[_Key, _Row] = {}
    for result in results.aligned_results:
        group = result.scenario_id, result.record_id
        ordinal = seen[group]
        seen[group] += 1
        rows[group, ordinal] = _Row(
            name=_name(result, ordinal),
            scenario_id=result.scenario_id,
            ordinal=ordinal,
            outcome=result.outcome,
            tasks={task.task_id: task for task in result.record.tasks},
        )
    return rows


def _name(result: AlignedEvalResult, ordinal: int) -> str:
    parts = [result.scenario_id, result.record_id]
    if ordinal or not result.record_id:
        parts.append(f"#{ordinal + 1}")
    return " ".join(part for part in parts if part)


def _fell(delta: float, threshold: float) -> bool:
    return delta < -_EPSILON and delta <= -threshold + _EPSILON


def _rose(delta: float, threshold: float) -> bool:
    return _fell(-delta, threshold)


def _workflow(old: _Row, now: _Row, threshold: float) -> WorkflowComparison:
    before, after = _rates(old.tasks, now.tasks)
    lost = _lost(old.tasks, now.tasks)
    return WorkflowComparison(
        baseline_id=old.name,
        comparison_id=now.name,
        scenario_id=now.scenario_id,
        ordinal=now.ordinal,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        baseline_pass_rate=before,
        comparison_pass_rate=after,
        pass_rate_delta=after - before,
        is_regression=bool(lost) or _fell(after - before, threshold),
        task_comparisons=tuple(
            _task(task, now.tasks[name], now.name)
            for name, task in old.tasks.items()
            if name in now.tasks
        ),
        lost_tasks=lost,
    )


def _rates(old: _Tasks, now: _Tasks) -> tuple[float, float]:
    """Rate of the baseline's tasks in both runs; one that counts in one run counts in both."""
    names = [
        name
        for name, task in old.items()
        if is_counted(task) or (name in now and is_counted(now[name]))
    ]
    total = max(len(names), 1)
    before = sum(old[name].passed for name in names)
    after = sum(now[name].passed for name in names if name in now)
    return before / total, after / total


def _lost(old: _Tasks, now: _Tasks) -> tuple[str, ...]:
    """Tasks that passed and are gone: nobody looks there any more."""
    return tuple(name for name, task in old.items() if task.passed and name not in now)


def _is_unrelated(old: _Tasks, now: _Tasks) -> bool:
    return bool(old) and not old.keys() & now.keys()


def _task(old: _Judged, now: _Judged, record: str) -> TaskComparison:
    return TaskComparison(
        task_id=now.task_id,
        record_id=record,
        baseline_passed=old.passed,
        comparison_passed=now.passed,
        status_changed=old.passed != now.passed,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        message=now.message,
    )


def _missing_tasks(old: _Row, now: _Row) -> list[MissingTask]:
    sides = _Sides(old.tasks, now.tasks)
    found: dict[Side, list[str]] = {
        "baseline_only": sides.removed,
        "comparison_only": sides.added,
    }
    return [
        MissingTask(task_id=name, present_in=side, record_id=now.name)
        for side, names in found.items()
        for name in names
    ]


def _missing_records(
    old: Mapping[_Key, _Row], new: Mapping[_Key, _Row]
) -> tuple[MissingRecord, ...]:
    sides: list[tuple[Side, Mapping[_Key, _Row], Mapping[_Key, _Row]]] = [
        ("baseline_only", old, new),
        ("comparison_only", new, old),
    ]
    return tuple(
        MissingRecord(
            record_id=row.name,
            scenario_id=row.scenario_id,
            ordinal=row.ordinal,
            present_in=side,
            outcome=row.outcome,
        )
        for side, here, there in sides
        for key, row in here.items()
        if key not in there
    )


def _error_message(row: _Row) -> str:
    return next(
        (
            f"{task.task_id}: {task.message}"
            for task in row.tasks.values()
            if task.outcome is Outcome.ERRORED
        ),
        "no task could be judged",
    )


def _task_stats(
    old: Sequence[_Tasks], new: Sequence[_Tasks], pairs: Sequence[tuple[_Tasks, _Tasks]]
) -> tuple[TaskAggregateStats, ...]:
    names = dict.fromkeys(name for tasks in (*old, *new) for name in tasks)
    before, after = _counts(old), _counts(new)
    paired: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for was, now in pairs:
        for name in was:
            if name in now and (is_counted(was[name]) or is_counted(now[name])):
                paired[name].append((was[name].passed, now[name].passed))
    return tuple(_stats(name, before[name], after[name], paired[name]) for name in names)


def _counts(rows: Sequence[_Tasks]) -> dict[str, tuple[int, int]]:
    """Per task, how many passed and how many count."""
    counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for tasks in rows:
        for name, task in tasks.items():
            passed, total = counts[name]
            counts[name] = (passed + task.passed, total + is_counted(task))
    return counts


def _stats(
    name: str,
    old: tuple[int, int],
    new: tuple[int, int],
    pairs: Sequence[tuple[bool, bool]],
) -> TaskAggregateStats:
    before, after = _rate(*old), _rate(*new)
    return TaskAggregateStats(
        task_id=name,
        workflows_evaluated=len(pairs),
        baseline_pass_count=sum(was for was, _ in pairs),
        comparison_pass_count=sum(now for _, now in pairs),
        status_changed_count=sum(was != now for was, now in pairs),
        baseline_count=old[1],
        comparison_count=new[1],
        baseline_passed=old[0],
        comparison_passed=new[0],
        baseline_pass_rate=before,
        comparison_pass_rate=after,
        difference=after - before,
        baseline_interval=wilson(*old),
        comparison_interval=wilson(*new),
    )


def _rate(passed: int, total: int) -> float:
    return passed / total if total else 0.0


def _by_id(result: ScenarioResult) -> _Tasks:
    return {task.task_id: task for task in result.task_results}


def _scenario_delta(old: ScenarioResult, now: ScenarioResult, threshold: float) -> ScenarioDelta:
    was, tasks = _by_id(old), _by_id(now)
    before, after = _rates(was, tasks)
    lost, unrelated = _lost(was, tasks), _is_unrelated(was, tasks)
    flipped = old.passed and not now.passed
    errors_now = now.outcome is Outcome.ERRORED and old.outcome is not Outcome.ERRORED
    return ScenarioDelta(
        scenario_id=now.scenario_id,
        initial_query=now.initial_query,
        baseline_passed=old.passed,
        comparison_passed=now.passed,
        baseline_pass_rate=before,
        comparison_pass_rate=after,
        status_changed=old.passed != now.passed,
        baseline_outcome=old.outcome,
        comparison_outcome=now.outcome,
        is_regression=(
            flipped or errors_now or unrelated or bool(lost) or _fell(after - before, threshold)
        ),
        lost_tasks=lost,
        has_no_common_task=unrelated,
    )
