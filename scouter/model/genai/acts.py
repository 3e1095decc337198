"""One act, several spans: which spans report the same call of a model or a tool."""

from bisect import insort
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from operator import attrgetter
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.model.genai.control_flow import is_pause
from scouter.model.genai.facts import MODEL_CALLS, NO_USAGE, Kind, SpanFacts, Usage
from scouter.model.genai.names import arguments_text, bare_model, bare_name
from scouter.model.span import Span

_TEXTS: Final = (
    "convention", "provider", "request_model", "response_model", "response_id", "agent",
    "conversation", "session", "call_id", "error",
)  # fmt: skip


def merged_facts(layers: Sequence[SpanFacts]) -> SpanFacts:
    """Put together what the spans of one act tell.

    Of each field what the innermost span says that has it. The tool's name is the outermost
    one's, as the model knows it by that.

    Args:
        layers: The outermost span's first.
    """
    inward = layers[::-1]
    with_result = next((each for each in inward if each.has_result), inward[0])
    arguments = [each.arguments for each in inward if each.arguments is not None]
    return replace(
        layers[0],
        **{name: _first_text(map(attrgetter(name), inward)) for name in _TEXTS},
        tool=_first_text(each.tool for each in layers),
        arguments=next((a for a in arguments if isinstance(a, dict)), (*arguments, None)[0]),
        result=with_result.result,
        has_result=with_result.has_result,
        input_messages=_messages([each.input_messages for each in inward]),
        output_messages=_messages([each.output_messages for each in inward]),
        finish_reasons=next((each.finish_reasons for each in inward if each.finish_reasons), ()),
        usage=_usage([each.usage for each in inward]),
    )


