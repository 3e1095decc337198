"""Cut values: could the missing part of a value change the outcome of a task?

A cut text keeps its beginning, a cut list its first items. A number is never cut.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from scouter.evaluate.engine.more_spans import Fixed
from scouter.evaluate.tasks.agent import AgentAssertion
from scouter.evaluate.tasks.span_filter import (
    ByNameFilter,
    ByNamePatternFilter,
    SequenceFilter,
    SpanFilter,
    WithAttributeValueFilter,
    WithEventAttributeValueFilter,
    WithEventFilter,
)
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterAssertion,
    SpanAggregationAssertion,
    SpanAttributeAssertion,
    SpanCountAssertion,
    SpanDurationAssertion,
    SpanExistsAssertion,
    SpanSequenceAssertion,
    SpanSetAssertion,
    TraceAssertion,
    TraceAttributeAssertion,
)
from scouter.model.attributes import PART_CHARS
from scouter.model.genai.lookup import PARAMETERS, PREFIXES, TELLING, USES
from scouter.model.genai.work import ACTION, NAME, TRIGGERED, VERDICT
from scouter.model.span import CUT

ReadsPart: TypeAlias = Callable[[str], bool]
"""Function that tells whether a cut part is read, by its name in `scouter.truncated`."""

_NAME: Final = "name"
_ERROR: Final = "events.exception.exception.type"
_TOLD: Final = frozenset(
    {
        *(name for uses in USES.values() for name in uses),
        *TELLING, *NAME, *VERDICT, *ACTION, *TRIGGERED,
    }
)  # fmt: skip
"""Attributes that conventions read."""
_TOLD_STARTS: Final = (*PREFIXES, *PARAMETERS, "gen_ai.")
_OF_ANY_VALUE: Final = frozenset({AggregationType.First, AggregationType.Last})
_OF_NUMBERS: Final = frozenset(
    {"ResponseInputTokens", "ResponseOutputTokens", "ResponseTotalTokens"}
)


def reads_part(assertion: TraceAssertion | AgentAssertion) -> ReadsPart:
    """Prepare to tell which parts of spans, had they been cut, a task on spans would have read."""
    match assertion:
        case SpanSequenceAssertion() | SpanSetAssertion():
            return _NAME.__eq__
        case SpanCountAssertion() | SpanExistsAssertion() | SpanDurationAssertion():
            return _by_filter(assertion.filter)
        case SpanAggregationAssertion(aggregation=how) if how not in _OF_ANY_VALUE:  # of numbers
            return _by_filter(assertion.filter)
        case (
            SpanAttributeAssertion(filter=filter, attribute_key=key)
            | SpanAggregationAssertion(filter=filter, attribute_key=key)
        ):
            by_filter = _by_filter(filter)
            return lambda part: part == key[:PART_CHARS] or by_filter(part)
        case TraceAttributeAssertion(attribute_key=key) | AttributeFilterAssertion(key=key):
            return key[:PART_CHARS].__eq__
        case TraceAssertion():
            return _nothing
        case _:
            is_number = assertion.kind in _OF_NUMBERS
            return lambda part: not is_number and _is_told_by(part)


def reach_of_cut(assertion: TraceAssertion | AgentAssertion) -> Fixed:
    """Tell what the value of a task can become that read a value which was cut."""
    match assertion:
        case SpanAttributeAssertion() | TraceAttributeAssertion():
            return Fixed.LONGER
        case TraceAssertion():
            return Fixed.ANYTHING
        case _:
            return Fixed.LONGER if assertion.kind == "ResponseContent" else Fixed.ANYTHING


def name_cut(cut: Mapping[str, str], reads: ReadsPart) -> str:
    """Name the first part that was cut and is read, with its span; empty if none is."""
    if reads is _nothing:
        return ""
    found = (part for part in cut if part == CUT or reads(part[:PART_CHARS]))
    return next((f"{part} of the span {cut[part]}" for part in found), "")


def _is_told_by(part: str) -> bool:
    """Tell whether a convention may read a part: what an instrumentor adds beside it flips nothing.

    Of an exception it is the type, and neither message nor stack trace.
    """
    if part.startswith("events."):
        return not part.startswith("events.exception.") or part == _ERROR
    return part == _NAME or part in _TOLD or part.startswith(_TOLD_STARTS)


def _nothing(_: str) -> bool:
    return False


def _by_filter(filter: SpanFilter) -> ReadsPart:
    return frozenset(part[:PART_CHARS] for part in _parts(filter)).__contains__


def _parts(filter: SpanFilter) -> Iterable[str]:
    match filter:
        case ByNameFilter() | ByNamePatternFilter() | SequenceFilter():
            yield _NAME
        case WithAttributeValueFilter(key=key):
            yield key
        case WithEventFilter():
            yield "events"
        case WithEventAttributeValueFilter(name=name, key=key):
            yield f"events.{name[:PART_CHARS]}.{key[:PART_CHARS]}"
        case _:
            pass
    for inner in filter.inner():
        yield from _parts(inner)
