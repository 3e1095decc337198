"""Span filters, compiled: any of them over n spans is linear in n."""

import json
import math
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.operators.show import show_name
from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.spans.tree import (
    Mask,
    SpanTree,
    ancestors,
    children,
    descendants,
    intersect,
    invert,
    parents_of,
    unite,
)
from scouter.evaluate.tasks import span_filter
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.model.genai.facts import Kind
from scouter.model.genai.lookup import KIND_KEYS
from scouter.model.genai.reader import kind_of
from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, AttributeValue, Span, SpanEvent, SpanKind, StatusCode


def has_attribute(attributes: Attributes, key: str) -> bool:
    """Tell whether an attribute is there; one that holds nothing (OTLP's null) is not."""
    return attributes.get(key) is not None


def attribute_json(value: AttributeValue) -> JsonValue:
    """Turn an attribute's value into JSON: tuples become lists, bytes base64."""
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return cast(JsonValue, value)
    return to_json_value(value)


MaskOf: TypeAlias = Callable[[SpanTree], Mask]
Test: TypeAlias = Callable[[Span], bool]

OPERATION: Final = "gen_ai.operation.name"
"""The attribute whose values mean a kind of span in every convention."""
_NO_KINDS: Final = frozenset({None, Kind.HELPER, Kind.OTHER})
_OF_FAILURES: Final = ("error", "exception.")
"""Begins of attributes that only failures have."""
_STATUS: Final = {
    SpanStatus.Ok: StatusCode.OK,
    SpanStatus.Error: StatusCode.ERROR,
    SpanStatus.Unset: StatusCode.UNSET,
}


def compile_filter(filter: SpanFilter) -> Callable[[SpanTree], list[Span]]:
    """Prepare a filter of single spans.

    Returns:
        A function from a tree to the spans that match, in time order.

    Raises:
        ConfigError: A pattern is no regular expression, or a sequence stands where single spans
            are selected.
    """
    mask_of = compile_mask(filter)
    return lambda tree: list(compress(tree.spans, mask_of(tree)))


def compile_mask(filter: SpanFilter) -> MaskOf:
    """Prepare a filter of single spans.

    Returns:
        A function from a tree to the mask of the spans that match.

    Raises:
        ConfigError: As `compile_filter`.
    """
    key = mask_key(filter)
    make = _joined(filter) or _of_single_spans(filter)

    def mask_of(tree: SpanTree) -> Mask:
        known = tree.masks.get(key)
        if known is None:
            known = tree.masks[key] = make(tree)
        return known

    return mask_of


def compile_test(filter: SpanFilter) -> Test:
    """Prepare a filter that looks at one span alone.

    Returns:
        A function that tells whether a span matches.

    Raises:
        ConfigError: A pattern is no regular expression, or the filter asks for other spans.
    """
    parts = [compile_test(part) for part in filter.inner()]
    match filter:
        case span_filter.AndFilter():
            return lambda span: all(part(span) for part in parts)
        case span_filter.OrFilter():
            return lambda span: any(part(span) for part in parts)
        case span_filter.NotFilter():
            return lambda span: not parts[0](span)
        case span_filter.ByNameFilter(name=wanted):
            return lambda span: span.name == wanted
        case span_filter.ByNamePatternFilter(pattern=text):
            found_in = compile_pattern(text, "SpanFilter.by_name_pattern").found_in
            return lambda span: found_in(span.name)
        case span_filter.WithAttributeFilter(key=key):
            return lambda span: has_attribute(span.attributes, key)
        case span_filter.WithStatusFilter(status=status):
            code = _STATUS[status]
            return lambda span: span.status == code
        case span_filter.ByKindFilter(span_kind=name):
            kind = SpanKind[name.upper()]
            return lambda span: span.kind == kind
        case span_filter.WithDurationFilter() as bounds:
            low, high = _bounds_ns(bounds)
            return lambda span: low <= span.duration_ns <= high
        case _:
            return _single(filter)


def mask_key(filter: SpanFilter) -> str:
    """Name a filter's mask in `SpanTree.masks`."""
    return json.dumps(filter.to_wire(), sort_keys=True)


def _joined(filter: SpanFilter) -> MaskOf | None:
    """Build a filter that is made of filters."""
    parts = [compile_mask(part) for part in filter.inner()]
    match filter:
        case span_filter.AndFilter():
            return lambda tree: intersect([part(tree) for part in parts])
        case span_filter.OrFilter():
            return lambda tree: unite([part(tree) for part in parts])
        case span_filter.NotFilter():
            return lambda tree: invert(parts[0](tree))
        case span_filter.ChildOfFilter():
            return lambda tree: children(parts[0](tree), tree.parents_at)
        case span_filter.ParentOfFilter():
            return lambda tree: parents_of(parts[0](tree), tree.parents_at)
        case span_filter.DescendantOfFilter():
            return lambda tree: descendants(parts[0](tree), tree.parents_at, tree.top_down)
        case span_filter.AncestorOfFilter():
            return lambda tree: ancestors(parts[0](tree), tree.parents_at, tree.top_down)
        case _:
            return None


