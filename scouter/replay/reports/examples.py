"""Examples: the few scenarios that explain a decision, with question, expected, got and trace."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.outcome import Outcome
from scouter.replay.reports.texts import clip, counted, duration, quoted
from scouter.replay.reports.view import AttemptView, CheckView, ScenarioView, View

SHOWN: Final = 3

_BAD: Final = {Outcome.FAILED, Outcome.ERRORED}
_VALUE: Final = 300
_SPANS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One scenario that did not pass, by the first thing in it that did not."""

    scenario_id: str
    question: str
    passed: str
    """Number of its attempts that passed, in words; empty for a single attempt."""
    check: str
    """Alias and task; empty where the agent raised."""
    expected: str
    """Operator and value as JSON; empty where the agent raised."""
    got: str
    """Actual value as JSON, or the error."""
    trace: str
    """Its spans by start time, in one line; empty without any."""


def examples(view: View, comparison: ScenarioComparisonResults | None) -> list[Example]:
    """Choose what explains a decision best.

    Args:
        view: The run.
        comparison: With the baseline, if there is one.

    Returns:
        At most three: first the scenarios that are broken, then those that passed before and not
        now, then others by urgency. Empty if everything passed.
    """
    wanted: list[str] = []
    if comparison is not None:
        wanted += [each.scenario_id for each in comparison.confirmations if each.is_broken]
        asked = {each.scenario_id for each in comparison.confirmations}
        wanted += [name for name in comparison.flips if name not in asked]
        wanted += comparison.flips
    order = {name: at for at, name in enumerate(dict.fromkeys(wanted))}
    found = sorted(view.by_urgency, key=lambda each: order.get(each.scenario_id, len(order)))
    return [example for scenario in found if (example := _example(scenario)) is not None][:SHOWN]


def _example(scenario: ScenarioView) -> Example | None:
    for attempt in scenario.attempts:
        for name, check in _checks(attempt):
            if check.outcome in _BAD and not attempt.error:
                return _of(scenario, attempt, name, _expected(check), _got(check))
        if attempt.error:
            return _of(scenario, attempt, "", "", clip(attempt.error.splitlines()[0], _VALUE))
    return None


def _of(
    scenario: ScenarioView, attempt: AttemptView, check: str, expected: str, got: str
) -> Example:
    tries = len(scenario.attempts)
    return Example(
        scenario_id=scenario.scenario_id,
        question=clip(" ".join(scenario.query.split()), _VALUE),
        passed=f"{scenario.passed} of {tries} attempts passed" if tries > 1 else "",
        check=check,
        expected=expected,
        got=got,
        trace=_trace(attempt),
    )


def _checks(attempt: AttemptView) -> Iterator[tuple[str, CheckView]]:
    for check in attempt.checks:
        yield check.task_id, check
    for record in attempt.records:
        for check in record.checks:
            yield f"{record.alias} · {check.task_id}", check


def _expected(check: CheckView) -> str:
    """The value behind its operator; results of a summary have no operator."""
    return f"{check.operator} {quoted(check.expected, _VALUE)}".lstrip()


def _got(check: CheckView) -> str:
    """The value, or where there is none what is wrong."""
    if check.outcome is Outcome.ERRORED or check.actual is None:
        return clip(check.message, _VALUE)
    return quoted(check.actual, _VALUE)


def _trace(attempt: AttemptView) -> str:
    if not attempt.spans:
        return ""
    found = attempt.trace(_SPANS)
    names = [f"{span.name}{' (error)' if span.error else ''}" for span in found.spans]
    more = f", and {found.left_out} more" if found.left_out else ""
    lasted = f"{counted(len(attempt.spans), 'span')}, {duration(found.duration_ns)}"
    return f"{lasted}: {', '.join(names)}{more}"
