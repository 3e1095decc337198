"""One scenario in plain text, and a span in one line."""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.trace_view import SpanView
from scouter.model.log_event import ForeignResult
from scouter.model.visible import visible
from scouter.replay.reports.texts import clip, counted, duration, quoted, value_text
from scouter.replay.reports.view import BAD, AttemptView, RecordView, ScenarioView, note_of

NAME: Final = 120
"""Characters of a span's name."""
MAX_INDENT: Final = 12
"""Deeper spans are not indented further, so that their names stay readable."""


def detail(span: SpanView) -> str:
    """Write tool, agent, model and tokens of a span; empty if it tells none of them."""
    reported = (("tool", span.tool), ("agent", span.agent), ("model", span.model))
    parts = [f"{word} {value}" for word, value in reported if value]
    if span.input_tokens is not None or span.output_tokens is not None:
        parts.append(tokens_text(span.input_tokens, span.output_tokens))
    return clip(" · ".join(parts), NAME)


def tokens_text(given: int | None, made: int | None) -> str:
    """Write `20 → 5 tokens`; a `?` where one is not known."""
    shown = ("?" if count is None else f"{count:,}" for count in (given, made))
    return f"{' → '.join(shown)} tokens"


def values(span: SpanView) -> Iterator[tuple[str, JsonValue]]:
    """Name and value of all that a span holds, what matters most first."""
    if span.arguments is not None:
        yield "arguments", span.arguments
    if span.has_result:
        yield "result", span.result
    for message in span.input_messages:
        yield said("input", message)
    for message in span.output_messages:
        yield said("output", message)
    for each in span.foreign:
        yield f"result of another evaluator, {each.name or 'without a name'}", _said_of(each)
    for event in span.events:
        yield f"event {event.name}", dict(event.attributes)
    if span.attributes:
        yield "attributes", dict(span.attributes)


def _said_of(result: ForeignResult) -> JsonValue:
    """Write the fields that a result of another evaluator has, without the empty ones."""
    reported: dict[str, JsonValue] = {
        "label": result.label, "score": result.score, "explanation": result.explanation,
        "error": result.error,
    }  # fmt: skip
    return {name: value for name, value in reported.items() if value not in (None, "")}


def said(what: str, message: JsonValue) -> tuple[str, JsonValue]:
    """Name a message by its role, and give its text where it is nothing but text."""
    if not isinstance(message, dict):
        return what, message
    name = f"{what} {role}" if isinstance(role := message.get("role"), str) else what
    content, parts = message.get("content"), message.get("parts")
    if isinstance(content, str) and not message.get("tool_calls"):
        return name, content
    texts = [_text_of(part) for part in parts] if isinstance(parts, list) else []
    if texts and None not in texts:
        return name, "\n".join(text or "" for text in texts)
    return name, message


def _text_of(part: JsonValue) -> str | None:
    """The text of a message's part; None of any other part."""
    if isinstance(part, dict) and part.get("type") == "text":
        content = part.get("content")
        return content if isinstance(content, str) else None
    return None


_ATTEMPTS: Final = 3
_TURNS: Final = 12
_SPANS: Final = 60
_TEXT: Final = 1_200
_BAR: Final = 20
_ERROR: Final = 400


def is_passed(attempt: AttemptView) -> bool:
    """Tell whether an attempt ran to its end and nothing in it failed or errored."""
    outcomes = {attempt.outcome, *(record.outcome for record in attempt.records)}
    return not attempt.error and not outcomes & BAD


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
    turns = list(attempt.turns)
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


def _check(check: EvalTaskResult, where: str) -> Iterator[str]:
    if check.outcome not in BAD:
        return
    note = f" ({text})" if (text := note_of(check)) else ""
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
        more = f"  {reported}" if (reported := detail(span)) else ""
        more += f"  ERROR {clip(span.error, _ERROR)}" if span.error else ""
        lasted = duration(span.duration_ns)
        yield f"  {clip(name, 60):<{width}}  |{drawn:<{_BAR}}| {lasted:>8}{more}"
    if found.left_out:
        yield f"  and {counted(found.left_out, 'more span')}"
