"""The reader of facts, driven by the tables of `conventions`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Final, cast

from pydantic import JsonValue

from scouter.model.genai.control_flow import is_control_flow
from scouter.model.genai.conventions import CACHE_APART
from scouter.model.genai.facts import (
    ASKING_KINDS,
    MESSAGES,
    MODEL_CALLS,
    NO_USAGE,
    VALUES,
    Field,
    Kind,
    SpanFacts,
    Usage,
)
from scouter.model.genai.lookup import (
    KNOWN,
    PARAMETERS,
    PREFIXES,
    SPAN_NAMES,
    TELLING,
    USES,
    Shape,
    Use,
    shape_of,
)
from scouter.model.genai.message_forms import (
    CHOICE,
    DETAILS,
    MESSAGE_EVENTS,
    gathered,
    messages_in,
    messages_of_events,
    numbered_messages,
    split_events,
)
from scouter.model.genai.messages import field, text
from scouter.model.genai.names import call_of_hand_off
from scouter.model.genai.setup import (
    FINGERPRINT,
    PROMPT,
    PROMPT_DIGEST,
    RESPONSE_MODEL,
    TOOLS_DIGEST,
    digest_of,
    fingerprint_in,
    instructions,
    setup_text,
    tools_digest,
)
from scouter.model.genai.tool_definitions import TOOL_DEFINITIONS
from scouter.model.genai.usage import read_usage, whole_input, whole_output
from scouter.model.genai.wrappers import (
    is_broken_json,
    is_hidden_text,
    open_arguments,
    open_json,
    open_result,
    tells_failure,
)
from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, AttributeValue, Span, StatusCode

_AGENTS: Final = frozenset({Kind.AGENT, Kind.WORKFLOW})
_TOOL_EVENTS: Final = {
    "gen_ai.tool.message": Field.ARGUMENTS, CHOICE: Field.RESULT,
    "tool.input": Field.ARGUMENTS, "tool.output": Field.RESULT,
}  # fmt: skip
"""Events of a tool's span and what they hold: Strands' and Claude Code's."""
_EVENT_VALUES: Final = {
    Field.ARGUMENTS: ("content", "message", "input"),
    Field.RESULT: ("content", "message", "output", "result"),
}
"""Attributes of these events."""
_REMARKS: Final = ("meta", "response_metadata")
"""Objects inside of an answer: Haystack's and LangChain's."""
_GOOGLE: Final = ("gcp", "gemini", "google", "vertex")
"""Beginnings of its names as a provider."""
_USAGES: Final = ("usage", "token_usage", "usage_metadata", "usageMetadata")
_MODELS: Final = ("model", "model_name", "modelVersion")
_CHOICES: Final = "gen_ai.request.choice.count"
_PARAMETERS: Final = "llm.invocation_parameters"
"""Attributes that tell how many answers were requested: OpenTelemetry's and OpenInference's."""
_OBJECT: Final = re.compile(r"<[\w.]+ (?:object at 0x[0-9a-f]+|\[\d{3} [^\n]*)>")
"""A stream or a response as Python prints it, which says nothing of what is in it."""
_DIGITS: Final = 15
_HASH: Final = 12
"""Digits of a prompt's hash: as many as those of a digest."""


def plain(attributes: Attributes) -> Mapping[str, AttributeValue]:
    """Attributes that answer as fast as a dict does."""
    return attributes if isinstance(attributes, dict) else dict(attributes.items())