def _of_single_spans(filter: SpanFilter) -> MaskOf:
    match filter:
        case span_filter.ByNameFilter(name=wanted):
            return lambda tree: bytes([name == wanted for name in tree.names])
        case span_filter.ByNamePatternFilter(pattern=text):
            return _name_pattern(text)
        case span_filter.WithAttributeFilter(key=key):
            return lambda tree: bytes([has_attribute(span.attributes, key) for span in tree.spans])
        case span_filter.WithStatusFilter(status=status):
            code = _STATUS[status]
            if code is StatusCode.ERROR:
                return lambda tree: tree.errors
            return lambda tree: bytes([span.status == code for span in tree.spans])
        case span_filter.ByKindFilter(span_kind=name):
            kind = SpanKind[name.upper()]
            return lambda tree: bytes([span.kind == kind for span in tree.spans])
        case span_filter.WithDurationFilter() as bounds:
            return _duration(bounds)
        case span_filter.SequenceFilter():
            raise ConfigError(
                "SpanFilter.sequence selects runs of spans; it works with span_count and "
                "span_exists, and not inside another filter"
            )
        case _:
            test = _single(filter)
            return lambda tree: bytes([test(span) for span in tree.spans])


def _single(filter: SpanFilter) -> Test:
    """Build the test of a filter that looks at one span alone."""
    match filter:
        case span_filter.WithAttributeValueFilter(key=key, value=value):
            kind = _kind_meant(key, value)
            if kind is not None:
                return lambda span: (
                    _has(span.attributes, key, value)
                    if has_attribute(span.attributes, key)
                    else kind_of(span) is kind
                )
            return lambda span: _has(span.attributes, key, value)
        case span_filter.ByServiceFilter(name=service):
            return lambda span: span.resource.service_name == service
        case span_filter.ByScopeFilter(name=scope, version=version):
            return lambda span: (
                span.scope.name == scope and (version is None or span.scope.version == version)
            )
        case _:
            return _event(filter)


def _event(filter: SpanFilter) -> Test:
    match filter:
        case span_filter.WithEventFilter(name=name):
            return lambda span: any(event.name == name for event in span.events)
        case span_filter.WithEventAttributeFilter(name=name, key=key):
            return lambda span: any(
                event.name == name and has_attribute(event.attributes, key) for event in span.events
            )
        case span_filter.WithEventAttributeValueFilter(name=name, key=key, value=value):

            def matches(event: SpanEvent) -> bool:
                return event.name == name and _has(event.attributes, key, value)

            return lambda span: any(map(matches, span.events))
        case _:
            raise ConfigError(f"SpanFilter {filter.kind}: not a filter of single spans")


def _has(attributes: Attributes, key: str, value: JsonValue) -> bool:
    return has_attribute(attributes, key) and deep_equal(attribute_json(attributes[key]), value)


def _kind_meant(key: str, value: JsonValue) -> Kind | None:
    """Tell which spans an operation means in conventions that have other words for it."""
    if key != OPERATION or not isinstance(value, str):
        return None
    kind = next(each.kind_of(value) for each in KIND_KEYS if each.name == OPERATION)
    return None if kind in _NO_KINDS else kind


def compile_missing(filter: SpanFilter) -> Callable[[SpanTree], str]:
    """Prepare to name an attribute that a filter looks for and no span has, in words.

    An operation is recognised where a span says in any convention what it is. What is written of a
    failure alone, such as `error.type`, is recognised by its absence, too.
    """
    keys = tuple(dict.fromkeys(_keys(filter)))

    def missing(tree: SpanTree) -> str:
        for key in keys:
            if key == OPERATION and tree.has_agent_spans:
                continue
            if not any(has_attribute(span.attributes, key) for span in tree.spans):
                return f"no span of the trace has the attribute {show_name(key)}"
        return ""

    return missing


def _keys(filter: SpanFilter) -> Iterator[str]:
    is_of_attribute = isinstance(
        filter, span_filter.WithAttributeFilter | span_filter.WithAttributeValueFilter
    )
    if is_of_attribute and not filter.key.startswith(_OF_FAILURES):
        yield filter.key
    for part in filter.inner():
        yield from _keys(part)


def _name_pattern(text: str) -> MaskOf:
    """Search every distinct name once: traces repeat few of them."""
    found_in = compile_pattern(text, "SpanFilter.by_name_pattern").found_in

    def mask_of(tree: SpanTree) -> Mask:
        found = {name: found_in(name) for name in set(tree.names)}
        return bytes(map(found.__getitem__, tree.names))

    return mask_of


def _duration(bounds: span_filter.WithDurationFilter) -> MaskOf:
    low, high = _bounds_ns(bounds)
    if low > 0:  # a clock that ran backwards makes a duration of 0, which is too short anyhow
        return lambda tree: bytes([low <= s.end_ns - s.start_ns <= high for s in tree.spans])
    return lambda tree: bytes([s.end_ns - s.start_ns <= high for s in tree.spans])


def _bounds_ns(bounds: span_filter.WithDurationFilter) -> tuple[int, float]:
    low = 0 if bounds.min_ms is None else round(bounds.min_ms * 1e6)
    return low, math.inf if bounds.max_ms is None else round(bounds.max_ms * 1e6)
