"""Known gaps of traces, from the spans that are here."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from scouter.evaluate.operators.show import show_name
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT, TRUNCATED
from scouter.model.span import NO_RESOURCE, AttributeValue, Span

_resource = attrgetter("resource")
_dropped = attrgetter("dropped_count")
_attributes = attrgetter("attributes")
_DICT: Final = frozenset((dict,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Parts that a trace is known to lack, so that a task cannot rely on their absence.

    All fields are empty for most traces.
    """

    spans: str = ""
    """Missing spans, in words; empty for none."""
    attributes: str = ""
    """Missing attributes or events of present spans, in words; empty for none."""
    cut: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values that were cut, by their names in `scouter.truncated`, and the first span of each."""


NO_GAPS: Final = Gaps()


def find_gaps(
    spans: Sequence[Span], orphans: Sequence[Span], lost: str = "", *, has_events: bool = True
) -> Gaps:
    """Look for signs that spans are missing, or parts of them.

    There are three signs that a trace lacks spans: a span was refused, a process stamped more spans
    than it delivered, or a parent is missing that no other process can have. A missing parent of
    another process is no sign, as it may be stored elsewhere for good. A missing stamp is no sign,
    either.

    Args:
        spans: Of any number of traces, each span once.
        orphans: Those of the spans whose parent is not here.
        lost: Other knowledge of missing spans, in words.
        has_events: False if it is known that no span has an event.

    Cost: linear.
    """
    found = lost or _short(spans) or (_unexplained(spans, orphans) if orphans else "")
    cut = ""
    if any(map(_dropped, spans)):
        first = next(span for span in spans if span.dropped_count)
        cut = (
            f"the span {show_name(first.name)} lost {first.dropped_count} attributes or events at "
            "its sender; raise the limits of its SDK (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and so on)"
        )
    parts = _cut_parts(spans, has_events=has_events)
    return Gaps(spans=found, attributes=cut, cut=parts) if found or cut or parts else NO_GAPS


def stamp_of(span: Span) -> int:
    """Count the spans that a process made, as its local root says; 0 where it does not."""
    count = span.attributes.get(PROCESS_SPAN_COUNT)
    return count if isinstance(count, int) and count > 0 else 0


def parent_is_remote(span: Span, stamp: int) -> bool | None:
    """Tell whether a span's parent is of another process; None where nobody said.

    Only local roots are stamped, and a sender on the way may have lost the flag.
    """
    return True if stamp else span.parent_is_remote


def _cut_parts(spans: Sequence[Span], *, has_events: bool) -> dict[str, str]:
    parts: dict[str, str] = {}
    values = list(map(_attributes, spans))
    is_plain = not has_events and set(map(type, values)) <= _DICT
    if is_plain and not [True for attributes in values if TRUNCATED in attributes]:
        return parts  # as of most traces, which quick loops tell
    for span in spans:
        for part in cut_parts_of(span.attributes.get(TRUNCATED)):
            parts.setdefault(part, show_name(span.name))
        for event in span.events:
            for key in cut_parts_of(event.attributes.get(TRUNCATED)):
                parts.setdefault(f"events.{event.name}.{key}", show_name(span.name))
    return parts


def cut_parts_of(mark: AttributeValue) -> list[str]:
    """The names in a mark; none where it is no list."""
    if mark is None or isinstance(mark, str) or not isinstance(mark, Sequence):
        return []
    return list(map(str, mark))


def _short(spans: Sequence[Span]) -> str:
    """Say which process delivered fewer spans of a trace than it stamped."""
    resources = list(map(_resource, spans))
    first = resources[0] if resources else NO_RESOURCE
    # One process made most traces, as a comparison by identity tells at once.
    if resources.count(first) == len(resources) and not first.attributes.get(PROCESS_ID):
        return ""
    distinct = dict(zip(map(id, resources), resources, strict=True))
    processes = {key: each.attributes.get(PROCESS_ID) for key, each in distinct.items()}
    if not any(processes.values()):
        return ""
    delivered: Counter[tuple[str, object]] = Counter()
    stamped: Counter[tuple[str, object]] = Counter()
    for span in spans:
        process = processes[id(span.resource)]
        if process:
            key = (span.trace_id, process)
            delivered[key] += 1
            stamped[key] += stamp_of(span)
    for key, count in stamped.items():
        if delivered[key] < count:
            trace_id, process = key
            return (
                f"{delivered[key]} of the {count} spans came that the process "
                f"{show_name(str(process))} made in the trace {trace_id}"
            )
    return ""


def _unexplained(spans: Sequence[Span], orphans: Sequence[Span]) -> str:
    """Name a parent that is not here, and that its child's own process should have sent."""
    by_trace: dict[str, list[Span]] = {}
    for span in orphans:
        by_trace.setdefault(span.trace_id, []).append(span)
    for trace_id, left in by_trace.items():
        suspects = [
            (span, is_remote)
            for span in left
            if not (is_remote := parent_is_remote(span, stamp_of(span)))
        ]
        if not suspects:
            continue
        has_one_parent = len({span.parent_span_id for span in left}) == 1
        is_unsaid = all(is_remote is None for _, is_remote in suspects)
        if is_unsaid and has_one_parent and not _has_root(spans, trace_id):
            continue
        child = suspects[0][0]
        return (
            f"the span {child.parent_span_id}, parent of {show_name(child.name)}, is not here "
            f"(trace {trace_id})"
        )
    return ""


def _has_root(spans: Iterable[Span], trace_id: str) -> bool:
    return any(span.parent_span_id is None and span.trace_id == trace_id for span in spans)
