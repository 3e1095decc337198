"""Halves of one piece of work that have trace ids of their own, and one view over them.

A server of MCP or A2A that does not go on with the trace of its client begins one of its own. The
spans tell that they belong together: by a link, a `traceparent` that came as data, as in MCP's
`params._meta`, the id of an A2A task, or session and id of an MCP request.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from scouter.model.span import AttributeValue, Span, SpanKind

_TRACEPARENT: Final = "traceparent"
_W3C: Final = re.compile(r"\b[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\b")
"""Source: W3C Trace Context, the header `traceparent`."""
_TASK: Final = re.compile(r"a2a[._:]task[._]?id", re.IGNORECASE)
_REQUEST: Final = ("mcp.session.id", "jsonrpc.request.id", "mcp.method.name")
_CALLERS: Final = frozenset({SpanKind.CLIENT, SpanKind.PRODUCER})
_CALLED: Final = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})


class By(StrEnum):
    """Evidence that two traces belong together."""

    TRACEPARENT = "traceparent"
    LINK = "span link"
    TASK = "A2A task"
    REQUEST = "MCP request"


Shared: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes that a span of either half has; without a name, any may have the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """A trace that belongs to another one, and the spans of both at which they meet."""

    trace_id: str
    by: By
    value: str
    """The `traceparent`, or the ids that both have; empty for a link."""
    is_caller: bool
    """True if it called the other one."""
    span_id: str
    """Its own span."""
    of_span_id: str
    """The other one's; it may not be stored."""


def named_by(spans: Iterable[Span]) -> Iterator[Half]:
    """The spans of other traces that spans name, each as one that called.

    Cost: linear in their attributes.
    """
    for span in spans:
        named = [(each.trace_id, each.span_id, By.LINK, "") for each in span.links]
        for name, value in span.attributes.items():
            parents = (each for text in _texts(name, value) for each in _W3C.finditer(text))
            named += [(each[1], each[2], By.TRACEPARENT, each[0]) for each in parents]
        for trace_id, span_id, by, value in named:
            if trace_id != span.trace_id:
                yield Half(
                    trace_id=trace_id, by=by, value=value, is_caller=True, span_id=span_id,
                    of_span_id=span.span_id,
                )  # fmt: skip


def named_beside(span: Span, longest: int) -> set[str]:
    """Ids of traces that a span names by links, and by `traceparent` in long attributes.

    Args:
        span: The span.
        longest: Texts of so many characters or fewer are not looked at.

    Cost: 0.05 µs for an attribute, and the search for the word in long texts.
    """
    found = {each.trace_id for each in span.links}
    for value in span.attributes.values():
        if isinstance(value, str) and len(value) > longest and _TRACEPARENT in value:
            found.update(trace_id for trace_id, _ in _W3C.findall(value))
    return found


def shared_by(spans: Iterable[Span]) -> Mapping[Shared, Span]:
    """What spans have in common with the other half of a call, and the first span that has it."""
    found: dict[Shared, Span] = {}
    for span in spans:
        request = [
            (name, str(span.attributes[name])) for name in _REQUEST if name in span.attributes
        ]
        if [name for name, _ in request[:2]] == list(_REQUEST[:2]):
            found.setdefault(tuple(request), span)
        for name, value in span.attributes.items():
            if _TASK.fullmatch(name) and isinstance(value, str) and value:
                found.setdefault((("", value),), span)
    return found


def find_halves(spans: Sequence[Span], others: Mapping[str, Sequence[Span]]) -> list[Half]:
    """Find the traces that belong to one, each once, in the order in which they began.

    Args:
        spans: Of the one, at least one.
        others: Spans of traces that may belong to it, by trace id; each has one at least.

    Cost: linear in the attributes of all spans.
    """
    own_id, shared = spans[0].trace_id, shared_by(spans)
    callers: dict[str, Half] = {}
    for half in named_by(spans):
        callers.setdefault(half.trace_id, half)
    found: list[Half] = []
    for trace_id in sorted(others, key=lambda each: (min(s.start_ns for s in others[each]), each)):
        back = next((each for each in named_by(others[trace_id]) if each.trace_id == own_id), None)
        if back is not None:
            found.append(
                replace(
                    back, trace_id=trace_id, is_caller=False, span_id=back.of_span_id,
                    of_span_id=back.span_id,
                )
            )  # fmt: skip
        elif trace_id in callers:
            found.append(callers[trace_id])
        else:
            theirs = shared_by(others[trace_id])
            meetings = ((key, theirs[key], shared[key]) for key in theirs if key in shared)
            found += [
                Half(
                    trace_id=trace_id, by=By.REQUEST if len(key) > 1 else By.TASK,
                    value=" ".join(value for _, value in key[:2]), is_caller=_called(span, own),
                    span_id=span.span_id, of_span_id=own.span_id,
                )
                for key, span, own in list(meetings)[:1]
            ]  # fmt: skip
    return found


def join_halves(
    spans: Sequence[Span], others: Mapping[str, Sequence[Span]], halves: Iterable[Half]
) -> list[Span]:
    """Make one trace of several: what was called is put below the span that called it.

    Args:
        spans: Of the trace that is looked at; its id becomes that of all.
        others: The spans of the others, by trace id.
        halves: As of `find_halves`.
    """
    joined, below = list(spans), dict[str, str]()
    for half in halves:
        theirs = others[half.trace_id]
        joined += [replace(span, trace_id=spans[0].trace_id) for span in theirs]
        if half.is_caller:
            below[_top(spans, half.of_span_id)] = half.span_id
        else:
            below[_top(theirs, half.span_id)] = half.of_span_id
    return [
        replace(span, parent_span_id=below[span.span_id], parent_is_remote=True)
        if span.span_id in below
        else span
        for span in joined
    ]


def _texts(name: str, value: AttributeValue) -> Iterator[str]:
    """The texts in an attribute that have a `traceparent`, by the word in or before them."""
    if isinstance(value, str):
        if _TRACEPARENT in value or _TRACEPARENT in name:
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key, each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _texts(name, each)


def _called(span: Span, other: Span) -> bool:
    """Tell whether a half of a call is that of the caller: by kinds, else by what began first."""
    for kinds, of_kind in ((_CALLERS, True), (_CALLED, False)):
        if (span.kind in kinds) != (other.kind in kinds):
            return (span.kind in kinds) is of_kind
    return (span.start_ns, span.trace_id) < (other.start_ns, other.trace_id)


def _top(spans: Iterable[Span], span_id: str) -> str:
    """The highest span that is here above a span, which need not be here itself."""
    parents = {span.span_id: span.parent_span_id for span in spans}
    seen: set[str] = set()
    while span_id not in seen and (above := parents.get(span_id)) and above in parents:
        seen.add(span_id)
        span_id = above
    return span_id
