"""The common base of all reports, with examples of what broke."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import GateCheck
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.flips import Flips, flips, flips_text
from scouter.evaluate.results.run import Confirmation, JudgeTotals, totals_of
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.visible import some_of
from scouter.replay.reports.confirmations import Reasked, reasked_of
from scouter.replay.reports.decision import Decision, Policy, decide
from scouter.replay.reports.texts import clip, counted, duration, quoted
from scouter.replay.reports.view import (
    BAD,
    NO_SCENARIO,
    AttemptView,
    RecordView,
    ScenarioView,
    View,
    make_view,
)

SHOWN: Final = 3
"""Examples that a report shows before it counts the others."""

FIELDS: Final = ("asked", "check", "expected", "got", "trace")
"""Lines of an example, by the names of its fields."""

_VALUE: Final = 300
_SPANS: Final = 6
_ERROR: Final = 80
_ALSO: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One failure: a scenario that did not pass, by the first thing in it that did not."""

    scenario_id: str
    others: tuple[str, ...] = ()
    """Further scenarios in which the same check got the same."""
    passed: str = ""
    """Number of its attempts that passed, in words; empty for a single attempt."""
    why: str = ""
    """Reason of the decision that is about this scenario alone; empty without one."""
    asked: str
    check: str
    """Alias and task, and what failed beside it; empty where the agent raised."""
    expected: str
    """Operator and value as JSON; empty where the agent raised."""
    got: str
    """Actual value as JSON, or the error."""
    trace: str
    """Its id, and its spans by start time, in one line; empty without any."""


def examples(view: View, comparison: ScenarioComparisonResults | None) -> list[Example]:
    """List what did not pass, most telling first.

    Args:
        view: The run.
        comparison: With the baseline, if there is one.

    Returns:
        First the scenarios that are broken, then those that passed before and not now, then others
        by urgency; those in which the same check expected and got the same are one. Empty if
        everything passed.

    Cost: linear in the number of task results.
    """
    wanted: list[str] = []
    again: dict[str, Confirmation] = {}
    if comparison is not None:
        again = {each.scenario_id: each for each in comparison.confirmations}
        wanted += comparison.broken
        wanted += [name for name, each in again.items() if each.is_broken]
        wanted += [name for name in comparison.flips if name not in again]
        wanted += comparison.flips
    order = {name: at for at, name in enumerate(dict.fromkeys(wanted))}
    found = sorted(view.by_urgency, key=lambda each: order.get(each.scenario_id, len(order)))
    merged: dict[tuple[str | bool, ...], Example] = {}
    for scenario in found:
        why = "" if comparison is None else comparison.broken.get(scenario.scenario_id, "")
        is_new = scenario.scenario_id in order
        for example in _examples(scenario, why, again.get(scenario.scenario_id)):
            key = is_new, example.why, example.check, example.expected, example.got
            known = merged.setdefault(key, example)
            if known is not example:
                merged[key] = replace(known, others=(*known.others, example.scenario_id))
    return list(merged.values())


def _examples(scenario: ScenarioView, why: str, again: Confirmation | None) -> Iterator[Example]:
    """One for a scenario; one for each record where there is none."""
    name, passed = scenario.scenario_id, _passed(scenario, again)
    for attempt in scenario.attempts:
        if name == NO_SCENARIO:
            for record in attempt.records:
                if bad := _bad(record):
                    yield _of(record.name, scenario, attempt, bad)
        elif attempt.error:
            yield replace(_of(name, scenario, attempt, []), why=why, passed=passed)
            return
        elif bad := _all_bad(attempt):
            yield replace(_of(name, scenario, attempt, bad), why=why, passed=passed)
            return


def _passed(scenario: ScenarioView, again: Confirmation | None) -> str:
    """Count in words the attempts that passed; empty for a single one."""
    tries = len(scenario.attempts)
    parts = [f"{scenario.passed} of {tries} attempts passed"] if tries > 1 else []
    if again is not None and again.asked:
        parts.append(f"{again.passed} of {again.asked} when asked again alone")
    return ", ".join(parts)


def _all_bad(attempt: AttemptView) -> list[tuple[str, EvalTaskResult]]:
    own = [(check.task_id, check) for check in attempt.checks if check.outcome in BAD]
    return [*own, *(each for record in attempt.records for each in _bad(record))]


def _bad(record: RecordView) -> list[tuple[str, EvalTaskResult]]:
    return [
        (f"{record.alias} · {check.task_id}", check)
        for check in record.checks
        if check.outcome in BAD
    ]


