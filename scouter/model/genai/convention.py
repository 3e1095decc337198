"""Fields of a span's facts, and the form of a table that names attributes for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from scouter.model.genai.facts import Kind


class Field(StrEnum):
    """A field of `SpanFacts` or of its `Usage`."""

    PROVIDER = "provider"
    REQUEST_MODEL = "request_model"
    RESPONSE_MODEL = "response_model"
    RESPONSE_ID = "response_id"
    PROMPT = "setup: prompt"
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
