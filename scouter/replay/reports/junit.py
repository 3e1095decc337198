"""A run as JUnit XML, which every build server shows.

One suite for each scenario that has checks of its own, with a case per task and attempt; one for
each alias, with a case per task and record; one each for the gates, the comparison and the
scenarios that were asked again. The XML holds what the common schema of that format (the one of
Jenkins' xUnit plugin) allows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as Xml

from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.replay.reports.decision import Word, compared, unjudged_reason
from scouter.replay.reports.report import Report
from scouter.replay.reports.texts import quoted, xml_text
from scouter.replay.reports.view import AttemptView, ScenarioView, note_of

_COMPARISON: Final = "comparison with the baseline"
_AGAIN: Final = "asked again"

_RANDOM: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{16}", re.I)
"""An id that was made by chance; a build server takes each name for another test."""

_TAGS: Final = {
    Outcome.FAILED: "failure",
    Outcome.ERRORED: "error",
    Outcome.SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestCase:
    suite: str
    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    kind: str = ""
    details: str = ""


def write(path: str | Path, report: Report) -> None:
    """Write the report, all of it or nothing.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(Path(path), render(report))


def render(report: Report) -> str:
    """Make the XML text."""
    suites: dict[str, list[_TestCase]] = {}
    for case in _cases(report):
        suites.setdefault(case.suite, []).append(case)
    root = Xml.Element("testsuites", name=xml_text(report.title))
    _count(root, [case for cases in suites.values() for case in cases])
    for name, cases in suites.items():
        element = Xml.SubElement(root, "testsuite", name=xml_text(name))
        _count(element, cases)
        if name == _COMPARISON:
            found = [("changed", text) for text in report.changes]
            found.append(("decision", str(report.decision.word)))
            found.append(("headline", report.decision.headline))
            _add_properties(element, found)
        if name == _AGAIN and report.reasked is not None:
            _add_properties(element, [("cost", report.reasked.cost)])
        element.extend(map(_case_element, cases))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _add_properties(suite: Xml.Element, found: Iterable[tuple[str, str]]) -> None:
    properties = Xml.SubElement(suite, "properties")
    for name, value in found:
        Xml.SubElement(properties, "property", name=name, value=xml_text(value))


def _count(element: Xml.Element, cases: Sequence[_TestCase]) -> None:
    outcomes = [case.outcome for case in cases]
    element.set("tests", str(len(cases)))
    element.set("failures", str(outcomes.count(Outcome.FAILED)))
    element.set("errors", str(outcomes.count(Outcome.ERRORED)))
    if element.tag == "testsuite":
        element.set("skipped", str(outcomes.count(Outcome.SKIPPED)))
    element.set("time", f"{sum(case.seconds for case in cases):.3f}")


def _case_element(case: _TestCase) -> Xml.Element:
    element = Xml.Element(
        "testcase",
        classname=xml_text(case.suite),
        name=xml_text(case.name),
        time=f"{case.seconds:.3f}",
    )
    tag = _TAGS.get(case.outcome)
    if tag is not None:
        found = Xml.SubElement(element, tag, message=xml_text(case.message))
        if tag != "skipped":
            found.set("type", xml_text(case.kind or str(case.outcome)))
        found.text = xml_text(case.details) or None
    return element