def _of(
    name: str,
    scenario: ScenarioView,
    attempt: AttemptView,
    bad: list[tuple[str, EvalTaskResult]],
) -> Example:
    check = bad[0][1] if bad else None
    query = " ".join(scenario.query.split())
    return Example(
        scenario_id=name,
        asked="" if query == name else clip(query, _VALUE),  # rows are called by their prompt
        check=_checks([each for each, _ in bad]),
        expected=_expected(check) if check else "",
        got=_got(check) if check else clip(attempt.error.splitlines()[0], _VALUE),
        trace=_trace(attempt),
    )


def _checks(names: list[str]) -> str:
    """The first check, and the others that failed with it."""
    first, *others = names or [""]
    also = some_of([*dict.fromkeys(others)], _ALSO)
    return f"{first}; also {also}" if also else first


def _expected(check: EvalTaskResult) -> str:
    """The value behind its operator; results of a summary have no operator."""
    return f"{check.operator} {quoted(check.expected, _VALUE)}".lstrip()


def _got(check: EvalTaskResult) -> str:
    """The value, or what is wrong where there is none, or more than the number that is compared."""
    is_more = isinstance(check.actual, dict) and isinstance(check.expected, int | float)
    if check.outcome is Outcome.ERRORED or check.actual is None or is_more:
        return clip(check.message, _VALUE)
    return quoted(check.actual, _VALUE)


def _trace(attempt: AttemptView) -> str:
    if not attempt.spans:
        return ""
    found = attempt.trace(_SPANS)
    names = [
        f"{span.name} (error: {clip(span.error, _ERROR)})" if span.error else span.name
        for span in found.spans
    ]
    more = f", and {found.left_out} more" if found.left_out else ""
    lasted = f"{counted(len(attempt.spans), 'span')}, {duration(found.duration_ns)}"
    return f"{attempt.spans[0].trace_id}, {lasted}: {', '.join(names)}{more}"


@dataclass(frozen=True)
class Report:
    """One release check: the run, its comparison and gates, and the decision.

    Args:
        results: The run.
        comparison: Comparison with the baseline, if there is one.
        gate_checks: Each gate, met or not.
        policy: Rules that may stop a release.
        title: The first words of the report.
        saved: The file that the run was saved to; empty for none.
    """

    results: ScenarioEvalResults
    comparison: ScenarioComparisonResults | None = None
    gate_checks: Sequence[GateCheck] = ()
    policy: Policy = field(default_factory=Policy)
    title: str = "Scouter release check"
    saved: str = ""

    @cached_property
    def decision(self) -> Decision:
        """Decision of the check, with its reasons and its exit code."""
        return decide(self.results, self.comparison, self.gate_checks, self.policy, self.saved)

    @property
    def changes(self) -> Sequence[str]:
        """Checks that are not what they were in the baseline, with what became of each."""
        found = () if self.comparison is None else self.comparison.changes
        return [each.text for each in found]

    @cached_property
    def judges(self) -> JudgeTotals | None:
        """Usage of the judges; None where no task called one."""
        return totals_of(self.results)

    @cached_property
    def examples(self) -> list[Example]:
        """Everything that did not pass, once each, most telling first."""
        return examples(self.view, self.comparison)

    @property
    def failures_title(self) -> str:
        """Heading above the examples."""
        return "What broke" if self.decision.is_stopped else "What did not pass"

    def why(self, shown: Sequence[Example]) -> list[str]:
        """Name the reasons of the decision that none of these examples tells."""
        reported = {example.why for example in shown}
        return [reason for reason in self.decision.reasons if reason not in reported]

    @cached_property
    def notes(self) -> list[str]:
        """What a reader should know beside the decision, one line each."""
        again = [] if self.reasked is None else [self.reasked.cost]
        judges = [] if self.judges is None else [self.judges.text]
        flipped = [text] if (text := flips_text(self.flips)) else []
        return [*self.decision.notes, *again, *flipped, *judges]

    @cached_property
    def flips(self) -> Sequence[Flips]:
        """Checks that passed in an attempt and not in another one, with whose each flip is."""
        return flips(self.results) if self.comparison is None else self.comparison.check_flips

    @cached_property
    def reasked(self) -> Reasked | None:
        """Scenarios that were asked again, with the results; None where none was."""
        return reasked_of(self.results)

    @cached_property
    def view(self) -> View:
        """The results as a reader sees them, read once for all reports."""
        return make_view(self.results, self.comparison)
