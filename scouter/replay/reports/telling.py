"""The few scenarios that explain a decision, for the first screen of a report."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.outcome import Outcome
from scouter.replay.reports.plain import is_passed
from scouter.replay.reports.texts import clip, quoted, value_text
from scouter.replay.reports.view import AttemptView, CheckView, ScenarioView, View

COUNT: Final = 3
_TEXT: Final = 300
_BAD: Final = {Outcome.FAILED, Outcome.ERRORED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One scenario that did not pass: its question, and one check with what it wanted and got.

    All texts are cut to a few lines.
    """

    scenario_id: str
    question: str
    answer: str
    """The agent's last answer; empty where the results do not hold it."""
    check: str
    """The check that did not pass, with its alias; empty where the agent raised."""
    expected: str
    """As JSON, behind the operator; empty where the check did not come to compare."""
    got: str
    """As JSON; of an agent that raised, its error."""
    message: str
    trace_id: str
    """Of the attempt; empty where no span was captured."""
    attempt: int
    """From 1."""
    passed: int
    """Attempts that passed now."""
    attempts: int
    was: str
    """Outcome in the baseline; empty without one."""


def telling(view: View, count: int = COUNT) -> tuple[Telling, ...]:
    """Choose the scenarios that explain most of what did not pass.

    Those that got worse come first. Of several that failed in one and the same check the first
    stands for all, until there is nothing else to show.

    Args:
        view: The run.
        count: Scenarios at most.
    """
    found = [one for scenario in view.by_urgency for one in _of(scenario)]
    first: dict[str, Telling] = {}
    for one in found:
        first.setdefault(one.check, one)
    others = [one for one in found if first[one.check] is not one]
    return tuple([*first.values(), *others][:count])


def _of(scenario: ScenarioView) -> Iterator[Telling]:
    """The scenario by its first attempt that did not pass; nothing if all did."""
    bad = [attempt for attempt in scenario.attempts if not is_passed(attempt)]
    if not bad:
        return
    attempt = bad[0]
    alias, check = next(_bad_checks(attempt), ("", None))
    compared = check is not None and bool(check.operator) and check.outcome is Outcome.FAILED
    error = attempt.error.splitlines()[0] if attempt.error else ""
    yield Telling(
        scenario_id=scenario.scenario_id,
        question=clip(scenario.query, _TEXT),
        answer="" if attempt.response is None else value_text(attempt.response, _TEXT),
        check="" if check is None else f"{alias} · {check.task_id}" if alias else check.task_id,
        expected=f"{check.operator} {quoted(check.expected, _TEXT)}" if check and compared else "",
        got=quoted(check.actual, _TEXT) if check and compared else clip(error, _TEXT),
        message=clip(check.message if check else error, _TEXT),
        trace_id=attempt.spans[0].trace_id if attempt.spans else "",
        attempt=attempt.number,
        passed=len(scenario.attempts) - len(bad),
        attempts=len(scenario.attempts),
        was=str(scenario.baseline_outcome or ""),
    )


def _bad_checks(attempt: AttemptView) -> Iterator[tuple[str, CheckView]]:
    for check in attempt.checks:
        if check.outcome in _BAD:
            yield "", check
    for record in attempt.records:
        for check in record.checks:
            if check.outcome in _BAD:
                yield record.alias, check
