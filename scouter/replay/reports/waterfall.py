"""The spans of one attempt as an indented list of bars over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Attributes, Span, StatusCode
from scouter.replay.reports.texts import clip, duration

_DETAILS: Final = (
    ("gen_ai.tool.name", "tool "),
    ("gen_ai.agent.name", "agent "),
    ("gen_ai.request.model", "model "),
)
_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
_NAME: Final = 120
_LEAST_WIDTH: Final = 0.4
_MAX_INDENT: Final = 12
"""Deeper spans are not indented further, so that their names stay readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One span in a waterfall."""

    name: str
    depth: int
    """Indentation, from 0 to 12."""
    start_percent: float
    width_percent: float
    duration: str
    detail: str
    """Tool, model, tokens; maybe empty."""
    error: str
    """The span's error, empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The spans of one attempt.

    Args:
        bars: Each span after its parent, siblings in time order.
        left_out: Spans beyond the limit.
        duration: From the first start to the last end.
    """

    bars: tuple[Bar, ...]
    left_out: int
    duration: str


def waterfall(spans: Sequence[Span], limit: int) -> Waterfall:
    """Lay spans out.

    Args:
        spans: Of any number of traces, in any order.
        limit: Most bars.

    Cost: n log n for n spans.
    """
    tree = SpanTree(spans)
    start_ns = min((span.start_ns for span in tree.spans), default=0)
    end_ns = max((max(span.start_ns, span.end_ns) for span in tree.spans), default=0)
    length_ns = max(end_ns - start_ns, 1)  # a clock that ran backwards makes no negative bar
    bars: list[Bar] = []
    for span, depth in _walk(tree):
        if len(bars) == limit:
            break
        left = min((span.start_ns - start_ns) / length_ns * 100, 100 - _LEAST_WIDTH)
        width = max(span.duration_ns / length_ns * 100, _LEAST_WIDTH)
        bars.append(
            Bar(
                name=clip(span.name, _NAME),
                depth=min(depth, _MAX_INDENT),
                start_percent=round(left, 2),
                width_percent=round(min(width, 100 - left), 2),
                duration=duration(span.duration_ns),
                detail=_detail(span.attributes),
                error=_error(span),
            )
        )
    return Waterfall(
        bars=tuple(bars),
        left_out=len(tree) - len(bars),
        duration=duration(end_ns - start_ns),
    )


def _walk(tree: SpanTree) -> Iterator[tuple[Span, int]]:
    """Each span after its parent, siblings in time order; spans in a circle start at the first."""
    seen: set[tuple[str, str]] = set()
    for start in (*tree.roots, *tree.spans):
        stack = [(start, 0)]
        while stack:
            span, depth = stack.pop()
            key = (span.trace_id, span.span_id)
            if key in seen:
                continue
            seen.add(key)
            yield span, depth
            stack.extend((child, depth + 1) for child in reversed(tree.children(span)))


def _detail(attributes: Attributes) -> str:
    parts = [
        f"{word}{value}"
        for name, word in _DETAILS
        if isinstance(value := attributes.get(name), str)
    ]
    tokens = [attributes.get(name) for name in _TOKENS]
    if any(isinstance(count, int) for count in tokens):
        shown = " → ".join(str(count) if isinstance(count, int) else "?" for count in tokens)
        parts.append(f"{shown} tokens")
    return clip(" · ".join(parts), _NAME)


def _error(span: Span) -> str:
    if span.status is not StatusCode.ERROR:
        return ""
    if span.status_message:
        return clip(span.status_message, 400)
    for event in span.events:
        if event.name == "exception":
            kind = event.attributes.get("exception.type", "")
            return clip(f"{kind}: {event.attributes.get('exception.message', '')}", 400)
    return "error"
