"""Measures of trace assertions: from the spans of a trace to one JSON value."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.compiled import Number, is_number
from scouter.evaluate.operators.show import kind_of, show, show_name, show_names
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.spans.about import count_runs, sequence_names
from scouter.evaluate.spans.costs import COSTS, call_cost
from scouter.evaluate.spans.filters import (
    attribute_json,
    compile_filter,
    compile_mask,
    has_attribute,
)
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks import trace
from scouter.evaluate.tasks.span_filter import SpanFilter, WithAttributeFilter
from scouter.evaluate.tasks.trace import AggregationType, TraceAssertion
from scouter.model.genai.acts import Act
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.genai.reader import kind_of as kind_of_span
from scouter.model.genai.reader import read_facts
from scouter.model.genai.reported import TokenSum, states_usage, token_sums
from scouter.model.span import AttributeValue, Span

_SUMS: Final = {"input": 0, "output": 1, "total": 2}


def model_calls(tree: SpanTree, agent: str | None) -> list[Act]:
    """Find the calls of models that write an answer, in time order.

    Args:
        tree: The spans.
        agent: Name of the agent; None for all calls.

    Raises:
        TaskFault: No span tells of a model's call, so that nobody knows their number; or none
            tells of the agent.
    """
    return [act for act in _acts_of(tree, agent) if act.facts.kind is Kind.MODEL]


def tokens(tree: SpanTree, agent: str | None, part: str) -> TokenSum:
    """Sum up tokens.

    Args:
        tree: The spans.
        agent: Name of the agent; None for all calls.
        part: `input`, `output` or `total`.

    Raises:
        TaskFault: As of `model_calls`, and where no call states its tokens.
    """
    found = token_sums(_acts_of(tree, agent), tree.spans)[_SUMS[part]]
    if found.number is None:
        raise TaskFault(Reason.NOT_TOLD, f"no model's call states its {part} tokens")
    return found


def cost(tree: SpanTree, agent: str | None) -> tuple[float, str]:
    """Sum up the costs of calls, as senders wrote them down, else by the list of prices.

    Returns:
        The sum, and the reason, in words, that it lacks a call; empty for a whole one.

    Raises:
        TaskFault: As of `model_calls`, and where the cost of no call is known.
    """
    calls = [act for act in model_calls(tree, agent) if states_usage(act.facts)]
    costs = [call_cost(act.facts, act.spans) for act in calls]
    known = [each for each in costs if each is not None]
    if not known and calls:
        models = {act.facts.response_model or act.facts.request_model for act in calls} - {""}
        raise TaskFault(
            Reason.NOT_TOLD,
            f"no model's call states its cost ({', '.join(COSTS)}), or its tokens and a model with "
            f"a known price; the models are {show_names(sorted(models), len(models)) or 'unnamed'}",
        )
    lacks = next((act for act, each in zip(calls, costs, strict=True) if each is None), None)
    if lacks is None:
        return sum(known), ""
    model = lacks.facts.response_model or lacks.facts.request_model
    of = f" ({show_name(model)})" if model else ""
    return sum(known), f"the cost of the model's call {lacks.span_ids[0]}{of} is not known"


def _acts_of(tree: SpanTree, agent: str | None) -> list[Act]:
    acts = tree.acts
    if not any(act.facts.kind is Kind.MODEL for act in acts):
        raise TaskFault(
            Reason.NOT_TOLD,
            f"none of the {len(tree)} spans of the trace says that it is a call of a model "
            "(gen_ai.operation.name is chat, openinference.span.kind is LLM and so on)",
        )
    if agent is None:
        return list(acts)
    owners = [_owner(acts, at) for at in range(len(acts))]
    if agent not in owners:
        names = sorted({*owners} - {""})
        reported = show_names(names, len(names)) or "none"
        raise TaskFault(
            Reason.MISSING_PATH,
            f"no span tells of the agent {show_name(agent)}; there are: {reported}",
        )
    return [act for act, owner in zip(acts, owners, strict=True) if owner == agent]


def _owner(acts: Sequence[Act], at: int) -> str:
    seen = 0
    while at >= 0 and seen <= len(acts):  # spans may name each other as parents
        if acts[at].facts.agent:
            return acts[at].facts.agent
        at, seen = acts[at].above, seen + 1
    return ""


Measure: TypeAlias = Callable[[SpanTree], JsonValue]

_NUMBERS: Final = frozenset((int, float))
_OF_ANY_VALUES: Final = frozenset(
    {AggregationType.Count, AggregationType.First, AggregationType.Last}
)
"""Aggregates that say nothing of spans without a value."""
_PLAIN: Final = frozenset((str, int, bool))
"""Types whose values `attribute_json` gives back as they are."""


def compile_measure(assertion: TraceAssertion) -> Measure:
    """Prepare any trace assertion but `attribute_filter`, which runs a task.

    Returns:
        A function from a tree with at least one span to the value; it raises `TaskFault` where no
        span matches (`NO_SPANS`) or none has the attribute (`MISSING_PATH`). Counting and testing
        for existence never fault: of nothing there are 0.

    Raises:
        ConfigError: The filter cannot be used for this assertion, or has a bad pattern.
    """
    match assertion:
        case trace.SpanSequenceAssertion(span_names=names):
            wanted_names = tuple(names)
            return lambda tree: tree.names == wanted_names
        case trace.SpanSetAssertion(span_names=names):
            wanted = set(names)
            return lambda tree: wanted.issubset(tree.names)
        case trace.SpanCountAssertion(filter=filter):
            return _count(filter)
        case trace.SpanExistsAssertion(filter=filter):
            count = _count(filter)
            return lambda tree: count(tree) > 0
        case trace.SpanDurationAssertion(filter=filter):
            return _duration(filter)
        case trace.SpanAttributeAssertion(filter=filter, attribute_key=key):
            return _attribute(filter, key)
        case trace.SpanAggregationAssertion(
            filter=filter, attribute_key=key, aggregation=aggregation
        ):
            return _aggregation(filter, key, aggregation)
        case trace.ModelCallCountAssertion(agent=agent):
            return lambda tree: len(model_calls(tree, agent))
        case trace.ModelTokensAssertion(agent=agent, part=part):
            return lambda tree: tokens(tree, agent, part).number
        case trace.ModelCostAssertion(agent=agent):
            return lambda tree: cost(tree, agent)[0]
        case trace.TraceAttributeAssertion(attribute_key=key):
            return lambda tree: _root_attribute(tree, key)
        case _:
            return _of_trace(assertion.kind)


def _count(filter: SpanFilter) -> Callable[[SpanTree], int]:
    names = sequence_names(filter)
    if names is not None:
        return lambda tree: count_runs(names, tree.names)
    mask_of = compile_mask(filter)
    return lambda tree: mask_of(tree).count(1)


def _duration(filter: SpanFilter) -> Measure:
    select = compile_filter(filter)

    def measure(tree: SpanTree) -> JsonValue:
        spans = _some(select(tree), tree)
        values: list[JsonValue] = [span.duration_ns // 1_000_000 for span in spans]
        return values[0] if len(values) == 1 else values

    return measure


def _some(spans: list[Span], tree: SpanTree) -> list[Span]:
    if not spans:
        names = sorted(set(tree.names))
        raise TaskFault(
            Reason.NO_SPANS,
            f"no span matches the filter; the trace has {len(tree)} spans: "
            f"{show_names(names, len(names))}",
        )
    return spans


def _values(spans: list[Span], key: str) -> list[JsonValue]:
    # As `has_attribute`, without a call for each span.
    found = [value for span in spans if (value := span.attributes.get(key)) is not None]
    if not found:
        raise _no_attribute(key, spans)
    if set(map(type, found)) <= _PLAIN:
        return cast(list[JsonValue], found)
    return list(map(attribute_json, found))


def _no_attribute(key: str, spans: list[Span]) -> TaskFault:
    keys = sorted({name for span in spans for name in span.attributes})
    shown = show_names(keys, len(keys)) or "none"
    what = f"span {show_name(spans[0].name)}" if len(spans) == 1 else f"none of {len(spans)} spans"
    verb = "has no attribute" if len(spans) == 1 else "has the attribute"
    return TaskFault(
        Reason.MISSING_PATH,
        f"{what} {verb} {show_name(key)}; the attributes there are {shown}",
    )


def _attribute(filter: SpanFilter, key: str) -> Measure:
    select = compile_filter(filter)

    def measure(tree: SpanTree) -> JsonValue:
        spans = _some(select(tree), tree)
        values = _values(spans, key)
        return values[0] if len(values) == 1 else values

    return measure


def _aggregation(filter: SpanFilter, key: str, aggregation: AggregationType) -> Measure:
    select = compile_filter(filter)
    if aggregation is AggregationType.Count:
        return lambda tree: sum(has_attribute(span.attributes, key) for span in select(tree))

    def measure(tree: SpanTree) -> JsonValue:
        values = _values(_some(select(tree), tree), key)
        if aggregation is AggregationType.First:
            return values[0]
        if aggregation is AggregationType.Last:
            return values[-1]
        return _reduce(aggregation, key, values)

    return measure


def _reduce(aggregation: AggregationType, key: str, values: list[JsonValue]) -> JsonValue:
    for value in values if not set(map(type, values)) <= _NUMBERS else ():
        if not is_number(value):
            raise TaskFault(
                Reason.TYPE,
                f"{aggregation} needs numbers, attribute {key!r} is {kind_of(value)}: "
                f"{show(value)}",
            )
    numbers = cast(list[Number], values)
    if aggregation is AggregationType.Min:
        return min(numbers)
    if aggregation is AggregationType.Max:
        return max(numbers)
    total = sum(numbers)
    return total if aggregation is AggregationType.Sum else total / len(numbers)


def compile_lacking(assertion: trace.SpanAggregationAssertion) -> Callable[[SpanTree], str]:
    """Prepare to name a span whose value an aggregate lacks, in words; empty for a whole one.

    A span lacks the value if it has not the attribute, and one of its kind has: another call of a
    model (a failed call without an answer has no usage), or another span of its name. So a filter
    by the attribute itself leaves nothing out.
    """
    key, filter = assertion.attribute_key, assertion.filter
    by_key = isinstance(filter, WithAttributeFilter) and filter.key == key
    select = compile_filter(filter)

    def lacking(tree: SpanTree) -> str:
        spans = tree.spans if by_key else select(tree)
        values = [_value(span, key) for span in spans]
        if None not in values:
            return ""
        having = [span for span, value in zip(spans, values, strict=True) if value is not None]
        without = [span for span, value in zip(spans, values, strict=True) if value is None]
        names = {span.name for span in having}
        of_models = any(map(_is_call, having))
        for span in without:
            is_lacking = span.name in names
            if of_models and _is_call(span):
                is_lacking = states_usage(read_facts(span))
            if is_lacking:
                return f"the span {show_name(span.name)} ({span.span_id}) lacks {show_name(key)}"
        return ""

    return (lambda _: "") if assertion.aggregation in _OF_ANY_VALUES else lacking


def compile_unstated(
    assertion: trace.ModelTokensAssertion | trace.ModelCostAssertion,
) -> Callable[[SpanTree], str]:
    """Prepare to name a model's call that a sum lacks, in words; empty for a whole one."""
    agent = assertion.agent
    if isinstance(assertion, trace.ModelCostAssertion):
        return lambda tree: cost(tree, agent)[1]
    part = assertion.part
    return lambda tree: tokens(tree, agent, part).missing


def _value(span: Span, key: str) -> AttributeValue:
    """The value of an attribute; -1 of a model's call stands for none."""
    value = span.attributes.get(key)
    return None if isinstance(value, int | float) and value < 0 and _is_call(span) else value


def _is_call(span: Span) -> bool:
    return kind_of_span(span) in MODEL_CALLS


def _root_attribute(tree: SpanTree, key: str) -> JsonValue:
    return _values(list(tree.true_roots[:1]), key)[0]


def _of_trace(kind: str) -> Measure:
    match kind:
        case "TraceDuration":
            return lambda tree: tree.duration_ns // 1_000_000
        case "TraceSpanCount":
            return len
        case "TraceErrorCount":
            return lambda tree: tree.errors.count(1)
        case "TraceServiceCount":
            return lambda tree: len({span.resource.service_name for span in tree.spans} - {""})
        case "TraceMaxDepth":
            return lambda tree: tree.depth
        case _:
            raise ConfigError(f"TraceAssertion {kind}: not a measure")