class SpanValues:
    """Values in the attributes and events of one span, sorted by field."""

    def __init__(
        self, span: Span, kind: Kind, attributes: Mapping[str, AttributeValue], shape: Shape
    ) -> None:
        self._span, self._kind, self._attributes = span, kind, attributes
        self._plan, self._has_tools = shape.plan(kind), shape.has_tools
        details = (plain(each.attributes) for each in span.events if each.name == DETAILS)
        self._details = [(each, shape_of(each).plan(kind)) for each in details]

    def _values(self, field: Field) -> Iterable[tuple[Use, AttributeValue | Attributes]]:
        """The values of a field but empty ones, the one that counts most first.

        Of messages in many attributes, the value is all attributes. Those of an event come last.
        """
        if field not in self._plan and not self._details:
            return ()
        return self._read(field)

    def _read(self, field: Field) -> Iterator[tuple[Use, AttributeValue | Attributes]]:
        for attributes, plan in ((self._attributes, self._plan), *self._details):
            for use in plan.get(field, ()):
                value = attributes if use.prefix else attributes[use.name]
                if value is not None and (value != "" or field in VALUES):
                    yield use, value

    def has_result(self) -> bool:
        """True if anything is the result of a tool, and be it null."""
        fields = (use.field for use, _ in self._values(Field.RESULT))
        return any(True for _ in fields) or any(
            each is Field.RESULT for each, _ in self._tool_events()
        )

    def text(self, field: Field) -> str:
        """The first text that has a field, the empty one where none does."""
        for _, value in self._values(field):
            if type(value) is str and value[0] != '"':
                return value
            read = open_json(to_json_value(value)) if isinstance(value, str) else value
            said = read if isinstance(read, str) else "" if read is None else str(read)
            if said:
                return said
        return ""

    def texts(self, field: Field) -> tuple[str, ...]:
        """The first list of texts that has a field; one text is a list of one."""
        for _, value in self._values(field):
            read = open_json(to_json_value(value))
            listed = read if isinstance(read, list) else [read]
            said = tuple(
                item.removeprefix("FinishReason.")  # an enum that was written as a text
                for item in listed
                if isinstance(item, str) and item
            )
            if said:
                return said
        return ()

    def finish_reasons(self) -> tuple[str, ...]:
        """Why a model's call ended, in the provider's words: by attributes, else by its events."""
        said = self.texts(Field.FINISH)
        if said or self._kind is not Kind.MODEL:
            return said
        ends = (e.attributes.get("finish_reason") for e in self._span.events if e.name == CHOICE)
        return tuple(reason for reason in ends if isinstance(reason, str) and reason)

    def error(self) -> str:
        """The error's type, else its message; none where control flow ended the span."""
        named = self.text(Field.ERROR)
        if self._span.status != StatusCode.ERROR and not named:
            return "error" if self._result_tells_failure() else ""
        if is_control_flow(self._span):
            return ""
        return named or self._span.status_message or self._raised() or "error"

    def error_type(self) -> str:
        """The error's type, as an attribute or an exception has it; none of control flow."""
        named = self.text(Field.ERROR)
        if self._span.status != StatusCode.ERROR and not named:
            return ""
        return "" if is_control_flow(self._span) else named or self._raised()

    def _raised(self) -> str:
        raised = (e.attributes for e in self._span.events if e.name == "exception")
        types = (str(each.get("exception.type", "")) for each in raised)
        return next(filter(None, types), "")

    def _result_tells_failure(self) -> bool:
        for _, value in self._values(Field.RESULT):
            return tells_failure(value if isinstance(value, str) else to_json_value(value))
        return False

    def arguments(self) -> JsonValue:
        """Give the arguments of a tool's span: of an attribute, an event, or one attribute each."""
        for _, value in self._values(Field.ARGUMENTS):
            return open_arguments(to_json_value(value))
        for key, value in self._tool_events():
            if key is Field.ARGUMENTS:
                return open_arguments(value)
        for prefix in PARAMETERS:
            if found := gathered(self._attributes, prefix):
                return found
        return None

    def result(self) -> JsonValue:
        """Give the result of a tool's span; None where there is none, and where it is null."""
        for _, value in self._values(Field.RESULT):
            return open_result(to_json_value(value))
        for key, value in self._tool_events():
            if key is Field.RESULT:
                return open_result(value)
        return None

    def _tool_events(self) -> Iterator[tuple[Field, JsonValue]]:
        if self._kind is not Kind.TOOL:
            return
        for event in self._span.events:
            field = _TOOL_EVENTS.get(event.name)
            if field is None:
                continue
            values = (event.attributes.get(name) for name in _EVENT_VALUES[field])
            found = next((value for value in values if value is not None), None)
            if found is not None:
                yield field, to_json_value(found)

    def input_messages(self) -> list[JsonValue] | None:
        """Give the messages to a model or an agent; None where nothing has them."""
        return self._messages(Field.INPUT, "user")

    def output_messages(self, role: str = "assistant") -> list[JsonValue] | None:
        """Give the messages that a model answered, or the last message of an agent.

        Args:
            role: Role of texts that do not tell whose they are.
        """
        found = self._messages(Field.OUTPUT, role)
        calls = [call for _, value in self._values(Field.TOOL_CALLS) for call in _listed(value)]
        if calls:
            said = [message for message in found or () if isinstance(message, dict)]
            first = said[0] if said else {"role": "assistant"}
            return [{**first, "tool_calls": calls}, *said[1:]]
        if found and self._kind in _AGENTS:
            return found[-1:]
        return found[:1] if found and self._are_choices(found) else found

    def _are_choices(self, messages: Sequence[JsonValue]) -> bool:
        """Tell whether a model had to give several answers, of which the first counts.

        Each choice has its own end; items of one answer share theirs.
        """
        if len(messages) < 2 or self._kind is not Kind.MODEL:
            return False
        parameters = open_json(to_json_value(self._attributes.get(_PARAMETERS)))
        count = integer(self._attributes.get(_CHOICES)) or integer(field(parameters, "n")) or 0
        return count > 1 or all(text(field(each, "finish_reason")) for each in messages)

    def _messages(self, field: Field, role: str) -> list[JsonValue] | None:
        """Read the messages of the first place that has some; None where no place is known."""
        is_input = field is Field.INPUT
        hollow: list[JsonValue] | None = None
        for use, value in self._values(field):
            read = _read_messages(use, value, role)
            if read and any(map(_says_something, read)):
                return read
            hollow = hollow or read
        events = [
            (event.name, _json_object(event.attributes))
            for event in self._span.events
            if event.name in MESSAGE_EVENTS and event.name != DETAILS
        ]
        given, made = messages_of_events(events)
        found = given if is_input else made
        return found or hollow

    def usage(self) -> Usage:
        """Tokens, in the one meaning that `Usage` has."""
        usage = Usage(
            input=self._number(Field.INPUT_TOKENS),
            output=self._number(Field.OUTPUT_TOKENS),
            total=self._number(Field.TOTAL_TOKENS),
            cached=self._number(Field.CACHED),
            cache_written=self._number(Field.CACHE_WRITTEN),
            reasoning=self._number(Field.REASONING),
            audio_input=self._number(Field.AUDIO_INPUT),
            audio_output=self._number(Field.AUDIO_OUTPUT),
        )
        for _, value in self._values(Field.USAGE):
            usage = _filled(usage, _usage_in(open_arguments(to_json_value(value))))
        if usage.input is None and usage.output is None:
            stated = _first_of(self._remarks, _USAGES)
            if stated is not None:  # few spans tell it so, and it is looked for under many names
                usage = _filled(usage, read_usage(stated))
        provider = self.text(Field.PROVIDER).lower()
        apart = any(
            name in provider and (not needed or needed in self._attributes)
            for name, needed in CACHE_APART.items()
        )
        for use, _ in self._values(Field.INPUT_TOKENS):
            apart = apart or use.convention.leaves_out_cache
            break
        return whole_output(whole_input(usage, leaves_out_cache=apart))

    @cached_property
    def _remarks(self) -> JsonValue:
        """Object that frameworks write beside a model's answer, with its usage and model."""
        if self._kind is not Kind.MODEL:
            return None
        for _, value in self._values(Field.OUTPUT):
            opened = open_json(to_json_value(value)) if isinstance(value, str) else None
            if _first_of(opened, (*_USAGES, *_MODELS)) is not None:
                return opened  # a whole response of a provider
        for message in reversed(self.output_messages() or ()):
            for name in _REMARKS:
                if isinstance(remarks := field(message, name), dict):
                    return remarks
        return None

    def runs_tools(self) -> bool:
        """Tell whether tools are Python functions of Google's SDK, which runs those by itself.

        Their definition is a name alone.
        """
        tools = self._attributes.get(TOOL_DEFINITIONS)
        if tools is None or not self.text(Field.PROVIDER).startswith(_GOOGLE):
            return False
        return any(isinstance(tool, dict) and tool.keys() == {"name"} for tool in _listed(tools))

    def response_model(self) -> str:
        """The model that answered, by an attribute, else as the answer itself names it."""
        named = self.text(Field.RESPONSE_MODEL)
        if (
            named
            or self._kind is not Kind.MODEL
            or any(use.is_messages or use.prefix for use, _ in self._values(Field.OUTPUT))
        ):
            return named
        return text(_first_of(self._remarks, _MODELS))

    def setup(self) -> tuple[str, ...]:
        """Give what the call ran with, see `SpanFacts.setup`."""
        named = (self.text(Field.PROMPT), self.text(Field.PROMPT_VERSION))
        found = {
            PROMPT: " ".join(filter(None, named)),
            PROMPT_DIGEST: self.text(Field.PROMPT_HASH)[:_HASH],
        }
        if self._kind in ASKING_KINDS:
            found[PROMPT_DIGEST] = found[PROMPT_DIGEST] or self._prompt_digest()
            if self._has_tools or self._span.events:
                found[TOOLS_DIGEST] = tools_digest(self._span)
            found[FINGERPRINT] = self.text(Field.FINGERPRINT) or self._fingerprint()
        if self._kind in MODEL_CALLS:
            found[RESPONSE_MODEL] = self.response_model()
        return tuple(setup_text(kind, value) for kind, value in found.items() if value)

    def _prompt_digest(self) -> str:
        for _, value in self._values(Field.PROMPT_TEXT):
            return digest_of(value)
        for use, value in self._values(Field.INPUT):
            if prompt := instructions(value, use.prefix):
                return digest_of(prompt)
        return ""

    def _fingerprint(self) -> str:
        for _, value in self._values(Field.OUTPUT):
            if isinstance(value, str) and (found := fingerprint_in(value)):
                return found
        return ""

    def _number(self, field: Field) -> int | None:
        for _, value in self._values(field):
            number = integer(value)
            if number is not None:
                return number
        return None


