"""The scenarios of the HTML report: what is shown of each, within bounds on the file's size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.task_result import EvalTaskResult, own_score
from scouter.evaluate.show.trace_view import SpanView, TraceView
from scouter.replay.reports.plain import MAX_INDENT, NAME, detail, values
from scouter.replay.reports.texts import clip, counted, duration, quoted, value_text
from scouter.replay.reports.view import BAD, AttemptView, RecordView, ScenarioView, note_of

Row = dict[str, Any]
"""One part of the page, by the names that the template uses."""

_OPEN: Final = 3
"""Scenarios that are open from the start: the most urgent ones that did not pass."""
_TEXT: Final = 4_000
_QUIET_TEXT: Final = 600
"""Length of a text in an attempt that passed."""
_VALUE: Final = 1_000
_QUERY: Final = 140
_ERROR: Final = 400
_TURNS: Final = 40
_RECORDS: Final = 20
"""Records of one attempt that passed and are shown."""
_BAD_RECORDS: Final = 200
"""Records of one attempt that did not pass and are shown."""


@dataclass(slots=True)
class Budget:
    """Spans and characters that the page may still show; the urgent scenarios get theirs first."""

    spans: int = 20_000
    spans_of_one: int = 300
    spans_of_passed: int = 40
    characters: int = 20_000_000
    """Characters of folded values."""


def scenario_rows(scenarios: Sequence[ScenarioView], budget: Budget) -> list[Row]:
    """Prepare scenarios for the template.

    Args:
        scenarios: In the order in which they are shown.
        budget: Bounds; used up on the way.
    """
    return [
        _scenario(scenario, budget, is_open=at < _OPEN and scenario.outcome in BAD)
        for at, scenario in enumerate(scenarios)
    ]


def _scenario(scenario: ScenarioView, budget: Budget, *, is_open: bool) -> Row:
    attempts = scenario.attempts
    worst = next((a.number for a in attempts if a.outcome in BAD), 0)
    return {
        "scenario_id": scenario.scenario_id,
        "query": clip(" ".join(scenario.query.split()), _QUERY),
        "outcome": str(scenario.outcome),
        "change": scenario.change if scenario.change != "same" else "",
        "change_text": _change_text(scenario),
        "flaky": f"flaky: {scenario.passed} of {len(attempts)}" if scenario.is_flaky else "",
        "meta": _meta(scenario),
        "why": clip(scenario.first_fault, 300),
        "kinds": " ".join(_kinds(scenario)),
        "is_open": is_open,
        "attempts": [
            _attempt(scenario, attempt, budget, is_open=attempt.number == worst)
            for attempt in attempts
        ],
    }


def _kinds(scenario: ScenarioView) -> Iterable[str]:
    if scenario.outcome in BAD:
        yield "bad"
    if scenario.change in {"regressed", "improved", "new"}:
        yield "changed"
    if scenario.is_flaky:
        yield "flaky"


def _change_text(scenario: ScenarioView) -> str:
    if scenario.change in {"regressed", "improved"} and scenario.baseline_outcome is not None:
        return f"{scenario.change}, was {scenario.baseline_outcome}"
    return scenario.change


def _meta(scenario: ScenarioView) -> str:
    checks = [c for a in scenario.attempts for c in a.all_checks if is_counted(c)]
    passed = sum(check.outcome is Outcome.PASSED for check in checks)
    parts = [f"{passed} of {counted(len(checks), 'check')}"] if checks else []
    lasted = sum(attempt.duration_ns for attempt in scenario.attempts)
    if lasted:
        parts.append(duration(lasted // len(scenario.attempts)))
    return " · ".join(parts)


def _attempt(scenario: ScenarioView, attempt: AttemptView, budget: Budget, *, is_open: bool) -> Row:
    is_bad = attempt.outcome in BAD or any(r.outcome in BAD for r in attempt.records)
    limit = _TEXT if is_bad else _QUIET_TEXT
    turns = list(_turns(scenario, attempt, limit))
    shown = turns if len(turns) <= _TURNS else [*turns[: _TURNS // 2], *turns[-_TURNS // 2 :]]
    bad = [r for r in attempt.records if r.outcome in BAD]
    quiet = [r for r in attempt.records if r.outcome not in BAD]
    trace = _trace(attempt, budget, is_bad=is_bad)
    return {
        "number": attempt.number,
        "outcome": str(attempt.outcome),
        "duration": duration(attempt.duration_ns) if attempt.duration_ns else "",
        "error": clip(attempt.error, _TEXT),
        "turns": shown,
        "turns_left_out": len(turns) - len(shown),
        "response": _response(attempt, limit),
        "checks": [_check(check, budget) for check in attempt.checks],
        "records": [_record(r, budget) for r in [*bad[:_BAD_RECORDS], *quiet[:_RECORDS]]],
        "bad_left_out": max(0, len(bad) - _BAD_RECORDS),
        "records_left_out": max(0, len(quiet) - _RECORDS),
        "trace": trace,
        "trace_is_open": is_bad,
        "spans_left_out": "" if trace or not attempt.spans else counted(len(attempt.spans), "span"),
        "is_open": is_open,
    }


def _turns(scenario: ScenarioView, attempt: AttemptView, limit: int) -> Iterable[Row]:
    if not attempt.turns:
        if scenario.query:
            yield _said("user", scenario.query, limit)
        if attempt.response is not None:
            yield _said("agent", attempt.response, limit)
    for turn in attempt.turns:
        yield _said("user", turn.get("user"), limit)
        if not attempt.error or turn.get("agent") is not None:
            yield _said("agent", turn.get("agent"), limit)


def _said(who: str, what: JsonValue, limit: int) -> Row:
    return {"who": who, "text": value_text(what, limit)}


def _response(attempt: AttemptView, limit: int) -> str:
    """Write the response that the checks read, where it is not simply the last answer."""
    if not attempt.turns or attempt.error:
        return ""
    return (
        ""
        if attempt.turns[-1].get("agent") == attempt.response
        else value_text(attempt.response, limit)
    )


def _record(record: RecordView, budget: Budget) -> Row:
    context = [] if record.context is None else [("context", record.context)]
    return {
        "alias": record.alias,
        "name": record.name,
        "outcome": str(record.outcome),
        "checks": [_check(check, budget) for check in record.checks],
        "folded": _folded(context, budget, is_bad=record.outcome in BAD),
    }


def _exchange(exchange: JudgeExchange | None) -> Iterable[tuple[str, JsonValue]]:
    if exchange is not None:
        for message in exchange.messages:
            yield f"asked, as {message['role']}", message["content"]
        yield "answered", exchange.answer


def _check(check: EvalTaskResult, budget: Budget) -> Row:
    is_bad = check.outcome in BAD
    score = own_score(check.score, check.outcome)
    return {
        "task_id": check.task_id,
        "outcome": str(check.outcome),
        "is_quiet": not is_bad,
        "message": clip(check.message, _TEXT) if check.outcome is not Outcome.PASSED else "",
        "operator": check.operator,
        "note": note_of(check),
        "expected": _value(check.expected, is_bad=is_bad),
        "actual": _value(check.actual, is_bad=is_bad),
        "score": "" if score is None else f"{score:g}",
        "folded": _folded(_exchange(check.exchange), budget, is_bad=is_bad),
    }


def _value(value: JsonValue, *, is_bad: bool) -> str:
    return "" if value is None and not is_bad else quoted(value, _VALUE if is_bad else 120)


def _trace(attempt: AttemptView, budget: Budget, *, is_bad: bool) -> Row | None:
    if not attempt.spans or budget.spans <= 0:
        return None
    most = budget.spans_of_one if is_bad else budget.spans_of_passed
    found = attempt.trace(min(most, budget.spans))
    budget.spans -= len(found.spans)
    return {
        "bars": [_bar(found, span, budget, is_bad=is_bad) for span in found.spans],
        "count": counted(len(attempt.spans), "span"),
        "left_out": found.left_out,
        "duration": duration(found.duration_ns),
    }


def _bar(trace: TraceView, span: SpanView, budget: Budget, *, is_bad: bool) -> Row:
    left, width = trace.place(span)
    folded = _folded(values(span), budget, is_bad=is_bad)
    return {
        "name": clip(span.name, NAME),
        "depth": min(span.depth, MAX_INDENT),
        "start_percent": round(left * 100, 2),
        "width_percent": round(width * 100, 2),
        "duration": duration(span.duration_ns),
        "detail": detail(span),
        "error": clip(span.error, _ERROR),
        "tasks": [{"outcome": str(task.outcome), "task_id": task.task_id} for task in span.tasks],
        "folded": folded,
        "summary": clip(", ".join(dict.fromkeys(row["name"] for row in folded)), NAME),
    }


def _folded(found: Iterable[tuple[str, JsonValue]], budget: Budget, *, is_bad: bool) -> list[Row]:
    """Values that are shown on demand; a large one is cut, and says how large it is."""
    rows: list[Row] = []
    for name, value in found:
        if budget.characters <= 0:
            break
        text = value_text(value, _TEXT if is_bad else _QUIET_TEXT)
        budget.characters -= len(text)
        rows.append({"name": name, "text": text})
    return rows
