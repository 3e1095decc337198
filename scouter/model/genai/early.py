"""Facts of every span for the store's columns: those of `read_facts`, at a third of its cost.

Spans of one instrumentor have the same attributes. So the attribute that tells a field is found
once for each set of attributes. Values that are not plain (a number written as a text, an object
with all tokens, a cache) go the whole way through `read_facts`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from scouter.model.genai.control_flow import is_control_flow
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.genai.field import NUMBERS, Field
from scouter.model.genai.finish import finish_word
from scouter.model.genai.held import Held
from scouter.model.genai.lookup import KIND_KEYS, MARKS, SPAN_NAMES, TELLING, USES, KindKey
from scouter.model.genai.names import call_of_hand_off
from scouter.model.genai.reader import MERGED, name_of, read_facts
from scouter.model.genai.talk import DETAILS
from scouter.model.otlp_early import EarlyAttributes
from scouter.model.span import Attributes, AttributeValue, Span, StatusCode

OPERATION: Final = "gen_ai.operation.name"
_TEXTS: Final = (
    Field.PROVIDER, Field.REQUEST_MODEL, Field.RESPONSE_MODEL, Field.RESPONSE_ID, Field.AGENT,
    Field.CONVERSATION, Field.SESSION, Field.TOOL, Field.CALL_ID, Field.ERROR,
)  # fmt: skip
_COUNTS: Final = (Field.INPUT_TOKENS, Field.OUTPUT_TOKENS, Field.CACHED, Field.REASONING)
_PUT_TOGETHER: Final = (Field.USAGE, Field.CACHED, Field.CACHE_WRITTEN)
"""Fields with which the count of input is the sum of several numbers."""
_ASKED: Final = frozenset((*_TEXTS, *NUMBERS, Field.USAGE, Field.FINISH))
EARLY_KEYS: Final = frozenset(
    {
        *TELLING,
        *(name for uses in USES.values() for each in uses.values() for use in each
          for name in use.convention.only_with if use.field in _ASKED),
        *(name for uses in USES.values() for name, each in uses.items()
          if any(use.field in _ASKED for use in each)),
    }
)  # fmt: skip
"""Attributes that `read_early` looks at."""
_SESSION_KEYS: Final = frozenset(
    name for uses in USES.values() for name, each in uses.items()
    if any(use.field in (Field.CONVERSATION, Field.SESSION) for use in each)
)  # fmt: skip
_DICT: Final = frozenset((dict,))
_attributes_of = attrgetter("attributes")
_events_of = attrgetter("events")
_OPERATIONS: Final = {
    Kind.MODEL: "chat", Kind.EMBEDDING: "embeddings", Kind.TOOL: "execute_tool",
    Kind.AGENT: "invoke_agent", Kind.WORKFLOW: "invoke_workflow", Kind.RETRIEVAL: "retrieval",
    Kind.GUARDRAIL: "run_guardrail",
}  # fmt: skip
"""OpenTelemetry's word for each kind."""


def early_attributes(attributes: Attributes) -> Mapping[str, AttributeValue]:
    """Give the attributes in `EARLY_KEYS`, and perhaps others."""
    if isinstance(attributes, EarlyAttributes):
        return attributes.known
    return {name: attributes[name] for name in EARLY_KEYS.intersection(attributes)}


def naming_sessions(spans: Sequence[Span]) -> list[Span]:
    """Find the spans that can name a conversation or a session; none of most traces.

    Cost: linear, 0.1 µs for a span whose attributes are a dictionary.
    """
    held = list(map(_attributes_of, spans))
    if not set(map(type, held)) <= _DICT:
        held = list(map(_at_hand, held))
    if _SESSION_KEYS.isdisjoint(set[str]().union(*held)) and not any(map(_events_of, spans)):
        return []
    return [
        span
        for span, attributes in zip(spans, held, strict=True)
        if not _SESSION_KEYS.isdisjoint(attributes) or _has_details(span)
    ]


