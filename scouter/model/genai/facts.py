"""Facts about an agent from one span, in one form for all conventions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from scouter.model.span import struct


class Kind(StrEnum):
    """Kind of a span, in one word for all conventions."""

    MODEL = "model"
    """One call of a model that writes an answer."""
    EMBEDDING = "embedding"
    TOOL = "tool"
    """One execution of a tool."""
    AGENT = "agent"
    WORKFLOW = "workflow"
    RETRIEVAL = "retrieval"
    GUARDRAIL = "guardrail"
    HELPER = "helper"
    """Work beside the agent's own: an evaluator's, a reranker's, upkeep of a memory."""
    OTHER = "other"
    """Anything else, and spans that no convention is known of."""


MODEL_CALLS: Final = frozenset({Kind.MODEL, Kind.EMBEDDING})
"""Providers count tokens for these; a span above them often repeats the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, with one meaning for all providers; None where they are not reported."""

    input: int | None = None
    """All that the model read, from its cache and into it included."""
    output: int | None = None
    """All that the model wrote, its reasoning included."""
    total: int | None = None
    """Total as reported."""
    cached: int | None = None
    """The part of `input` that was read from a cache."""
    cache_written: int | None = None
    """The part of `input` that was written to a cache."""
    reasoning: int | None = None
    """The part of `output` that nobody gets to read."""
    audio_input: int | None = None
    """The part of `input` that is sound."""
    audio_output: int | None = None
    """The part of `output` that is sound."""


NO_USAGE: Final = Usage()


