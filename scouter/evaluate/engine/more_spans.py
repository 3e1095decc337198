"""Missing spans, and values that were cut: could they change the outcome of a task?"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.operators.compiled import Number, is_number
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.responses.read import compile_question, is_subsequence
from scouter.evaluate.spans.about import sequence_names
from scouter.evaluate.spans.filters import attribute_json, compile_filter
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import (
    AgentAssertion,
    GuardrailActionAssertion,
    GuardrailCountAssertion,
    GuardrailVerdictAssertion,
    RepeatedToolCallCountAssertion,
    ResponseCitesResultAssertion,
    ResponseContentAssertion,
    ResponseInputTokensAssertion,
    ResponseOutputTokensAssertion,
    ResponseTotalTokensAssertion,
    ToolCallCountAssertion,
    ToolCalledAssertion,
    ToolCalledWithArgsAssertion,
    ToolCallSequenceAssertion,
    ToolErrorCountAssertion,
    ToolNotCalledAssertion,
)
from scouter.evaluate.tasks.span_filter import (
    AncestorOfFilter,
    ByNameFilter,
    ByNamePatternFilter,
    ChildOfFilter,
    DescendantOfFilter,
    NotFilter,
    ParentOfFilter,
    SequenceFilter,
    SpanFilter,
    WithAttributeFilter,
    WithAttributeValueFilter,
    WithEventAttributeFilter,
    WithEventAttributeValueFilter,
    WithEventFilter,
)
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterAssertion,
    ModelCallCountAssertion,
    ModelCostAssertion,
    ModelTokensAssertion,
    MultiResponseMode,
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
from scouter.model.agent_work import AgentWork
from scouter.model.attributes import PART_CHARS
from scouter.model.genai.lookup import PARAMETERS, PREFIXES, TELLING, USES
from scouter.model.genai.work import ACTION, NAME, TRIGGERED, VERDICT
from scouter.model.span import CUT, Span

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


class Fixed(Enum):
    """Values that need no numbers."""

    SAME = "same"
    """The value stays."""
    EITHER = "either"
    """True and false."""
    ANYTHING = "anything"
    LONGER = "longer"
    """A text or list that begins with what is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """All numbers of a range, the bounds included."""

    low: Number = float("-inf")
    high: Number = float("inf")
    is_whole: bool = False
    """Integers only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer:
    """A value of some spans, which becomes a list of all; the seen ones stay in it."""

    items: Numbers | None = None
    """Range of each item; None for any value."""
    is_list: bool
    """The values of several spans are in it already."""


Reach: TypeAlias = Fixed | Numbers | Longer
ReachOf: TypeAlias = Callable[[SpanTree, JsonValue], Reach]
"""Function from the present spans and the value on them to the values on more spans."""

_COUNT: Final = Numbers(low=0, is_whole=True)
_OF_MODELS: Final = (ModelCallCountAssertion, ModelTokensAssertion, ModelCostAssertion)
_OF_CALLS: Final = (
    ToolCalledAssertion, ToolNotCalledAssertion, ToolCalledWithArgsAssertion,
    ToolCallSequenceAssertion, ToolCallCountAssertion, ToolErrorCountAssertion,
    RepeatedToolCallCountAssertion,
)  # fmt: skip


def reach_of(assertion: TraceAssertion | AgentAssertion, loss: MissingParts) -> ReachOf:
    """Tell the values that a task's value can become.

    Args:
        assertion: Assertion of the task, on spans.
        loss: Missing parts: whole spans, or attributes of spans that are here.
    """
    if loss is MissingParts.ATTRIBUTES and not looks_at_attributes(assertion):
        return _same
    match assertion:
        case SpanSequenceAssertion(span_names=names):
            return lambda tree, value: _sequence(names, tree, value)
        case SpanSetAssertion():
            return _rises
        case SpanCountAssertion(filter=filter):
            return _rises if _only_gains(filter, loss) else _from_settled(filter, loss)
        case SpanExistsAssertion(filter=filter):
            return _rises if _only_gains(filter, loss) else _from_settled(filter, loss)
        case SpanDurationAssertion(filter=filter):
            return _durations(filter, loss)
        case SpanAttributeAssertion(filter=filter, attribute_key=key):
            return _attributes(filter, key, loss)
        case SpanAggregationAssertion():
            return _aggregation(assertion, loss)
        case AttributeFilterAssertion(mode=mode):
            return _rises if mode is MultiResponseMode.Any else _falls
        case TraceAttributeAssertion():
            return _anything
        case TraceAssertion():
            return _of_models(assertion, loss)
        case _:
            reach = _of_agent(assertion)
            return reach if loss is MissingParts.SPANS else _by_whole_spans(assertion, reach)


def looks_at_attributes(assertion: TraceAssertion | AgentAssertion) -> bool:
    """Tell whether a task on spans reads their attributes or events."""
    match assertion:
        case (
            SpanCountAssertion(filter=filter)
            | SpanExistsAssertion(filter=filter)
            | SpanDurationAssertion(filter=filter)
        ):
            return reads_attributes(filter)
        case (
            SpanAttributeAssertion()
            | SpanAggregationAssertion()
            | TraceAttributeAssertion()
            | AttributeFilterAssertion()
            | ModelCallCountAssertion()
            | ModelTokensAssertion()
            | ModelCostAssertion()
        ):
            return True
        case TraceAssertion():
            return False
        case _:
            return True


def _same(_: SpanTree, __: JsonValue) -> Reach:
    return Fixed.SAME


def _anything(_: SpanTree, __: JsonValue) -> Reach:
    return Fixed.ANYTHING


def _rises(_: SpanTree, value: JsonValue) -> Reach:
    if isinstance(value, bool):
        return Fixed.SAME if value else Fixed.EITHER
    return Numbers(low=cast(Number, value), is_whole=isinstance(value, int))


def _falls(_: SpanTree, value: JsonValue) -> Reach:
    if isinstance(value, bool):
        return Fixed.EITHER if value else Fixed.SAME
    return Numbers(high=cast(Number, value))


def _of_models(assertion: TraceAssertion, loss: MissingParts) -> ReachOf:
    """The reach of what only rises with more spans, unless it is about one agent's calls.

    A parent that comes may be another agent's, and an attribute may tell the kind of a span.
    """
    if not isinstance(assertion, _OF_MODELS):
        return _rises
    is_loose = assertion.agent is not None or loss is MissingParts.ATTRIBUTES
    return (lambda _, __: Numbers(low=0)) if is_loose else _rises


def _only_gains(filter: SpanFilter, loss: MissingParts) -> bool:
    """Tell whether what a filter selects now is selected however much comes."""
    return sequence_names(filter) is None and not can_unmatch(filter, loss)


def _from_settled(filter: SpanFilter, loss: MissingParts) -> ReachOf:
    """The reach of a count, of which the spans stay that are here whole, up to their trace's root.

    A span that comes is no ancestor of such a span. Attributes may be missing from every span:
    that nobody reports one says nothing.
    """
    is_sure = (
        loss is MissingParts.SPANS and sequence_names(filter) is None and not _looks_down(filter)
    )
    select = compile_filter(filter) if is_sure else None

    def reach(tree: SpanTree, value: JsonValue) -> Reach:
        sure = sum(_is_settled(tree, span) for span in select(tree)) if select else 0
        return _rises(tree, bool(sure) if isinstance(value, bool) else sure)

    return reach


def _looks_down(filter: SpanFilter) -> bool:
    down = (ParentOfFilter, AncestorOfFilter)
    return isinstance(filter, down) or any(map(_looks_down, filter.inner()))


def _is_settled(tree: SpanTree, span: Span) -> bool:
    above: Span | None = span
    while above is not None and not above.dropped_count:
        span, above = above, tree.parent(above)
    return above is None and span.parent_span_id is None


def _sequence(names: Sequence[str], tree: SpanTree, value: JsonValue) -> Reach:
    """All names are wanted: a superfluous one never goes, and one more spoils what is right."""
    if value is True:
        return Fixed.EITHER
    if tree.has_loose_order:  # a parent that comes may order them otherwise
        is_open = Counter(tree.names) <= Counter(names)
    else:
        is_open = is_subsequence(list(tree.names), names)
    return Fixed.EITHER if is_open and len(tree.names) < len(names) else Fixed.SAME


def _durations(filter: SpanFilter, loss: MissingParts) -> ReachOf:
    if not _only_gains(filter, loss):
        return _anything
    return lambda _, value: Longer(items=_COUNT, is_list=isinstance(value, list))


def _attributes(filter: SpanFilter, key: str, loss: MissingParts) -> ReachOf:
    if not _only_gains(filter, loss):
        return _anything
    select = compile_filter(filter)

    def reach(tree: SpanTree, _: JsonValue) -> Reach:
        found = [span for span in select(tree) if key in span.attributes]
        is_list = len(found) > 1
        # One attribute that is a list becomes a list inside of one: it is compared otherwise then.
        if not is_list and isinstance(attribute_json(found[0].attributes[key]), list):
            return Fixed.ANYTHING
        return Longer(is_list=is_list)

    return reach


def _aggregation(assertion: SpanAggregationAssertion, loss: MissingParts) -> ReachOf:
    how, key = assertion.aggregation, assertion.attribute_key
    only_gains = _only_gains(assertion.filter, loss)
    if how is AggregationType.Count:
        return _rises if only_gains else lambda _, __: _COUNT
    if how in (AggregationType.First, AggregationType.Last):
        return _anything
    if not only_gains or how is AggregationType.Average:
        return lambda _, __: Numbers()
    select = compile_filter(assertion.filter)

    def reach(tree: SpanTree, value: JsonValue) -> Reach:
        number = cast(Number, value)  # of all these kinds
        if how is AggregationType.Max:
            return Numbers(low=number)
        if how is AggregationType.Min:
            return Numbers(high=number)
        terms = [attribute_json(span.attributes.get(key)) for span in select(tree)]
        has_debit = any(is_number(term) and cast(Number, term) < 0 for term in terms)
        return Numbers() if has_debit else Numbers(low=number)

    return reach


def _of_agent(assertion: AgentAssertion) -> ReachOf:
    match assertion:
        case ToolCalledAssertion() | ToolCallCountAssertion() | ToolErrorCountAssertion():
            return _rises
        case RepeatedToolCallCountAssertion():
            # A call of a message may turn out to be the execution of another one's arguments.
            return lambda _, __: _COUNT
        case ToolCallSequenceAssertion(names=names) if len(set(names)) == 1:
            return _rises  # so many calls of one name: their order tells nothing
        case ToolNotCalledAssertion():
            return _falls
        case ToolCalledWithArgsAssertion() | ToolCallSequenceAssertion():
            return _where_executed(assertion)
        case GuardrailCountAssertion(verdict=verdict, action=action):
            return _rises if verdict is None and action is None else lambda _, __: _COUNT
        case _:
            return _anything


def _by_whole_spans(assertion: AgentAssertion, reach: ReachOf) -> ReachOf:
    """Narrow a reach to what the calls of spans that lost nothing tell.

    A span that lost attributes may have lost the name of its tool, so that its own name stands for
    it, or the mark of another kind.
    """
    if isinstance(assertion, GuardrailCountAssertion):
        return lambda _, __: _COUNT
    if not isinstance(assertion, _OF_CALLS):
        return reach
    measure = compile_question(assertion)

    def narrowed(tree: SpanTree, value: JsonValue) -> Reach:
        lossy = {span.span_id for span in tree.spans if span.dropped_count}
        calls = tree.agent_work.tool_calls
        whole = tuple(call for call in calls if lossy.isdisjoint(call.span_ids))
        try:
            sure = measure(AgentWork(tool_calls=whole))
        except TaskFault:
            return Fixed.EITHER if isinstance(value, bool) else _COUNT
        if sure == value:
            return reach(tree, value)
        return Fixed.EITHER if isinstance(value, bool) else _rises(tree, sure)

    return narrowed


def _where_executed(
    assertion: ToolCalledWithArgsAssertion | ToolCallSequenceAssertion,
) -> ReachOf:
    """Give the reach of an assertion that stays true once the executed calls alone satisfy it.

    A call may be known from a message only. Its execution may still come, and may have other
    arguments and another time.
    """
    measure = compile_question(assertion)
    is_ordered = isinstance(assertion, ToolCallSequenceAssertion)

    def reach(tree: SpanTree, value: JsonValue) -> Reach:
        if value is not True or (is_ordered and tree.has_loose_order):
            return Fixed.EITHER
        calls = tuple(call for call in tree.agent_work.tool_calls if call.is_executed)
        try:
            is_met = measure(AgentWork(tool_calls=calls)) is True
        except TaskFault:  # the executions alone leave it open
            return Fixed.EITHER
        return Fixed.SAME if is_met else Fixed.EITHER

    return reach


def more_calls_reach(assertion: AgentAssertion) -> ReachOf:
    """Tell what a task's value can become where a call, or a part of one, is not known."""
    match assertion:
        case (
            ToolCalledAssertion()
            | ToolCalledWithArgsAssertion()
            | ToolCallSequenceAssertion()
            | ToolCallCountAssertion()
            | ToolErrorCountAssertion()
            | RepeatedToolCallCountAssertion()
            | ResponseCitesResultAssertion()
        ):
            return _rises
        case ToolNotCalledAssertion():
            return _falls
        case (
            ResponseInputTokensAssertion()
            | ResponseOutputTokensAssertion()
            | ResponseTotalTokensAssertion()
        ):
            return _rises
        case GuardrailVerdictAssertion() | GuardrailActionAssertion() | GuardrailCountAssertion():
            return _same
        case ResponseContentAssertion():  # only its end can be missing; else there is no value
            return lambda _, __: Fixed.LONGER
        case _:
            return _anything


ReadsPart: TypeAlias = Callable[[str], bool]
"""Function that tells whether a cut part is read, by its name in `scouter.truncated`."""

_NAME: Final = "name"
_ERROR: Final = "events.exception.exception.type"
_READ: Final = frozenset(
    {
        *(name for uses in USES.values() for name in uses),
        *TELLING, *NAME, *VERDICT, *ACTION, *TRIGGERED,
    }
)  # fmt: skip
"""Attributes that conventions read."""
_READ_STARTS: Final = (*PREFIXES, *PARAMETERS, "gen_ai.")
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
            return lambda part: not is_number and _is_read(part)


def reach_of_cut(assertion: TraceAssertion | AgentAssertion) -> Fixed:
    """Tell what the value of a task can become that read a value which was cut.

    A cut text keeps its beginning, and a cut list its first items. A number is never cut.
    """
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


def _is_read(part: str) -> bool:
    """Tell whether a convention may read a part: what an instrumentor adds beside it flips nothing.

    Of an exception it is the type, and neither message nor stack trace.
    """
    if part.startswith("events."):
        return not part.startswith("events.exception.") or part == _ERROR
    return part == _NAME or part in _READ or part.startswith(_READ_STARTS)


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
