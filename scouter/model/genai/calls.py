"""The calls of tools in a trace: one set, of what models requested and what was executed."""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import ToolCall
from scouter.model.genai.acts import Act, are_layers, contradict
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.message_calls import MessageCalls
from scouter.model.genai.message_forms import CALL_EVENT, CALL_EVENT_ARGUMENTS, CALL_EVENT_ID
from scouter.model.genai.messages import refuses
from scouter.model.genai.names import bare_name, is_hand_off
from scouter.model.genai.output_tools import OutputTools, as_answer, is_reading
from scouter.model.genai.wrappers import (
    is_broken_json,
    is_hidden,
    is_hidden_text,
    open_arguments,
)
from scouter.model.json_value import to_json_value
from scouter.model.span import Span, StatusCode

_LOOKS: Final = 64
"""Open calls of one tool that an execution is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of a trace, and who reports them."""

    calls: tuple[ToolCall, ...]
    """Calls in the order in which they were made.

    The place of an executed call is its start. Any other call comes after the one that the model
    requested before it.
    """
    messages: MessageCalls
    """Calls and results in the messages of models."""
    askers: frozenset[int] = frozenset()
    """Places, among the models, of those that are known to have requested a call."""
    answerers: frozenset[int] = frozenset()
    """Places of the models that gave their answer as a call of an output tool."""
    unrequested: Sequence[Act] = ()
    """The executions that no message requests."""

    @property
    def has_overlaps(self) -> bool:
        """Says whether executions that no message requests are one step, as they overlap."""
        return len(set(_side_by_side(self.unrequested))) < len(self.unrequested)


@dataclass(slots=True, eq=False)
class _Request:
    """A call that a message requests, and what executed it."""

    call: ToolCall
    by: int
    """Place of the model whose answer requests it."""
    start_ns: int
    execution: Act | None = None


def read_calls(acts: Sequence[Act], spans: Sequence[Span]) -> Calls:
    """Read the calls of tools.

    A model's request and its execution are one call. They have the same id; or else the same name
    and arguments that do not contradict each other, and the execution comes after the request. A
    call of an output tool is an answer, and none of these.

    Args:
        acts: In time order.
        spans: All spans of the traces, in time order.

    Cost: linear in the size of the messages; inputs are read where something is not known yet.
    """
    models = [act for act in acts if act.facts.kind is Kind.MODEL]
    repeats = {at for at in range(1, len(models)) if are_layers(models[at - 1], models[at])}
    messages = MessageCalls([act.facts for act in models], repeats)
    executions = [act for act in acts if act.facts.kind is Kind.TOOL and not act.facts.is_merged]
    answered = [(call, at) for at, calls in enumerate(messages.answered) for call in calls]
    requests, unrequested = _paired(answered, models, executions)
    if messages.has_silent or not _is_known(requests, unrequested):
        requests, unrequested = _paired(messages.calls, models, executions)
    unrequested = _match_hand_offs(requests, unrequested)
    output_tools = OutputTools(models, spans)
    answers = [each for each in requests if output_tools.has(each.call, each.by, each.execution)]
    made = [each for each in requests if each not in answers] if answers else requests
    for each in answers:
        messages.said[each.by] = answer = as_answer(each.call, each.execution)
        if answer is None:
            messages.hidden.add(each.by)
    unrequested = [act for act in unrequested if not is_reading(act)]
    places = {id(act): place for place, act in enumerate(executions)}
    calls = _with_event_arguments(_in_order(made, unrequested, places), acts)
    return Calls(
        calls=_with_refusals(calls, spans),
        messages=messages,
        askers=frozenset(each.by for each in requests),
        answerers=frozenset(each.by for each in answers),
        unrequested=unrequested,
    )


def _paired(
    calls: Sequence[tuple[ToolCall, int]], models: Sequence[Act], executions: Sequence[Act]
) -> tuple[list[_Request], list[Act]]:
    requests = [
        _Request(replace(call, span_ids=models[by].span_ids), by, models[by].start_ns)
        for call, by in calls
    ]
    return requests, _match(requests, executions)


def _is_known(requests: Sequence[_Request], unrequested: Sequence[Act]) -> bool:
    """Say whether executions report all that can be known of the calls."""
    return all(each.execution is not None for each in requests) and all(
        act.facts.has_result or act.facts.error
        for act in (*unrequested, *(each.execution for each in requests if each.execution))
    )


def _match(requests: Sequence[_Request], executions: Sequence[Act]) -> list[Act]:
    """Give executions to the calls that they execute; gives those that are left."""
    by_id: dict[tuple[str, str], deque[_Request]] = {}
    for each in requests:
        if each.call.call_id:
            key = (each.call.call_id, bare_name(each.call.name))
            by_id.setdefault(key, deque()).append(each)
    rest: list[Act] = []
    for act in executions:
        waiting = by_id.get((act.facts.call_id, bare_name(act.facts.tool)))
        if waiting:
            waiting.popleft().execution = act
        else:
            rest.append(act)
    return _match_alike(requests, _match_alike(requests, rest, _is_equal), _is_open)


def _match_alike(
    requests: Sequence[_Request],
    executions: Sequence[Act],
    is_alike: Callable[[_Request, Act], bool],
) -> list[Act]:
    """Give each execution the first call of its tool that it may be of; gives those left."""
    waiting: dict[str, list[_Request]] = {}
    for each in requests:
        if each.execution is None:
            waiting.setdefault(bare_name(each.call.name), []).append(each)
    rest: list[Act] = []
    for act in executions:
        others = waiting.get(bare_name(act.facts.tool), [])
        for place, each in enumerate(islice(others, _LOOKS)):
            if is_alike(each, act):
                each.execution = act
                del others[place]
                break
        else:
            rest.append(act)
    return rest


