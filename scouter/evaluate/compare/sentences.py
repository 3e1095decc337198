"""Sentences for people: the reasons why a run is worse than its baseline."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from scouter.evaluate.compare.counts import Change
from scouter.evaluate.compare.data import (
    RecordsComparison,
    ScenarioDelta,
    TaskComparison,
    WorkflowComparison,
)
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.model.visible import some_of

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
    lost: dict[str, list[TaskComparison]] = defaultdict(list)
    gone: dict[str, list[str]] = defaultdict(list)
    apart = set(unrelated)
    for workflow in regressions:
        for task in workflow.task_comparisons:
            if task.baseline_passed and not task.comparison_passed:
                lost[task.task_id].append(task)
        for name in () if workflow.comparison_id in apart else workflow.lost_tasks:
            gone[name].append(workflow.comparison_id)
    reasons = [
        f"task {task_id!r} passed before and does not now in {_count(tasks)}: "
        + _list([task.record_id for task in tasks])
        for task_id, tasks in lost.items()
    ]
    reasons += [
        f"task {task_id!r} passed before and is gone from {_count(names)}: {_list(names)}"
        for task_id, names in gone.items()
    ]
    reasons += [f"record {name} errored: {message}" for name, message in errored[:SHOWN]]
    if len(errored) > SHOWN:
        reasons.append(f"{len(errored) - SHOWN} more records errored")
    reasons += _fallen(fallen)
    if missing:
        reasons.append(f"{_count(missing)} of the baseline missing: {_list(missing)}")
    if unrelated:
        reasons.append(
            f"{_count(unrelated)} with no task in common with the baseline: {_list(unrelated)}"
        )
    return tuple(reasons)


def _fallen(fallen: Sequence[tuple[str, Change]]) -> list[str]:
    """One sentence per task that fell beyond its flakiness in some record, or is gone from it."""
    found: dict[str, list[str]] = defaultdict(list)
    gone: dict[str, list[str]] = defaultdict(list)
    for name, change in fallen:
        for task_id, passes in change.fallen.items():
            if task_id not in change.lost:
                found[task_id].append(f"{name} ({passes})")
        for task_id in change.lost:
            gone[task_id].append(name)
    return [
        f"task {task_id!r} passes less often than its flakiness explains in {_count(names)}: "
        + _list(names)
        for task_id, names in found.items()
    ] + [
        f"task {task_id!r} passed before and is gone from {_count(names)}: {_list(names)}"
        for task_id, names in gone.items()
    ]


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
    if result.error is not None:
        bad.insert(0, result.error_line)
    if max(delta.baseline_attempts, delta.comparison_attempts) > 1:
        return _repeated_scenario(delta, bad, has_raised=result.error is not None)
    before = "passed" if delta.baseline_passed else f"{delta.baseline_pass_rate:.0%} before"
    now = f"{delta.comparison_outcome} now" if delta.status_changed else ""
    rate = now or f"{delta.comparison_pass_rate:.0%} now"
    lead = f"{before} before" if delta.baseline_passed else before
    if delta.has_no_common_task and result.error is None:
        return f"scenario {delta.scenario_id!r}: no task in common with the baseline"
    if delta.lost_tasks and result.error is None:
        bad.append(f"gone, passed before: {_list(delta.lost_tasks)}")
    return f"scenario {delta.scenario_id!r}: {lead}, {rate}: {_list(bad, '; ')}"


def _repeated_scenario(delta: ScenarioDelta, bad: Sequence[str], *, has_raised: bool) -> str:
    if delta.has_no_common_task and not has_raised:
        return f"scenario {delta.scenario_id!r}: no task in common with the baseline"
    lost = () if has_raised else delta.lost_tasks
    gone = [f"gone, passed before: {_list(lost)}"] if lost else []
    return (
        f"scenario {delta.scenario_id!r}: passed in {delta.baseline_passed_attempts} of "
        f"{delta.baseline_attempts} attempts before, in {delta.comparison_passed_attempts} of "
        f"{delta.comparison_attempts} now{_checks(delta)}: {_list([*bad, *gone], '; ')}"
    )


def _checks(delta: ScenarioDelta) -> str:
    """The rates of its checks, where as many attempts passed and only they say what fell."""
    passed = (delta.comparison_passed_attempts or 0) * delta.baseline_attempts
    if passed < (delta.baseline_passed_attempts or 0) * delta.comparison_attempts:
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
