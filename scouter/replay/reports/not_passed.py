"""The checks that failed or errored, grouped by task: why a run is not all green."""

from collections.abc import Iterator
from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome, Reason
from scouter.replay.reports.view import AttemptView, CheckView, ScenarioView, View


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPassed:
    """One task that did not pass somewhere."""

    alias: str
    """Empty for a scenario's own task."""
    task_id: str
    count: int
    """Results of the task that did not pass."""
    total: int
    """All its results that count."""
    place: str
    """The first one: scenario, record and attempt."""
    message: str
    """Message of the first result that did not pass."""


def not_passed(view: View) -> list[NotPassed]:
    """Group failed and errored results by alias and task, in order of appearance.

    Tasks that were not evaluated because the agent or the simulated user raised are left out: that
    error is the reason.

    Cost: linear in the number of task results.
    """
    totals: dict[tuple[str, str], int] = {}
    bad: dict[tuple[str, str], list[tuple[str, CheckView]]] = {}
    for place, alias, check in _checks(view):
        key = alias, check.task_id
        totals[key] = totals.get(key, 0) + check.is_counted
        is_bad = check.outcome in {Outcome.FAILED, Outcome.ERRORED}
        if is_bad and check.reason not in {Reason.AGENT, Reason.USER}:
            bad.setdefault(key, []).append((place, check))
    return [
        NotPassed(
            alias=alias,
            task_id=task_id,
            count=len(found),
            total=totals[alias, task_id],
            place=found[0][0],
            message=f"{found[0][1].outcome}: {found[0][1].message}",
        )
        for (alias, task_id), found in bad.items()
    ]


def _checks(view: View) -> Iterator[tuple[str, str, CheckView]]:
    """Each check with its place and alias."""
    for scenario in view.scenarios:
        for attempt in scenario.attempts:
            end = _attempt(scenario, attempt)
            for check in attempt.checks:
                yield f"{scenario.scenario_id}{end}", "", check
            for record in attempt.records:
                for check in record.checks:
                    yield f"{scenario.scenario_id}, record {record.name}{end}", record.alias, check


def _attempt(scenario: ScenarioView, attempt: AttemptView) -> str:
    return f", attempt {attempt.number}" if len(scenario.attempts) > 1 else ""