def _first_text(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _messages(candidates: Sequence[list[JsonValue] | None]) -> list[JsonValue] | None:
    """The first that reports messages, else one that says that there are none."""
    known = [messages for messages in candidates if messages is not None]
    return next((messages for messages in known if messages), known[0] if known else None)


def _usage(candidates: Sequence[Usage]) -> Usage:
    """Take each number from the first that has it; a total belongs to its own two parts."""
    counted = [each for each in candidates if each != NO_USAGE]
    if not counted:
        return NO_USAGE
    parts = {
        name: next((n for each in counted if (n := getattr(each, name)) is not None), None)
        for name in (each.name for each in fields(Usage))
    }
    return replace(Usage(**parts), total=counted[0].total)


ReadSpan: TypeAlias = tuple[Span, SpanFacts]

JOINED: Final = frozenset({*MODEL_CALLS, Kind.TOOL, Kind.GUARDRAIL})
"""Kinds of which several spans may be one act."""
_LOOKS: Final = 64
"""Calls at the same time that one is compared with, of each instrumentor."""
_LAYERS: Final = 16
"""Instrumentors that are looked at, and spans of one act whose arguments are read."""
_LEVELS: Final = 1_000
"""Spans inside spans that are looked through; more are a circle of spans, or as good as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One call, from all the spans that report it; a span of any other kind is an act alone."""

    facts: SpanFacts
    """Fields of the call, each from the innermost span that has it.

    The tool's name is an exception: it is the outermost span's, by which the model knows the tool.
    """
    spans: tuple[Span, ...]
    """The outermost first."""
    above: int = -1
    """Place, among all acts, of the nearest one around it; -1 for none."""

    @property
    def start_ns(self) -> int:
        """Start of the outermost span."""
        return self.spans[0].start_ns

    @property
    def trace_id(self) -> str:
        """The trace of its spans."""
        return self.spans[0].trace_id

    @property
    def span_ids(self) -> tuple[str, ...]:
        """Ids of its spans, the outermost one's first."""
        return tuple(span.span_id for span in self.spans)


@dataclass(slots=True, eq=False)
class _Call:
    """A span, and the act that it belongs to so far."""

    at: int
    span: Span
    facts: SpanFacts
    group: "_Group"
    stretch: tuple[int, int]
    """Its number, and the last one of those below it."""


@dataclass(slots=True, eq=False)
class _Group:
    """Spans found so far for one act, with their ids, names and instrumentors."""

    calls: list[_Call]
    id: str
    names: set[str]
    layers: set[tuple[str, str]]

    @property
    def arguments(self) -> JsonValue:
        """Arguments of the first span that has any; they are parsed only here."""
        values = (call.facts.arguments for call in islice(self.calls, _LAYERS))
        return next((arguments for arguments in values if arguments is not None), None)


def find_acts(pairs: Sequence[ReadSpan], spans: Iterable[Span]) -> list[Act]:
    """Find the acts of traces.

    Args:
        pairs: Those spans that have a kind, with their facts, in time order, each once.
        spans: All spans of the traces, for their parents.

    Returns:
        In time order.

    Cost: linear in the spans. Where several instrumentors report calls that run at the same time,
        each is compared with at most 64 of them.
    """
    if len(pairs) < 2:
        return [Act(facts=facts, spans=(span,)) for span, facts in pairs]
    above = nearest_above(pairs, spans)
    calls = [
        _Call(at, *each, _group_of(*each), stretch)
        for at, (each, stretch) in enumerate(zip(pairs, _stretches(above), strict=True))
    ]
    for call in calls:
        call.group.calls.append(call)
    inner: dict[int, list[_Call]] = {}
    outermost: dict[Kind, list[_Call]] = {}
    for call, outer in zip(calls, above, strict=True):
        if call.facts.kind in JOINED:
            if outer >= 0 and calls[outer].facts.kind is call.facts.kind:
                inner.setdefault(outer, []).append(call)
            else:
                outermost.setdefault(call.facts.kind, []).append(call)
    _join_ids(calls)
    for outer in sorted(inner, reverse=True):
        _join_beside(inner[outer])
        _join_around(calls[outer], inner[outer])
    for found in outermost.values():
        _join_beside(found)
    _join_resumed(calls)
    return _acts(calls, above)


def are_layers(left: Act, right: Act) -> bool:
    """Tell whether two instrumentors made two acts at one time, so that both may tell the same."""
    outer, inner = left.spans[0], right.spans[0]
    return (
        outer.trace_id == inner.trace_id
        and _layer(outer) != _layer(inner)
        and outer.start_ns < inner.end_ns
        and inner.start_ns < outer.end_ns
    )


def _layer(span: Span) -> tuple[str, str]:
    return span.scope.name, span.name


def contradict(left: JsonValue, right: JsonValue) -> bool:
    """Tell whether two accounts of a call's arguments cannot be of one call.

    Accounts differ: one has a default more, or a wrapper around. Those contradict each other that
    give one argument two values, or that are two texts.
    """
    if isinstance(left, dict) and isinstance(right, dict):
        return any(not _is_equal(left[key], right[key]) for key in left.keys() & right.keys())
    return isinstance(left, str) and isinstance(right, str) and left != right


def _is_equal(left: JsonValue, right: JsonValue) -> bool:
    return left == right or str(left) == str(right)  # a framework makes a number of "2"


def _group_of(span: Span, facts: SpanFacts) -> _Group:
    if facts.kind in MODEL_CALLS:
        names = {bare_model(name) for name in (facts.request_model, facts.response_model) if name}
    else:
        names = {bare_name(facts.tool)} if facts.tool else set[str]()
    return _Group(
        calls=[],
        id=facts.call_id if facts.kind is Kind.TOOL else facts.response_id,
        names=names,
        layers={_layer(span)},
    )


def nearest_above(pairs: Sequence[ReadSpan], spans: Iterable[Span]) -> list[int]:
    """Find for each span the position of the nearest one of these above it; -1 for none."""
    at = {(span.trace_id, span.span_id): place for place, (span, _) in enumerate(pairs)}
    parents = {(span.trace_id, span.span_id): span.parent_span_id for span in spans}
    known: dict[tuple[str, str], int] = {}
    found: list[int] = []
    for span, _ in pairs:
        passed: list[tuple[str, str]] = []
        place, parent = -1, span.parent_span_id
        while parent is not None and len(passed) < _LEVELS:
            key = (span.trace_id, parent)
            place = at.get(key, known.get(key, -1))
            if place >= 0 or key in known:
                break
            passed.append(key)
            parent = parents.get(key)
        known.update(dict.fromkeys(passed, place))
        found.append(place)
    return found


def _join_ids(calls: Sequence[_Call]) -> None:
    """Join what has the same id."""
    by_id: dict[Hashable, list[_Call]] = {}
    for call in calls:
        if call.group.id and call.facts.kind in JOINED:
            key = (call.facts.kind, call.span.trace_id, call.group.id)
            others = by_id.setdefault(key, [])
            for other in islice(others, _LOOKS):
                if other.group is not call.group and _has_one_id(call, other):
                    _join(call.group, other.group)
                    break
            others.append(call)


def _has_one_id(call: _Call, other: _Call) -> bool:
    """Tell whether an id that two spans have means one call; senders use some ids again."""
    if call.facts.kind is Kind.TOOL and not _is_same_name(call.group, other.group):
        return False
    is_layer = call.group.layers.isdisjoint(other.group.layers)
    return (is_layer and _overlap(call, other)) or not _tell_different(call, other)


def _tell_different(call: _Call, other: _Call) -> bool:
    left, right = call.facts, other.facts
    if left.kind is Kind.TOOL:
        return contradict(left.arguments, right.arguments) or _tells_two(call, other)
    return any(
        one is not None and other is not None and one != other
        for one, other in (
            (left.usage.input, right.usage.input),
            (left.usage.output, right.usage.output),
            (left.output_messages, right.output_messages),
        )
    )


def _join_around(outer: _Call, inner: Sequence[_Call]) -> None:
    """Join a span with one of the calls inside of it."""
    if any(call.group is outer.group for call in inner):
        return
    fit = [
        call
        for call in inner
        if _fit(outer.group, call.group)
        and (_overlap(outer, call) or outer.span.resource != call.span.resource)
    ]
    if fit:
        sound = [call for call in fit if not call.facts.error]
        _join(outer.group, (sound or fit)[-1].group)


def _join_beside(calls: Sequence[_Call]) -> None:
    """Join calls that different instrumentors report side by side.

    Each waits under its key until it has ended or has found its like. The earliest to end is
    taken, so that of calls that run at the same time as many as possible find one.
    """
    waiting: dict[Hashable, dict[tuple[str, str], list[tuple[int, int, _Call]]]] = {}
    for call in calls:
        key = _beside_key(call)
        if key is None:
            continue
        layers = waiting.setdefault(key, {})
        own = layers.setdefault(_layer(call.span), [])
        for others in islice(layers.values(), _LAYERS):
            if others is own:
                continue
            while others and others[0][0] < call.span.start_ns:
                others.pop(0)
            for place, (_, _, other) in enumerate(others[:_LOOKS]):
                if _is_beside(call, other):
                    _join(call.group, other.group)
                    others.pop(place)
                    break
        insort(own, (call.span.end_ns, call.at, call))


def _beside_key(call: _Call) -> Hashable:
    """Only calls with one key can be one; None for those that tell too little."""
    kind, usage = call.facts.kind, call.facts.usage
    if kind in MODEL_CALLS:
        is_counted = usage.output is not None or kind is Kind.EMBEDDING
        if call.group.names and usage.input and is_counted:
            return call.span.trace_id, usage.input, usage.output
        return None
    is_named = kind is Kind.TOOL and call.group.names
    return (call.span.trace_id, *call.group.names) if is_named else None


def _is_beside(call: _Call, other: _Call) -> bool:
    if not call.group.layers.isdisjoint(other.group.layers) or not _fit(call.group, other.group):
        return False
    if call.facts.kind is Kind.TOOL and not (_within(call, other) or _within(other, call)):
        return False
    return _overlap(call, other) and not (
        _is_below(call.stretch, other.stretch) or _is_below(other.stretch, call.stretch)
    )


def _join_resumed(calls: Sequence[_Call]) -> None:
    """Join a call of a tool that waited, for a person as a rule, with the run that went on with it.

    It may be of another trace, and wait again.
    """
    runs = [call for call in calls if call.facts.kind is Kind.TOOL and call.group.names]
    taken: set[int] = set()
    for place, call in enumerate(runs):
        if call.facts.has_result or call.facts.error or not is_pause(call.span):
            continue
        for run in runs[place + 1 : place + 1 + _LOOKS]:
            is_later = run.at not in taken and run.span.start_ns >= call.span.end_ns
            is_same = call.group.id and call.group.id == run.group.id  # edited by the person
            if is_later and (
                _fit(call.group, run.group) or (is_same and _is_same_name(call.group, run.group))
            ):
                taken.add(run.at)
                _join(call.group, run.group)
                break


def _stretches(above: Sequence[int]) -> list[tuple[int, int]]:
    """Number the spans so that those below one have the numbers of a stretch.

    Spans in a circle have the empty stretch, so that they are below none.
    """
    inner: list[list[int]] = [[] for _ in above]
    for at, outer in enumerate(above):
        if outer >= 0:
            inner[outer].append(at)
    found = [(0, 0)] * len(above)
    stack = [(at, False) for at, outer in enumerate(above) if outer < 0]
    number = 0
    while stack:
        at, is_done = stack.pop()
        if is_done:
            found[at] = found[at][0], number
            continue
        number += 1
        found[at] = number, number
        stack.append((at, True))
        stack.extend((each, False) for each in inner[at])
    return found


def _is_below(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] < inner[0] <= outer[1]


def _overlap(left: _Call, right: _Call) -> bool:
    return (
        left.span.start_ns < right.span.end_ns and right.span.start_ns < left.span.end_ns
    ) or _within(left, right)


def _within(inner: _Call, outer: _Call) -> bool:
    return outer.span.start_ns <= inner.span.start_ns and inner.span.end_ns <= outer.span.end_ns


def _fit(left: _Group, right: _Group) -> bool:
    """Tell whether nothing says that two are different calls."""
    return (
        (not left.id or not right.id or left.id == right.id)
        and _is_same_name(left, right)
        and not contradict(left.arguments, right.arguments)
        and not _tell_two(left, right)
    )


def _tell_two(left: _Group, right: _Group) -> bool:
    """Tell whether an instrumentor that spans of both have in common tells different arguments."""
    return any(
        _tells_two(call, other)
        for call in islice(left.calls, _LAYERS)
        for other in islice(right.calls, _LAYERS)
    )


def _tells_two(call: _Call, other: _Call) -> bool:
    if call.span.scope.name != other.span.scope.name:
        return False
    left, right = call.facts.arguments, other.facts.arguments
    if left is None or right is None:
        return False
    return arguments_text(left) != arguments_text(right)


def _is_same_name(left: _Group, right: _Group) -> bool:
    return not left.names or not right.names or not left.names.isdisjoint(right.names)


def _join(left: _Group, right: _Group) -> None:
    if left is right:
        return
    if len(left.calls) < len(right.calls):
        left, right = right, left
    left.calls += right.calls
    for call in right.calls:
        call.group = left
    left.id = left.id or right.id
    left.names |= right.names
    left.layers |= right.layers


def _acts(calls: Sequence[_Call], above: Sequence[int]) -> list[Act]:
    """Make an act of every group, at the place of its first span."""
    places: dict[int, int] = {}
    for call in calls:
        places.setdefault(id(call.group), len(places))
    acts: list[Act] = []
    for call in calls:
        group = call.group
        if places[id(group)] < len(acts):
            continue
        layers = [call]
        if len(group.calls) > 1:
            layers = sorted(group.calls, key=lambda each: (-each.span.duration_ns, each.at))
        facts = merged_facts([each.facts for each in layers]) if len(layers) > 1 else call.facts
        outer = above[layers[0].at]
        acts.append(
            Act(
                facts=facts,
                spans=tuple(each.span for each in layers),
                above=-1 if outer < 0 else places[id(calls[outer].group)],
            )
        )
    return acts