def _at_hand(attributes: Attributes) -> Attributes:
    return attributes.known if isinstance(attributes, EarlyAttributes) else attributes


class EarlyFacts(NamedTuple):
    """Values of the store's columns for one span; None where the span does not tell."""

    operation: str | None
    """`gen_ai.operation.name`, else OpenTelemetry's word for the kind."""
    provider: str | None
    request_model: str | None
    response_model: str | None
    agent: str | None
    tool: str | None
    """None for a span that stands for calls with spans of their own."""
    conversation: str | None
    error: str | None
    """The error's type."""
    session: str | None
    finish: str | None
    """Why a model's call ended, in the words of `finish_word`; the first reason of several."""
    kind: Kind
    input_tokens: int | None
    """Tokens that a model call read; None on spans of other kinds, as for the other counts."""
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    act: str | None
    """The id of its call: of a model's the response's, of a tool's the call's."""


_Values = Sequence[Any]
"""Values of `_TEXTS` and `_COUNTS`."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Attributes that fill the fields of spans of one shape and kind."""

    texts: tuple[str, ...]
    counts: tuple[str, ...]
    spread: Callable[[_Values], _Values]
    """Puts their values, and None behind them, in the places of `_TEXTS` and `_COUNTS`."""
    is_plain: bool
    """True if no other attribute of the span adds anything."""
    finish: str | None
    """Attribute with the finish reason of a model's call."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Set of attribute names that several spans have, and the fields that it can fill."""

    kind_keys: tuple[KindKey, ...]
    mark: Kind
    """Kind that the attributes are a sign of."""
    plans: dict[Kind, _Plan] = field(default_factory=dict[Kind, _Plan])


def read_early(span: Span, known: Mapping[str, AttributeValue]) -> EarlyFacts | None:
    """Read what columns hold of a span.

    Args:
        span: Is asked for its other attributes only where a call of a model tells its model or
            tokens nowhere but in its messages.
        known: Those of its attributes that are in `EARLY_KEYS`.

    Returns:
        None where it tells nothing. A response's model that only the answer names is looked for
        where no attribute names a model.

    Cost: about 4 µs for a plain span, 20 for another one, and nearly nothing without attributes.
    """
    failed = span.status == StatusCode.ERROR
    if not (known or failed or span.events or span.name in SPAN_NAMES):
        return None
    names = frozenset(known)
    shape = _shape(names)
    kind = _kind(shape, known, span.name)
    plan = shape.plans.get(kind)
    if plan is None:
        plan = shape.plans[kind] = _plan(names, kind)
    found = _plain(plan, known) if plan.is_plain and not _has_details(span) else None
    if found is None:
        found = _whole(span, kind, known)
    (provider, asked, answered, response, agent, conversation, session, tool, call, error,
     given, made, cached, reasoned) = found  # fmt: skip
    if kind is Kind.TOOL:
        tool = None if MERGED in span.name else call_of_hand_off(tool or name_of(span)) or None
    elif kind is Kind.AGENT:
        agent = agent or name_of(span) or None
    operation = known.get(OPERATION)
    is_tool, is_call = kind is Kind.TOOL, kind in MODEL_CALLS
    if not is_call:
        given = made = cached = reasoned = None
    return EarlyFacts(
        (operation if isinstance(operation, str) else str(operation))
        if operation
        else _OPERATIONS.get(kind),
        provider,
        asked,
        answered,
        agent,
        tool if is_tool else None,
        conversation,
        _error(span, error) if failed or error else None,
        session,
        _finish(plan, span, known)
        if kind is Kind.MODEL and (plan.finish is not None or span.events)
        else None,
        kind,
        given,
        made,
        cached,
        reasoned,
        call if is_tool else response if is_call else None,
    )


def _has_details(span: Span) -> bool:
    return bool(span.events) and any(event.name == DETAILS for event in span.events)


