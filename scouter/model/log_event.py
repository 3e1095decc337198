"""GenAI events that came as log records, results of other evaluators among them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from scouter.model.attributes import CONVERSATION_ID, SCENARIO_ATTEMPT, SCENARIO_ID, SCENARIO_TRY
from scouter.model.score import SOURCE
from scouter.model.span import Attributes, Scope, Span, SpanEvent

RESULT_EVENT: Final = "gen_ai.evaluation.result"
"""Name of such an event."""
_KEYS: Final = ("scouter.feedback.id", "openlit.score.idempotency_key")
_TRUTH: Final = {"true": 1.0, "false": 0.0}
EVALUATION_ID: Final = "scouter.evaluation.id"
"""Attribute of the events that we send ourselves: what comes back is known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignResult:
    """Another evaluator's result for a span; None or the empty text where it does not say."""

    trace_id: str
    span_id: str
    time_ns: int
    """Nanoseconds since the epoch."""
    name: str
    """Name of the evaluated quality, such as `relevance`."""
    score: float | None
    label: str
    explanation: str
    response_id: str
    error: str
    """Reason why there is no result; empty if there is one."""
    source: str = ""
    """Who says it; `human` for people."""
    key: str = ""
    """Key by which its sender tells it from others."""
    session: str = ""
    """Conversation that it names."""


def is_foreign_result(name: object, attributes: Attributes) -> bool:
    """Tell whether an event is the result of another evaluator, and not one of ours."""
    return name == RESULT_EVENT and EVALUATION_ID not in attributes


def foreign_results(spans: Iterable[Span]) -> list[ForeignResult]:
    """Read the results of other evaluators, in the order of their times.

    Args:
        spans: With their log events attached, where there are any.
    """
    return sorted((each for span in spans for each in _of_span(span)), key=attrgetter("time_ns"))


def _of_span(span: Span) -> Iterator[ForeignResult]:
    events, span_id = span.events, span.span_id
    if span.name == RESULT_EVENT and is_log_event(span):  # one that stands for itself
        events = (SpanEvent(name=span.name, time_ns=span.start_ns, attributes=span.attributes),)
        span_id = span.parent_span_id or ""
    for event in events:
        if is_foreign_result(event.name, event.attributes):
            yield foreign_result(event.attributes, (span.trace_id, span_id), event.time_ns)


def foreign_result(attributes: Attributes, ids: tuple[str, str], time_ns: int) -> ForeignResult:
    """Read the result of another evaluator.

    Args:
        attributes: Of the event.
        ids: Of its trace and span; empty where it is of none.
        time_ns: Time of the event.
    """
    trace_id, span_id = ids
    value = attributes.get("gen_ai.evaluation.score.value")
    score, label = _score(value), _label(attributes.get("gen_ai.evaluation.score.label"))
    error = _text(attributes, "error.type")
    if not (label or error) and value is not None and score is None:
        error = f"its value {value!r:.40} is no number"
    return ForeignResult(
        trace_id=trace_id,
        span_id=span_id,
        time_ns=time_ns,
        name=_text(attributes, "gen_ai.evaluation.name"),
        score=score,
        label=label,
        explanation=_text(attributes, "gen_ai.evaluation.explanation"),
        response_id=_text(attributes, "gen_ai.response.id"),
        error=error,
        source=_text(attributes, SOURCE),
        key=next((text for name in _KEYS if (text := _text(attributes, name))), ""),
        session=_text(attributes, CONVERSATION_ID),
    )


def _text(attributes: Attributes, name: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) else ""


def _label(value: object) -> str:
    """A word; some senders write true, or the number of a class."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""


def _score(value: object) -> float | None:
    """A number, which some senders write as a text; true is 1."""
    if not isinstance(value, int | float | str):
        return None
    try:
        found = float(_TRUTH.get(value.strip().lower(), value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


EVENT_SCOPE: Final = Scope(name="scouter.log_event")
"""Scope of a span that is a log event; its parent is the span that the event belongs to."""
_SCOPE: Final = EVENT_SCOPE.name
EVENT_NAME: Final = "event.name"
"""Attribute of log records that have no field for it."""
BODY: Final = "body"
"""Attribute of a log event whose body is no object."""

_GENAI: Final = "gen_ai."
_CLAUDE_CODE: Final = "claude_code."
_CLAUDE_CODE_WORDS: Final = frozenset({"user_prompt", "assistant_response", "tool_result"})
"""Claude Code's events that tell more than its spans."""

_order = attrgetter("start_ns", "end_ns", "span_id")
_time = attrgetter("time_ns")


def is_genai_event(name: object) -> bool:
    """Tell whether a log record of this event name is one of the conventions."""
    if not isinstance(name, str):
        return False
    words = name.removeprefix(_CLAUDE_CODE)
    return name.startswith(_GENAI) or (words != name and words in _CLAUDE_CODE_WORDS)


def whole_name(name: object, body: object) -> object:
    """Give the name of an event; Claude Code writes its first part into the body alone."""
    return body if body == f"{_CLAUDE_CODE}{name}" else name


def is_log_event(span: Span) -> bool:
    """Tell whether a span is a log event."""
    return span.scope.name == _SCOPE


def is_evidence(span: Span) -> bool:
    """Tell whether a span, or a log event, says what happened: all but results of evaluators do.

    A trace does not wait for them, lacks nothing without them, and is not evaluated again for them.
    """
    return span.name != RESULT_EVENT or not is_log_event(span)


def attach_events(spans: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """Give log events to the spans that they belong to.

    Args:
        spans: Spans and log events, in any order; an event may come several times.

    Returns:
        The spans in the order given, their events in order of time; and the log events whose span
        is not among them.

    Cost: linear, plus the sorting of events of spans that get some.
    """
    given = list(spans)
    events = [each for each in given if each.scope.name == _SCOPE]
    if not events:
        return given, []
    found = {(each.trace_id, each.span_id): each for each in events}
    by_span: dict[tuple[str, str | None], list[Span]] = {}
    for event in sorted(found.values(), key=_order):
        by_span.setdefault((event.trace_id, event.parent_span_id), []).append(event)
    attached: list[Span] = []
    known: set[tuple[str, str | None]] = set()
    for span in given:
        if is_log_event(span):
            continue
        key = (span.trace_id, span.span_id)
        known.add(key)
        attached.append(_with_events(span, by_span[key]) if key in by_span else span)
    return attached, [event for key, its in by_span.items() if key not in known for event in its]


def _with_events(span: Span, events: Iterable[Span]) -> Span:
    added = [
        SpanEvent(name=each.name, time_ns=each.start_ns, attributes=_unmarked(each.attributes))
        for each in events
    ]
    return replace(
        span,
        events=tuple(sorted((*span.events, *added), key=_time)),
        dropped_count=span.dropped_count + sum(each.dropped_count for each in events),
    )


def _unmarked(attributes: Attributes) -> Attributes:
    """Remove the marks of a replay from an event's attributes; its span has them as well."""
    if SCENARIO_ID not in attributes:
        return attributes
    marks = (SCENARIO_ID, SCENARIO_ATTEMPT, SCENARIO_TRY)
    return {key: value for key, value in attributes.items() if key not in marks}