def _first_of(value: JsonValue, names: Sequence[str]) -> JsonValue:
    """The first field of an object that is there."""
    found = (field(value, name) for name in names)
    return next((item for item in found if item is not None), None)


def _listed(value: AttributeValue | Attributes) -> list[JsonValue]:
    read = open_json(to_json_value(value))
    return read if isinstance(read, list) else []


def _json_object(attributes: Attributes) -> dict[str, JsonValue]:
    return {name: to_json_value(value) for name, value in attributes.items()}


def _read_messages(
    use: Use, value: AttributeValue | Attributes, role: str
) -> list[JsonValue] | None:
    """Read what one attribute, or those of one prefix, hold; None for what is cut short."""
    if use.prefix:
        return numbered_messages(cast(Attributes, value), use.prefix.removesuffix("."))
    read = open_json(to_json_value(value))
    if isinstance(read, str) and (read == "null" or _OBJECT.fullmatch(read)):
        return None
    if isinstance(read, str) and use.is_messages and read.lstrip()[:1] in ("[", "{"):
        return None
    if is_broken_json(read) and not use.is_text:
        return None
    split = split_events(read)
    if split is not None:
        given, made = split
        return given if role == "user" else made or given[-1:]
    return messages_in(read, role)


def _says_something(message: JsonValue) -> bool:
    """Tell whether a message is more than a role and a finish reason."""
    return isinstance(message, dict) and any(
        value for name, value in message.items() if name not in ("role", "finish_reason", "name")
    )


