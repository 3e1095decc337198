"""Results of other evaluators: events `gen_ai.evaluation.result` of a span.

They stand beside our results and are none of them: no task, rate, alert or verdict reads them.

Source: OpenTelemetry semantic conventions for generative AI, events.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from scouter.model.span import Attributes, Span, SpanEvent

RESULT_EVENT: Final = "gen_ai.evaluation.result"
"""Name of such an event."""
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
    for event in span.events:
        if is_foreign_result(event.name, event.attributes):
            yield ForeignResult(
                trace_id=span.trace_id,
                span_id=span.span_id,
                time_ns=event.time_ns,
                name=_text(event, "gen_ai.evaluation.name"),
                score=_score(event.attributes.get("gen_ai.evaluation.score.value")),
                label=_text(event, "gen_ai.evaluation.score.label"),
                explanation=_text(event, "gen_ai.evaluation.explanation"),
                response_id=_text(event, "gen_ai.response.id"),
                error=_text(event, "error.type"),
            )


def _text(event: SpanEvent, name: str) -> str:
    value = event.attributes.get(name)
    return value if isinstance(value, str) else ""


def _score(value: object) -> float | None:
    """A number, which some senders write as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