def _match_hand_offs(requests: Sequence[_Request], executions: Sequence[Act]) -> list[Act]:
    """Give a hand-off, whose tool may have any name, the last call that nothing else executes."""
    rest: list[Act] = []
    for act in executions:
        before: list[_Request] = []
        if is_hand_off(act.spans[0].name):
            before = [
                each
                for each in requests
                if each.execution is None and each.start_ns <= act.start_ns
            ]
        if before:
            before[-1].execution = act
        else:
            rest.append(act)
    return rest


def _with_refusals(calls: tuple[ToolCall, ...], spans: Sequence[Span]) -> tuple[ToolCall, ...]:
    """Let a call have failed whose tool nobody knew, as a span in error says."""
    if all(call.is_executed or call.has_result for call in calls):
        return calls
    said = [span.status_message for span in spans if span.status is StatusCode.ERROR]
    return tuple(
        call
        if call.is_executed or call.has_result
        else replace(call, error=next((each for each in said if refuses(each, call.name)), ""))
        for call in calls
    )


def _is_equal(each: _Request, act: Act) -> bool:
    return _is_open(each, act) and each.call.arguments == act.facts.arguments


def _is_open(each: _Request, act: Act) -> bool:
    """Tell whether an execution may be a call's; a framework may give it an id of its own."""
    return each.start_ns <= act.start_ns and not contradict(
        each.call.arguments, act.facts.arguments
    )


def _in_order(
    requests: Sequence[_Request], unrequested: Sequence[Act], places: Mapping[int, int]
) -> tuple[ToolCall, ...]:
    """Put all calls into the order in which they were made, and number their steps."""
    found: list[tuple[tuple[int, int, int], ToolCall, Hashable]] = [
        ((act.start_ns, 0, places[id(act)]), _executed(act), step)
        for act, step in zip(unrequested, _side_by_side(unrequested), strict=True)
    ]
    last: dict[int, tuple[int, int, int]] = {}
    for number, each in enumerate(requests):
        before = last.get(each.by, (each.start_ns, 0, 0))
        if (act := each.execution) is None:
            place = (before[0], 1, number)
            found.append((place, each.call, (each.by, each.call.step)))
        else:
            place = (act.start_ns, 0, places[id(act)])
            found.append((place, _both(each.call, act), (each.by, each.call.step)))
        last[each.by] = max(place, before)
    found.sort(key=itemgetter(0))
    numbers: dict[Hashable, int] = {}
    return tuple(
        replace(call, step=numbers.setdefault(step, len(numbers))) for _, call, step in found
    )


def _side_by_side(acts: Sequence[Act]) -> list[int]:
    """Number the steps of executions, given by their start.

    Those of one parent whose times overlap, or that others between join, are one step.
    """
    steps: list[int] = []
    ends: dict[tuple[str, str], tuple[int, int]] = {}
    for number, act in enumerate(acts):
        span = act.spans[0]
        key = (span.trace_id, span.parent_span_id or f"root {number}")
        end_ns, step = ends.get(key, (0, number))
        if act.start_ns >= end_ns:
            step = number
        ends[key] = max(end_ns, span.end_ns), step
        steps.append(step)
    return steps


def _with_event_arguments(calls: tuple[ToolCall, ...], acts: Sequence[Act]) -> tuple[ToolCall, ...]:
    """Fill in arguments that only events of the agent tell, by the id of the call."""
    if all(call.arguments is not None for call in calls):
        return calls
    by_id = {
        event.attributes.get(CALL_EVENT_ID): event.attributes.get(CALL_EVENT_ARGUMENTS)
        for act in acts
        if act.facts.kind is Kind.AGENT
        for span in act.spans
        for event in span.events
        if event.name == CALL_EVENT
    }
    return tuple(
        replace(call, arguments=open_arguments(to_json_value(value)))
        if call.arguments is None and (value := by_id.get(call.call_id)) is not None
        else call
        for call in calls
    )


def tool_call_of(facts: SpanFacts) -> ToolCall:
    """The call that the execution of a tool reports; what is masked or cut is not reported."""
    arguments, result = facts.arguments, facts.result
    is_unknown = is_hidden_text(arguments) or is_broken_json(arguments)
    return ToolCall(
        name="" if is_hidden_text(facts.tool) else facts.tool,
        arguments=None if is_unknown else arguments,
        call_id=facts.call_id,
        result=None if is_hidden(result) else result,
        has_result=facts.has_result and not is_hidden(result),
        error=facts.error,
        is_executed=True,
        span_ids=(facts.span_id,),
    )


def _executed(act: Act) -> ToolCall:
    return replace(tool_call_of(act.facts), span_ids=act.span_ids)


def _both(call: ToolCall, act: Act) -> ToolCall:
    """Join a message's and an execution's facts on one call; the execution's count first."""
    made = _executed(act)
    known = made if made.has_result else call
    return replace(
        made,
        name=call.name,
        arguments=_arguments(call.arguments, made.arguments),
        call_id=made.call_id or call.call_id,
        result=known.result,
        has_result=known.has_result,
        error=made.error or call.error,
    )


def _arguments(requested: JsonValue, executed: JsonValue) -> JsonValue:
    """Join the arguments of an execution with those of its message; the execution's count first.

    Arguments without a common name are a schema in the place of the arguments, and are left out.
    """
    if not isinstance(requested, dict):
        return requested if executed is None else executed
    if not isinstance(executed, dict) or (requested and requested.keys().isdisjoint(executed)):
        return requested
    return {**requested, **executed}
