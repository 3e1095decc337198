"""Span filters, compiled: any of them over n spans is linear in n."""

from collections.abc import Callable
from typing import Final, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.operators.text import compile_pattern
from scouter.evaluate.spans.attribute_value import attribute_json
from scouter.evaluate.spans.tree import SpanKey, SpanTree
from scouter.evaluate.tasks.span_filter import (
    AndFilter,
    ByKindFilter,
    ByNameFilter,
    ByNamePatternFilter,
    ChildOfFilter,
    DescendantOfFilter,
    NotFilter,
    OrFilter,
    SequenceFilter,
    SpanFilter,
    SpanStatus,
    WithAttributeFilter,
    WithAttributeValueFilter,
    WithDurationFilter,
    WithStatusFilter,
)
from scouter.model.span import Span, SpanKind, StatusCode

Test: TypeAlias = Callable[[Span], bool]
Prepare: TypeAlias = Callable[[SpanTree], Test]
"""Looks at a tree once and gives the test for its spans."""

_STATUS: Final = {
    SpanStatus.Ok: StatusCode.OK,
    SpanStatus.Error: StatusCode.ERROR,
    SpanStatus.Unset: StatusCode.UNSET,
}


def sequence_names(filter: SpanFilter) -> tuple[str, ...] | None:
    """The names of a sequence filter; None for filters of single spans."""
    return tuple(filter.names) if isinstance(filter, SequenceFilter) else None


def count_runs(names: tuple[str, ...], tree: SpanTree) -> int:
    """Count the places in time order where spans with exactly these names follow each other.

    Runs may overlap: `[a, a]` is found twice in `a a a`.

    Cost: spans times names.
    """
    found = tuple(span.name for span in tree.spans)
    width = len(names)
    return sum(found[at : at + width] == names for at in range(len(found) - width + 1))


def compile_filter(filter: SpanFilter) -> Callable[[SpanTree], list[Span]]:
    """Prepare a filter of single spans.

    Returns:
        A function from a tree to the spans that match, in time order.

    Raises:
        ConfigError: A pattern is no regular expression, or a sequence stands where single spans
            are selected.
    """
    prepare = _prepare(filter)

    def select(tree: SpanTree) -> list[Span]:
        test = prepare(tree)
        return [span for span in tree.spans if test(span)]

    return select


def _prepare(filter: SpanFilter) -> Prepare:
    match filter:
        case AndFilter(filters=filters):
            return _joined(list(map(_prepare, filters)), need_all=True)
        case OrFilter(filters=filters):
            return _joined(list(map(_prepare, filters)), need_all=False)
        case NotFilter(filter=inner):
            return _negated(_prepare(inner))
        case ChildOfFilter(filter=inner):
            return _child_of(_prepare(inner))
        case DescendantOfFilter(filter=inner):
            return _descendant_of(_prepare(inner))
        case _:
            test = _single(filter)
            return lambda _: test


def _negated(inner: Prepare) -> Prepare:
    def prepare(tree: SpanTree) -> Test:
        test = inner(tree)
        return lambda span: not test(span)

    return prepare


def _joined(parts: list[Prepare], need_all: bool) -> Prepare:
    def prepare(tree: SpanTree) -> Test:
        tests = [part(tree) for part in parts]
        if need_all:
            return lambda span: all(test(span) for test in tests)
        return lambda span: any(test(span) for test in tests)

    return prepare


def _child_of(inner: Prepare) -> Prepare:
    def prepare(tree: SpanTree) -> Test:
        test = inner(tree)

        def is_child(span: Span) -> bool:
            parent = tree.parent(span)
            return parent is not None and test(parent)

        return is_child

    return prepare


def _descendant_of(inner: Prepare) -> Prepare:
    """One pass, parents first: a span is inside where its parent matches or is inside itself."""

    def prepare(tree: SpanTree) -> Test:
        test = inner(tree)
        inside: set[SpanKey] = set()
        for span, depth in tree.topological:
            parent = tree.parent(span) if depth else None
            if parent is not None and ((parent.trace_id, parent.span_id) in inside or test(parent)):
                inside.add((span.trace_id, span.span_id))
        return lambda span: (span.trace_id, span.span_id) in inside

    return prepare


def _single(filter: SpanFilter) -> Test:
    """Build the test of a filter that looks at one span alone."""
    match filter:
        case ByNameFilter(name=name):
            return lambda span: span.name == name
        case ByNamePatternFilter(pattern=pattern):
            return _name_pattern(pattern)
        case WithAttributeFilter(key=key):
            return lambda span: key in span.attributes
        case WithAttributeValueFilter(key=key, value=value):
            return lambda span: (
                key in span.attributes and deep_equal(attribute_json(span.attributes[key]), value)
            )
        case WithStatusFilter(status=status):
            code = _STATUS[status]
            return lambda span: span.status == code
        case WithDurationFilter() as bounds:
            return _duration(bounds)
        case ByKindFilter(span_kind=name):
            kind = SpanKind[name.upper()]
            return lambda span: span.kind == kind
        case _:
            raise ConfigError(
                "SpanFilter.sequence selects runs of spans; it works with span_count and "
                "span_exists, and not inside another filter"
            )


def _name_pattern(pattern: str) -> Test:
    try:
        search = compile_pattern("SpanFilter.by_name_pattern", pattern).search
    except TaskFault as fault:
        raise ConfigError(str(fault)) from fault
    return lambda span: search(span.name) is not None


def _duration(bounds: WithDurationFilter) -> Test:
    low = float("-inf") if bounds.min_ms is None else bounds.min_ms * 1e6
    high = float("inf") if bounds.max_ms is None else bounds.max_ms * 1e6
    return lambda span: low <= span.duration_ns <= high