def _finish(plan: _Plan, span: Span, known: Mapping[str, AttributeValue]) -> str | None:
    first = None if plan.finish is None else known[plan.finish]
    if type(first) is tuple and first:
        first = first[0]
    if type(first) is str and first[:1].isalpha():
        return finish_word(first)
    reasons = Held(span, Kind.MODEL, known).finish_reasons()
    return finish_word(reasons[0]) if reasons else None


def _error(span: Span, named: str | None) -> str | None:
    """The type of the exception that a span tells of, but for control flow."""
    types = (e.attributes.get("exception.type") for e in span.events if e.name == "exception")
    found = named or next((str(each) for each in types if each), None)
    return None if found is None or is_control_flow(span) else found


@lru_cache(maxsize=1024)
def _shape(names: frozenset[str]) -> _Shape:
    keys = tuple(key for key in KIND_KEYS if key.name in names)
    mark = next((kind for name, (kind, _) in MARKS.items() if name in names), Kind.OTHER)
    return _Shape(keys, mark)


def _kind(shape: _Shape, known: Mapping[str, AttributeValue], name: str) -> Kind:
    for key in shape.kind_keys:
        value = known[key.name]
        if isinstance(value, str) and (kind := key.kind_of(value)) is not None:
            return kind
    named = SPAN_NAMES.get(name)
    return shape.mark if named is None else named[0]


def _plan(names: frozenset[str], kind: Kind) -> _Plan:
    first: dict[Field, tuple[int, str]] = {}
    for name in names:
        for use in USES[kind].get(name, ()):
            needed = use.convention.only_with
            if not needed or not names.isdisjoint(needed):
                first[use.field] = min(first.get(use.field, (use.rank, name)), (use.rank, name))
    texts = [each for each in _TEXTS if each in first]
    counts = [each for each in _COUNTS if each in first]
    places = {each: at for at, each in enumerate((*texts, *counts))}
    is_told = kind is not Kind.MODEL or (
        not first.keys().isdisjoint((Field.INPUT_TOKENS, Field.OUTPUT_TOKENS))
        and not first.keys().isdisjoint((Field.REQUEST_MODEL, Field.RESPONSE_MODEL))
    )
    return _Plan(
        tuple(first[each][1] for each in texts),
        tuple(first[each][1] for each in counts),
        itemgetter(*(places.get(each, len(places)) for each in (*_TEXTS, *_COUNTS))),
        is_told and first.keys().isdisjoint(_PUT_TOGETHER),
        first[Field.FINISH][1] if Field.FINISH in first else None,
    )


def _plain(plan: _Plan, known: Mapping[str, AttributeValue]) -> _Values | None:
    """Take the values as they are; None where one is not what it should be."""
    found: list[AttributeValue] = [known[name] for name in plan.texts]
    for value in found:
        if type(value) is not str or not value or value[0] == '"':
            return None
    for name in plan.counts:
        value = known[name]
        if type(value) is not int or value < 0:
            return None
        found.append(value)
    found.append(None)
    return plan.spread(found)


def _whole(span: Span, kind: Kind, known: Mapping[str, AttributeValue]) -> _Values:
    plain = replace(span, attributes=known, status=StatusCode.UNSET)  # no message for an error
    facts = read_facts(plain)
    usage = facts.usage
    if kind is Kind.MODEL and (
        (usage.input is None and usage.output is None)
        or not (facts.request_model or facts.response_model)
    ):
        facts = read_facts(replace(plain, attributes=span.attributes))
        usage = facts.usage
    texts = (
        facts.provider, facts.request_model, facts.response_model, facts.response_id, facts.agent,
        facts.conversation, facts.session, facts.tool, facts.call_id, facts.error,
    )  # fmt: skip
    counts = (usage.input, usage.output, usage.cached, usage.reasoning)
    return (*(each or None for each in texts), *counts)
