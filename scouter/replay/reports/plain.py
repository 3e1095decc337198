"""One scenario in plain text: what a failed test says."""

from collections.abc import Iterator
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.outcome import Outcome
from scouter.model.visible import visible
from scouter.replay.reports.span_text import MAX_INDENT, NAME, detail
from scouter.replay.reports.texts import clip, counted, duration, quoted, value_text
from scouter.replay.reports.view import AttemptView, CheckView, RecordView, ScenarioView

_BAD: Final = {Outcome.FAILED, Outcome.ERRORED}
_ATTEMPTS: Final = 3
_TURNS: Final = 12
_SPANS: Final = 60
_TEXT: Final = 1_200
_BAR: Final = 20
_ERROR: Final = 400


def is_passed(attempt: AttemptView) -> bool:
    """Tell whether an attempt ran to its end and nothing in it failed or errored."""
    outcomes = {attempt.outcome, *(record.outcome for record in attempt.records)}
    return not attempt.error and not outcomes & _BAD


def scenario_text(scenario: ScenarioView) -> str:
    """Write what did not pass: conversation, expected, actual and the trace.

    Returns:
        Lines of text; empty if every attempt passed.
    """
    bad = [attempt for attempt in scenario.attempts if not is_passed(attempt)]
    if not bad:
        return ""
    total = len(scenario.attempts)
    lead = f"scenario {scenario.scenario_id!r}"
    if total > 1:
        lead += f": {len(bad)} of {total} attempts did not pass"
    else:
        lead += " did not pass"
    lines = [lead]
    for attempt in bad[:_ATTEMPTS]:
        if total > 1:
            lines.append(f"attempt {attempt.number} of {total}")
        lines += [f"  {line}" for line in _attempt(scenario, attempt)]
    if len(bad) > _ATTEMPTS:
        lines.append(f"and {counted(len(bad) - _ATTEMPTS, 'more attempt')}")
    return "\n".join(map(visible, lines))


def _attempt(scenario: ScenarioView, attempt: AttemptView) -> Iterator[str]:
    if attempt.error:
        yield from _block("error", attempt.error)
    yield from _conversation(scenario, attempt)
    for check in attempt.checks:
        yield from _check(check, "")
    for record in attempt.records:
        yield from _record(record)
    if attempt.spans:
        yield from _trace(attempt)


def _conversation(scenario: ScenarioView, attempt: AttemptView) -> Iterator[str]:
    turns = [cast("dict[str, JsonValue]", turn) for turn in attempt.turns]
    if not turns and (scenario.query or attempt.response is not None):
        turns = [{"user": scenario.query, "agent": attempt.response}]
    if len(turns) > _TURNS:
        yield f"({counted(len(turns) - _TURNS, 'earlier exchange')} left out)"
    for turn in turns[-_TURNS:]:
        yield from _block("user", value_text(turn.get("user"), _TEXT))
        if turn.get("agent") is not None:
            yield from _block("agent", value_text(turn.get("agent"), _TEXT))


def _record(record: RecordView) -> Iterator[str]:
    for check in record.checks:
        yield from _check(check, f"{record.alias}, record {record.name}: ")


def _check(check: CheckView, where: str) -> Iterator[str]:
    if check.outcome not in _BAD:
        return
    note = f" ({check.note})" if check.note else ""
    yield f"check {where}{check.task_id}: {check.outcome}"
    yield from _block("  message", clip(check.message, _TEXT))
    yield from _block("  expected", quoted(check.expected, _TEXT) + note)
    yield from _block("  actual", quoted(check.actual, _TEXT))


def _block(name: str, text: str) -> Iterator[str]:
    """The first line beside the name, the others below it."""
    first, *others = text.splitlines() or [""]
    yield f"{name}: {first}"
    indent = " " * (len(name) - len(name.lstrip()) + 2)
    yield from (f"{indent}{line}" for line in others)


def _trace(attempt: AttemptView) -> Iterator[str]:
    found = attempt.trace(_SPANS)
    yield f"trace: {counted(len(attempt.spans), 'span')}, {duration(found.duration_ns)}"
    names = [f"{'  ' * min(s.depth, MAX_INDENT)}{clip(s.name, NAME)}" for s in found.spans]
    width = min(60, max(map(len, names)))
    for name, span in zip(names, found.spans, strict=True):
        left, length = found.place(span)
        drawn = (" " * min(round(left * _BAR), _BAR - 1) + "█" * max(1, round(length * _BAR)))[
            :_BAR
        ]
        more = f"  {told}" if (told := detail(span)) else ""
        more += f"  ERROR {clip(span.error, _ERROR)}" if span.error else ""
        lasted = duration(span.duration_ns)
        yield f"  {clip(name, 60):<{width}}  |{drawn:<{_BAR}}| {lasted:>8}{more}"
    if found.left_out:
        yield f"  and {counted(found.left_out, 'more span')}"