def _usage_in(value: JsonValue) -> Usage:
    inner = field(value, "usage")
    return read_usage(value if inner is None else inner)


def _filled(usage: Usage, other: Usage) -> Usage:
    """Take from another what is not reported yet."""
    lacks = [each.name for each in fields(Usage) if getattr(usage, each.name) is None]
    return replace(usage, **{name: getattr(other, name) for name in lacks})


def integer(value: object) -> int | None:
    """Read a count, which some senders write as a text or as a double; -1 stands for none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) <= _DIGITS else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and value >= 0 else None


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
    values = SpanValues(span, Kind.WORKFLOW, attributes, shape_of(attributes))
    return values.output_messages(role=role) or []


def step_input(span: Span) -> list[JsonValue]:
    """Read the messages in what a step was given; texts are the user's."""
    attributes = plain(span.attributes)
    return SpanValues(span, Kind.WORKFLOW, attributes, shape_of(attributes)).input_messages() or []


def read_facts(span: Span) -> SpanFacts:
    """Read what one span says about an agent.

    Arguments, results and messages are opened when somebody looks at them.

    Cost: linear in the number of its attributes; later in the size of what is looked at.
    """
    attributes = plain(span.attributes)
    shape = shape_of(attributes)
    kind, convention = _kind_by(shape, span, attributes)
    values = SpanValues(span, kind, attributes, shape)
    is_tool, has_messages = kind is Kind.TOOL, kind in ASKING_KINDS
    named = values.text(Field.TOOL) if is_tool else ""
    if is_tool and not named:
        named = name_of(span)
    elif is_hidden_text(named):  # the span's own name stands behind the operation, if at all
        named = "" if name_of(span) == span.name else name_of(span)
    tool = call_of_hand_off(named) if is_tool else ""
    return SpanFacts(
        span_id=span.span_id,
        kind=kind,
        convention=convention,
        provider=values.text(Field.PROVIDER),
        request_model=values.text(Field.REQUEST_MODEL),
        response_model=values.response_model(),
        response_id=values.text(Field.RESPONSE_ID),
        agent=values.text(Field.AGENT) or (name_of(span) if kind is Kind.AGENT else ""),
        conversation=values.text(Field.CONVERSATION),
        session=values.text(Field.SESSION),
        user=values.text(Field.USER),
        tool=tool,
        call_id=values.text(Field.CALL_ID) if is_tool else "",
        arguments=cast(JsonValue, values.arguments) if is_tool and tool is named else None,
        result=cast(JsonValue, values.result) if is_tool else None,
        has_result=is_tool and values.has_result(),
        error=cast(str, values.error),
        error_type=values.error_type(),
        input_messages=cast(list[JsonValue], values.input_messages) if has_messages else None,
        output_messages=cast(list[JsonValue], values.output_messages) if has_messages else None,
        finish_reasons=values.finish_reasons(),
        usage=cast(Usage, values.usage) if has_messages else NO_USAGE,
        setup=cast(tuple[str, ...], values.setup),
        is_merged=is_tool and MERGED in span.name,
        runs_tools=kind is Kind.MODEL and values.runs_tools(),
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
