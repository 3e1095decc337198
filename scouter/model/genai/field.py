"""Fields that a convention's table can name an attribute for."""

from enum import StrEnum
from typing import Final

from scouter.model.genai.facts import Kind


class Field(StrEnum):
    """A field of `SpanFacts` or of its `Usage`."""

    PROVIDER = "provider"
    REQUEST_MODEL = "request_model"
    RESPONSE_MODEL = "response_model"
    RESPONSE_ID = "response_id"
    AGENT = "agent"
    CONVERSATION = "conversation"
    SESSION = "session"
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