class _Later:
    """A field that may hold a function, whose value is computed when somebody looks."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Any) -> None:  # noqa: ANN401 CPython's member descriptor
        self._slot = slot

    def __get__(self, facts: "SpanFacts | None", owner: type | None = None) -> Any:  # noqa: ANN401
        if facts is None:
            return self
        value = self._slot.__get__(facts, owner)
        if callable(value):
            value = value()
            self._slot.__set__(facts, value)
        return value

    def __set__(self, facts: "SpanFacts", value: object) -> None:
        self._slot.__set__(facts, value)


@struct
class SpanFacts:
    """Facts of one span; the empty text or None where it does not tell.

    Arguments, result, error, messages, usage and setup may be given as functions: most spans are
    never read for them, and to read them takes longer than all the rest.
    """

    span_id: str = ""
    kind: Kind = Kind.OTHER
    convention: str = ""
    """The first convention, in the order of `docs/conventions.md`, whose names the span has."""
    provider: str = ""
    request_model: str = ""
    response_model: str = ""
    response_id: str = ""
    agent: str = ""
    conversation: str = ""
    session: str = ""
    user: str = ""
    """Id of the person whom the agent serves."""
    tool: str = ""
    """Name of the tool that the span is an execution of."""
    call_id: str = ""
    arguments: JsonValue = None
    result: JsonValue = None
    has_result: bool = False
    """Tells a null result from no known result."""
    error: str = ""
    """Error type or message, empty where the span did not fail as far as is known."""
    error_type: str = ""
    """Error type alone."""
    input_messages: list[JsonValue] | None = None
    """None where it does not tell, an empty list where it says that there are none."""
    output_messages: list[JsonValue] | None = None
    finish_reasons: tuple[str, ...] = ()
    usage: Usage = field(default=NO_USAGE)
    setup: tuple[str, ...] = ()
    """What a call ran with, as of `setup_text`: prompt, definitions of tools, answering model."""
    is_merged: bool = False
    """True if the span stands for calls that have spans of their own, and so is no call."""
    runs_tools: bool = False
    """True if a model's call may have run tools itself, without a word: Google's SDK does."""


for _name in (
    "arguments", "result", "error", "input_messages", "output_messages", "usage", "setup",
):  # fmt: skip
    setattr(SpanFacts, _name, _Later(getattr(SpanFacts, _name)))


class Field(StrEnum):
    """A field of `SpanFacts` or of its `Usage`."""

    PROVIDER = "provider"
    REQUEST_MODEL = "request_model"
    RESPONSE_MODEL = "response_model"
    RESPONSE_ID = "response_id"
    PROMPT = "setup: prompt"
    """Name of a prompt that somebody manages; the text that a model was sent is `INPUT`."""
    PROMPT_VERSION = "setup: version of the prompt"
    PROMPT_HASH = "setup: hash of the prompt"
    PROMPT_TEXT = "setup: text of the prompt"
    """Its template, or the instructions of the call; only its digest is read."""
    FINGERPRINT = "setup: fingerprint"
    AGENT = "agent"
    CONVERSATION = "conversation"
    SESSION = "session"
    USER = "user"
    TOOL = "tool"
    CALL_ID = "call_id"
    ARGUMENTS = "arguments"
    RESULT = "result"
    ERROR = "error"
    INPUT = "input_messages"
    OUTPUT = "output_messages"
    TOOL_CALLS = "output_messages, calls of tools"
    """Beside a text that is the rest of the answer."""
    FINISH = "finish_reasons"
    USAGE = "usage"
    """An object with all its numbers."""
    INPUT_TOKENS = "usage.input"
    OUTPUT_TOKENS = "usage.output"
    TOTAL_TOKENS = "usage.total"
    CACHED = "usage.cached"
    CACHE_WRITTEN = "usage.cache_written"
    REASONING = "usage.reasoning"
    AUDIO_INPUT = "usage.audio_input"
    AUDIO_OUTPUT = "usage.audio_output"


VALUES: Final = frozenset({Field.ARGUMENTS, Field.RESULT})
"""An empty text is one."""
MESSAGES: Final = frozenset({Field.INPUT, Field.OUTPUT, Field.TOOL_CALLS})
ASKING_KINDS: Final = frozenset({Kind.MODEL, Kind.EMBEDDING, Kind.AGENT, Kind.WORKFLOW})
"""Kinds whose input and output are messages."""


Names: TypeAlias = Mapping[Field, tuple[str, ...]]
"""Attributes of a field, the one that is preferred first."""


def _nothing() -> dict[str, Mapping[str, Kind | None]]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One way of writing what an agent does into spans.

    An attribute that one convention names counts on every span, as instrumentations mix them;
    only where `only_with` names attributes does a span need one of these.
    """

    name: str
    source: str
    """Specification or code that the names were read from."""
    kinds: Mapping[str, Mapping[str, Kind | None]] = field(default_factory=_nothing)
    """Attribute to its value, in lower case, to the kind; None for a value that has none, and
    `*` before a value for all that end so."""
    span_names: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """Spans that their name tells, where the convention has no attribute for it."""
    marks: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """Attributes that only spans of one kind have; looked at where nothing else has the kind."""
    fields: Names = field(default_factory=dict[Field, tuple[str, ...]])
    """Attributes of spans of any kind, by the field that they fill."""
    tools: Names = field(default_factory=dict[Field, tuple[str, ...]])
    """Attributes of executions of tools, beside `fields`."""
    models: Names = field(default_factory=dict[Field, tuple[str, ...]])
    """Attributes of model calls, agents and workflows, beside `fields`."""
    agents: Names = field(default_factory=dict[Field, tuple[str, ...]])
    """Attributes of agents and workflows, beside `fields` and `models`."""
    numbered: Mapping[str, Field] = field(default_factory=dict[str, Field])
    """Prefixes of attributes that hold messages as `prefix.0.role`, by the field that they fill."""
    parameters: tuple[str, ...] = ()
    """Prefixes of attributes that each hold one argument of a tool."""
    only_with: tuple[str, ...] = ()
    leaves_out_cache: bool = False
    """Its count of input leaves out what was read from a cache or written to it."""
    has_span_per_call: bool = False
    """Every call of a tool has a span, so that what has none was not made."""
