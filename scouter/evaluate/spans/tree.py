"""The spans of one or more traces, in time order and as a tree."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

from scouter.model.agent_work import AgentWork
from scouter.model.genai import agent_work, is_inference, is_tool
from scouter.model.span import Span

SpanKey: TypeAlias = tuple[str, str]
"""Trace id and span id."""


class SpanTree:
    """An immutable index over spans. Of two spans with one key the one that ends later is kept.

    Args:
        spans: Spans of any number of traces, in any order.

    Cost: n log n for n spans; every question below is linear at most, and answered once.
    """

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        by_key: dict[SpanKey, Span] = {}
        for span in spans:
            key = (span.trace_id, span.span_id)
            known = by_key.get(key)
            if known is None or span.end_ns > known.end_ns:
                by_key[key] = span
        self._by_key = by_key
        self.spans: Final[tuple[Span, ...]] = tuple(sorted(by_key.values(), key=_time_order))
        """In time order: by start, then the longer one first (a parent that starts together with
        its child comes before it), then by span id."""

    def __len__(self) -> int:
        return len(self.spans)

    def __repr__(self) -> str:
        return f"SpanTree({len(self.spans)} spans, {len(self.roots)} roots)"

    def parent(self, span: Span) -> Span | None:
        """The span's parent, or None for a root and where the parent is not here."""
        if span.parent_span_id is None or span.parent_span_id == span.span_id:
            return None
        return self._by_key.get((span.trace_id, span.parent_span_id))

    def children(self, span: Span | str) -> tuple[Span, ...]:
        """The span's children in time order.

        Args:
            span: A span, or a span id; an id that several traces use gives all their children.
        """
        if isinstance(span, Span):
            return tuple(self._children.get((span.trace_id, span.span_id), ()))
        return tuple(
            child
            for trace_id in self.trace_ids
            for child in self._children.get((trace_id, span), ())
        )

    @cached_property
    def trace_ids(self) -> tuple[str, ...]:
        """The traces that spans belong to, in time order of their first span."""
        return tuple(dict.fromkeys(span.trace_id for span in self.spans))

    @cached_property
    def _children(self) -> Mapping[SpanKey, list[Span]]:
        children: dict[SpanKey, list[Span]] = {}
        for span in self.spans:
            parent = self.parent(span)
            if parent is not None:
                children.setdefault((parent.trace_id, parent.span_id), []).append(span)
        return children

    @cached_property
    def roots(self) -> tuple[Span, ...]:
        """Spans without a parent here, in time order: true roots and those that wait for one."""
        return tuple(span for span in self.spans if self.parent(span) is None)

    @cached_property
    def missing_parents(self) -> int:
        """How many spans are named as a parent but are not here."""
        return len(
            {
                (span.trace_id, span.parent_span_id)
                for span in self.spans
                if span.parent_span_id is not None
                and (span.trace_id, span.parent_span_id) not in self._by_key
            }
        )

    @cached_property
    def topological(self) -> tuple[tuple[Span, int], ...]:
        """Every span with its depth (a root has 0), each after its parent.

        Spans that name each other as parents hang below none; the earliest of them counts as a
        root, so that every span appears exactly once whatever a sender did.
        """
        order: list[tuple[Span, int]] = []
        seen: set[SpanKey] = set()
        for start in (*self.roots, *self.spans):
            stack = [(start, 0)]
            while stack:
                span, depth = stack.pop()
                key = (span.trace_id, span.span_id)
                if key in seen:
                    continue
                seen.add(key)
                order.append((span, depth))
                stack.extend((child, depth + 1) for child in self._children.get(key, ()))
        return tuple(order)

    @cached_property
    def depth(self) -> int:
        """Parents above the deepest span: 0 for roots alone and for no spans."""
        return max((depth for _, depth in self.topological), default=0)

    @cached_property
    def agent_work(self) -> AgentWork:
        """What the agent did and said, from the spans' GenAI attributes; read once for all tasks.

        None of it where no span tells of a tool or a model; see `has_agent_spans`.
        """
        return agent_work(self.spans)

    @cached_property
    def has_agent_spans(self) -> bool:
        """Tells whether any span is a model call or an execution of a tool."""
        return any(is_tool(span) or is_inference(span) for span in self.spans)

    @cached_property
    def start_ns(self) -> int:
        """Start of the first span, nanoseconds since the epoch; 0 without spans."""
        return self.spans[0].start_ns if self.spans else 0

    @cached_property
    def duration_ns(self) -> int:
        """From the first start to the last end, in nanoseconds; 0 without spans."""
        if not self.spans:
            return 0
        return max(0, max(span.end_ns for span in self.spans) - self.start_ns)


def _time_order(span: Span) -> tuple[int, int, str, str]:
    return (span.start_ns, -span.end_ns, span.span_id, span.trace_id)
