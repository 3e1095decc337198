"""The calls of tools in a trace: one set, of what models asked for and what was executed."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.acts import Act, are_layers, contradict
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.messages import MessageLog, text
from scouter.model.genai.messages import field as field_of
from scouter.model.genai.names import bare_name
from scouter.model.tool_call import ToolCall

_INSTRUCTIONS: Final = frozenset({"system", "developer"})
_LOOKS: Final = 64
"""Open calls of one tool that an execution is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of a trace, and who tells of them."""

    calls: tuple[ToolCall, ...] = ()
    """In the order in which they were made: what was executed by its start, anything else after
    the call that the model asked for before it."""
    log: MessageLog = field(default_factory=MessageLog)
    """What the models wrote."""
    askers: frozenset[int] = frozenset()
    """Places of the acts that are known to have asked for a call."""
    writers: frozenset[int] = frozenset()
    """Places of the acts whose output has a text or a call; an empty one may have been cut."""
    unasked_ns: tuple[int, ...] = ()
    """Starts of the executions that no message asks for."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that a message asks for, and what executed it."""

    call: ToolCall
    by: int
    """Place of the act whose answer asks for it."""
    start_ns: int
    execution: Act | None = None


def read_calls(acts: Sequence[Act]) -> Calls:
    """Read the calls of tools.

    What a model asked for and its execution are one call: with the same id, else with the same
    name and arguments that do not contradict each other, executed after it was asked for.

    Args:
        acts: In time order.

    Cost: linear in the size of the messages.
    """
    log, askers, writers = _read_messages(acts)
    asked = [
        _Asked(replace(call, span_ids=acts[by].span_ids), by, acts[by].start_ns)
        for call, by in zip(log.tool_calls(), askers, strict=True)
    ]
    executions = [act for act in acts if act.facts.kind is Kind.TOOL and not act.facts.is_merged]
    unasked = _match(asked, executions)
    places = {id(act): place for place, act in enumerate(executions)}
    return Calls(
        calls=_in_order(asked, unasked, places),
        log=log,
        askers=frozenset(askers),
        writers=frozenset(writers),
        unasked_ns=tuple(act.start_ns for act in unasked),
    )


def _read_messages(acts: Sequence[Act]) -> tuple[MessageLog, list[int], list[int]]:
    """Read what models were given and wrote; gives the asker of each call and who wrote, too."""
    log, askers, writers = MessageLog(), list[int](), list[int]()
    threads: dict[str, tuple[int, list[JsonValue]]] = {}
    last = -1
    for at, act in enumerate(acts):
        if act.facts.kind is not Kind.MODEL:
            continue
        before, news = _since_then(act.facts.input_messages or [], at, threads)
        log.read_history(news)
        askers += [before] * (log.count - len(askers))
        is_told_twice = last >= 0 and are_layers(acts[last], act)
        said = log.said
        log.read(act.facts.output_messages or (), again=is_told_twice)
        askers += [at] * (log.count - len(askers))
        writers += [at] * (log.said > said)
        last = at
    return log, askers, writers


def _since_then(
    given: list[JsonValue], at: int, threads: dict[str, tuple[int, list[JsonValue]]]
) -> tuple[int, list[JsonValue]]:
    """Find what a conversation gained since a model saw it last, and which act that was.

    A conversation is known by its first message. Of one that does not go on with what was seen of
    it nothing counts as new: it was cut, or is another one, and may tell of the past.
    """
    messages = [each for each in given if text(field_of(each, "role")) not in _INSTRUCTIONS]
    if not messages:
        return at, []
    key = repr(messages[0])
    before, seen = threads.get(key, (at, messages))
    threads[key] = (at, messages)
    return before, messages[len(seen) :] if messages[: len(seen)] == seen else []


def _match(asked: Sequence[_Asked], executions: Sequence[Act]) -> list[Act]:
    """Give executions to the calls that ask for them; gives those that are left."""
    by_id: dict[tuple[str, str], deque[_Asked]] = {}
    for each in asked:
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
    return _match_alike(asked, _match_alike(asked, rest, _is_equal), _is_open)


def _match_alike(
    asked: Sequence[_Asked], executions: Sequence[Act], is_alike: Callable[[_Asked, Act], bool]
) -> list[Act]:
    """Give each execution the first call of its tool that it may be of; gives those left."""
    waiting: dict[str, list[_Asked]] = {}
    for each in asked:
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


def _is_equal(each: _Asked, act: Act) -> bool:
    return _is_open(each, act) and each.call.arguments == act.facts.arguments


def _is_open(each: _Asked, act: Act) -> bool:
    """Tell whether an execution may be a call's; a framework may give it an id of its own."""
    return each.start_ns <= act.start_ns and not contradict(
        each.call.arguments, act.facts.arguments
    )


def _in_order(
    asked: Sequence[_Asked], unasked: Sequence[Act], places: Mapping[int, int]
) -> tuple[ToolCall, ...]:
    """Put all calls into the order in which they were made."""
    found = [((act.start_ns, 0, places[id(act)]), _executed(act)) for act in unasked]
    last: dict[int, tuple[int, int, int]] = {}
    for number, each in enumerate(asked):
        before = last.get(each.by, (each.start_ns, 0, 0))
        if (act := each.execution) is None:
            place = (before[0], 1, number)
            found.append((place, each.call))
        else:
            place = (act.start_ns, 0, places[id(act)])
            found.append((place, _both(each.call, act)))
        last[each.by] = max(place, before)
    found.sort(key=itemgetter(0))
    return tuple(call for _, call in found)


def tool_call_of(facts: SpanFacts) -> ToolCall:
    """The call that the execution of a tool tells of."""
    return ToolCall(
        name=facts.tool,
        arguments=facts.arguments,
        call_id=facts.call_id,
        result=facts.result,
        has_result=facts.has_result,
        error=facts.error,
        is_executed=True,
        span_ids=(facts.span_id,),
    )


def _executed(act: Act) -> ToolCall:
    return replace(tool_call_of(act.facts), span_ids=act.span_ids)


def _both(call: ToolCall, act: Act) -> ToolCall:
    """What a message and an execution tell of one call; the execution is nearer to it."""
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


def _arguments(asked: JsonValue, executed: JsonValue) -> JsonValue:
    """What was executed, with what was asked for beside it; a schema in its place is left out."""
    if not isinstance(asked, dict):
        return asked if executed is None else executed
    if not isinstance(executed, dict) or (asked and asked.keys().isdisjoint(executed)):
        return asked
    return {**asked, **executed}
