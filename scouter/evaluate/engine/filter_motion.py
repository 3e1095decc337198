"""Motion of filters: could more spans make a filter let go of a span?"""

from enum import Enum, auto

from scouter.evaluate.tasks.span_filter import (
    AncestorOfFilter,
    ChildOfFilter,
    DescendantOfFilter,
    NotFilter,
    ParentOfFilter,
    SpanFilter,
    WithAttributeFilter,
    WithAttributeValueFilter,
    WithEventAttributeFilter,
    WithEventAttributeValueFilter,
    WithEventFilter,
)

_RELATIONS = (ChildOfFilter, ParentOfFilter, DescendantOfFilter, AncestorOfFilter)
_READERS = (
    WithAttributeFilter,
    WithAttributeValueFilter,
    WithEventFilter,
    WithEventAttributeFilter,
    WithEventAttributeValueFilter,
)


class MissingParts(Enum):
    """Parts of a trace that may be missing."""

    SPANS = auto()
    ATTRIBUTES = auto()
    """Attributes or events of spans that are here."""


def reads_attributes(filter: SpanFilter) -> bool:
    """Tell whether a filter looks at attributes or events, at whatever level."""
    return isinstance(filter, _READERS) or any(map(reads_attributes, filter.inner()))


def can_unmatch(filter: SpanFilter, loss: MissingParts, *, is_negated: bool = False) -> bool:
    """Tell whether a selected span may no longer be selected once the missing parts are here.

    A new relative makes a relation true, and a new attribute the filters that look for one; neither
    makes one false. So only a filter below an odd number of `not_` can let a span go.

    Args:
        filter: A filter of single spans.
        loss: Parts that may come.
        is_negated: An odd number of `not_` stands above it.
    """
    if isinstance(filter, NotFilter):
        return can_unmatch(filter.filter, loss, is_negated=not is_negated)
    grows = _RELATIONS if loss is MissingParts.SPANS else _READERS
    if is_negated and isinstance(filter, grows):
        return True
    return any(can_unmatch(part, loss, is_negated=is_negated) for part in filter.inner())
