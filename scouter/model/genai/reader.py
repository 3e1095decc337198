"""The reader of facts, driven by the tables of `conventions`."""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from pydantic import JsonValue

from scouter.model.genai.facts import NO_USAGE, Kind, SpanFacts, Usage
from scouter.model.genai.field import ASKING_KINDS, MESSAGES, VALUES, Field
from scouter.model.genai.held import Held, plain
from scouter.model.genai.hidden import is_hidden
from scouter.model.genai.lookup import KNOWN, PREFIXES, SPAN_NAMES, TELLING, USES, Shape, shape_of
from scouter.model.genai.names import call_of_hand_off
from scouter.model.genai.talk import DETAILS, MESSAGE_EVENTS
from scouter.model.span import AttributeValue, Span, StatusCode

MERGED: Final = "(merged"
"""Part of the name of a span that stands for calls that have spans of their own."""
_SESSION_KEYS: Final = frozenset(
    name for uses in USES.values() for name, each in uses.items()
    if any(use.field in (Field.CONVERSATION, Field.SESSION) for use in each)
)  # fmt: skip
_NAME_PREFIXES: Final = (
    "execute_tool ", "running tool: ", "invoke_agent ", "MCP send ", "tools/call ",
)  # fmt: skip
_NAME_SUFFIXES: Final = (".tool", ".run", ".__call__", "._execute_core", ".workflow", ".agent")


def kind_of(span: Span) -> Kind:
    """Tell what a span is, without reading the rest of it.

    The value of an attribute that is made to tell it counts first, then the span's name where a
    convention has no such attribute, then attributes that only spans of one kind have: names of
    operations come and go.
    """
    return _kind_of(span, plain(span.attributes))[0]


def is_step(span: Span) -> bool:
    """Tell whether a span is a step of an agent that a convention has no narrower word for."""
    attributes = plain(span.attributes)
    return not TELLING.isdisjoint(attributes) and _kind_of(span, attributes)[0] is Kind.OTHER


def has_facts(span: Span) -> bool:
    """False for a span, such as one of a web server, that has nothing for `read_facts`."""
    return (
        not KNOWN.isdisjoint(span.attributes)
        or bool(span.events)
        or span.status == StatusCode.ERROR
        or span.name in SPAN_NAMES
    )


def naming_sessions(spans: Iterable[Span]) -> list[Span]:
    """Find the spans that can name a conversation or a session; none of most traces.

    Cost: linear, 0.2 µs for a span.
    """
    return [
        span
        for span in spans
        if not _SESSION_KEYS.isdisjoint(span.attributes)
        or (span.events and any(event.name == DETAILS for event in span.events))
    ]


def step_output(span: Span, role: str = "") -> list[JsonValue]:
    """Read the messages in what a step gave back.

    Args:
        span: The step.
        role: Role of texts that tell none; without it they are no messages.
    """
    attributes = plain(span.attributes)
    told = Held(span, Kind.WORKFLOW, attributes, shape_of(attributes))
    return told.output_messages(role=role) or []


def read_facts(span: Span) -> SpanFacts:
    """Read what one span tells about an agent.

    Arguments, results and messages are opened when somebody looks at them.

    Cost: linear in the number of its attributes; later in the size of what is looked at.
    """
    attributes = plain(span.attributes)
    shape = shape_of(attributes)
    kind, convention = _kind_by(shape, span, attributes)
    told = Held(span, kind, attributes, shape)
    is_tool, is_asked = kind is Kind.TOOL, kind in ASKING_KINDS
    named = told.text(Field.TOOL) if is_tool else ""
    if is_tool and not named:
        named = name_of(span)
    elif is_hidden(named):  # the span's own name tells it behind the operation, if at all
        named = "" if name_of(span) == span.name else name_of(span)
    tool = call_of_hand_off(named) if is_tool else ""
    return SpanFacts(
        span_id=span.span_id,
        kind=kind,
        convention=convention,
        provider=told.text(Field.PROVIDER),
        request_model=told.text(Field.REQUEST_MODEL),
        response_model=told.response_model(),
        response_id=told.text(Field.RESPONSE_ID),
        agent=told.text(Field.AGENT) or (name_of(span) if kind is Kind.AGENT else ""),
        conversation=told.text(Field.CONVERSATION),
        session=told.text(Field.SESSION),
        tool=tool,
        call_id=told.text(Field.CALL_ID) if is_tool else "",
        arguments=cast(JsonValue, told.arguments) if is_tool and tool is named else None,
        result=cast(JsonValue, told.result) if is_tool else None,
        has_result=is_tool and told.has_result(),
        error=cast(str, told.error),
        error_type=told.error_type(),
        input_messages=cast(list[JsonValue], told.input_messages) if is_asked else None,
        output_messages=cast(list[JsonValue], told.output_messages) if is_asked else None,
        finish_reasons=told.finish_reasons(),
        usage=cast(Usage, told.usage) if is_asked else NO_USAGE,
        is_merged=is_tool and MERGED in span.name,
        runs_tools=kind is Kind.MODEL and told.runs_tools(),
    )


def is_shown_as(kind: Kind, attribute: str) -> bool:
    """Tell whether an attribute holds what facts of this kind have a field for, of any size."""
    uses = USES[kind].get(attribute, ())
    if any(use.field in VALUES or use.field in MESSAGES for use in uses):
        return True
    return kind in ASKING_KINDS and attribute.startswith(PREFIXES)


def is_message_event(name: str) -> bool:
    """Tell whether an event of this name holds messages of a model's call."""
    return name in MESSAGE_EVENTS


def _kind_of(span: Span, attributes: Mapping[str, AttributeValue]) -> tuple[Kind, str]:
    """Tell what a span is, and by which convention."""
    if TELLING.isdisjoint(attributes) and span.name not in SPAN_NAMES:
        return Kind.OTHER, ""
    return _kind_by(shape_of(attributes), span, attributes)


def _kind_by(
    shape: Shape, span: Span, attributes: Mapping[str, AttributeValue]
) -> tuple[Kind, str]:
    for key in shape.kind_keys:
        value = attributes[key.name]
        if isinstance(value, str) and (kind := key.kind_of(value)) is not None:
            return kind, key.convention.name
    found = SPAN_NAMES.get(span.name) or shape.mark
    return (Kind.OTHER, "") if found is None else (found[0], found[1].name)


def name_of(span: Span) -> str:
    """The name of a span without what frameworks put around that of a tool or an agent."""
    name = "" if span.name in SPAN_NAMES else span.name
    for prefix in _NAME_PREFIXES:
        name = name.removeprefix(prefix)
    for suffix in _NAME_SUFFIXES:
        name = name.removesuffix(suffix)
    return name