def _cases(report: Report) -> Iterator[_TestCase]:
    for scenario in report.view.scenarios:
        yield from _scenario_cases(scenario)
    for scenario in report.view.scenarios:
        yield from _record_cases(scenario)
    for gate in report.gate_checks:
        outcome = Outcome.PASSED if gate.met else Outcome.FAILED
        yield _TestCase(suite="gates", name=gate.name, outcome=outcome, message=gate.reason)
    comparison = report.comparison
    if comparison is not None:
        found = compared(comparison, report.policy)
        reasons = [each.reason for each in found]
        is_open = any(each.word is Word.INCONCLUSIVE for each in found)
        outcome = Outcome.ERRORED if is_open else Outcome.FAILED if found else Outcome.PASSED
        yield _TestCase(
            suite=_COMPARISON,
            name=str(Word.NO_REGRESSION),
            outcome=outcome,
            message=reasons[0] if reasons else "",
            kind=str(found[0].word) if found else "",
            details="\n".join([*reasons, *(text for each in found[:1] for text in each.advice)]),
        )
    for row in () if report.reasked is None else report.reasked.rows:
        name = row.confirmation.scenario_id
        yield _TestCase(suite=_AGAIN, name=name, outcome=row.outcome, message=row.text)
    if report.decision.word is Word.UNJUDGED:
        why = report.decision.reasons
        yield _TestCase(
            suite="gates",
            name="something was judged",
            outcome=Outcome.FAILED,
            message=why[0],
            details="\n".join(why),
        )
    if left_out := report.results.left_out:
        yield _TestCase(
            suite="gates",
            name="every check of the files was run",
            outcome=Outcome.SKIPPED if report.policy.allow_unjudged else Outcome.FAILED,
            message=unjudged_reason(left_out),
            details="\n".join(left_out),
        )
    if report.judges is not None and report.judges.over_budget:
        yield _TestCase(
            suite="gates",
            name="the judge of every task was called",
            outcome=Outcome.SKIPPED if report.policy.allow_unjudged else Outcome.FAILED,
            message=report.judges.text,
        )
    if lost := report.results.lost:
        yield _TestCase(
            suite="gates",
            name="nothing was lost",
            outcome=Outcome.SKIPPED if report.policy.allow_lost else Outcome.FAILED,
            message=f"lost: {lost[0].text}",
            details="\n".join(f"lost: {each.text}" for each in lost),
        )


def _scenario_cases(scenario: ScenarioView) -> Iterator[_TestCase]:
    suite = f"scenario {scenario.scenario_id}"
    for attempt in scenario.attempts:
        end = _attempt_suffix(scenario, attempt)
        seconds = attempt.duration_ns / 1e9
        if attempt.error:
            yield _TestCase(
                suite=suite,
                name=f"runs to its end{end}",
                outcome=Outcome.ERRORED,
                seconds=seconds,
                message=attempt.error.split("\n")[0],
                kind=attempt.error_reason,
                details=attempt.error,
            )
            seconds = 0.0
        for check in attempt.checks:
            yield _check_case(suite, f"{check.task_id}{end}", check, seconds)
            seconds = 0.0  # the time is the agent's, counted once


def _record_cases(scenario: ScenarioView) -> Iterator[_TestCase]:
    for attempt in scenario.attempts:
        end = _attempt_suffix(scenario, attempt)
        seen: Counter[tuple[str, str]] = Counter()
        places: Counter[str] = Counter()
        for record in attempt.records:
            places[record.alias] += 1
            known_by = record.name
            if _RANDOM.search(known_by):
                known_by = f"#{places[record.alias]}"
            seen[record.alias, known_by] += 1
            count = seen[record.alias, known_by]
            which = f"{known_by} #{count}" if count > 1 else known_by
            for check in record.checks:
                name = f"{scenario.scenario_id}: {which}: {check.task_id}{end}"
                yield _check_case(f"alias {record.alias}", name, check, record=record.name)


def _check_case(
    suite: str, name: str, check: EvalTaskResult, seconds: float = 0.0, record: str = ""
) -> _TestCase:
    return _TestCase(
        suite=suite,
        name=name,
        outcome=check.outcome,
        seconds=seconds,
        message=check.message.split("\n")[0],
        kind=str(check.reason or ""),
        details="\n".join(_details(check, record)),
    )


def _details(check: EvalTaskResult, record: str) -> Iterable[str]:
    yield check.message
    if record:
        yield f"record: {record}"
    note = f" ({text})" if (text := note_of(check)) else ""
    yield f"expected: {quoted(check.expected)}{note}"
    yield f"actual: {quoted(check.actual)}"


def _attempt_suffix(scenario: ScenarioView, attempt: AttemptView) -> str:
    many = len(scenario.attempts) > 1
    return f" (attempt {attempt.number} of {len(scenario.attempts)})" if many else ""
