"""A stored conversation: the user's words and the agent's work, from spans and context."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import AgentWork, ToolCall
from scouter.model.genai.facts import Kind
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

_QUESTIONS: Final = (
    "input", "question", "query", "prompt", "user_input", "user_message", "user_query", "message",
    "messages",
)  # fmt: skip
"""Keys of a context under which agents store the question, the likeliest first."""
_MODELS: Final = frozenset({Kind.MODEL})
_AGENTS: Final = frozenset({Kind.AGENT, Kind.WORKFLOW})
_ANSWERS: Final = ("response", "answer", "output", "final_answer", "reply", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation up to the record in question."""

    asked: tuple[str, ...]
    """The user's messages, at least one."""
    answer: str | None
    """The agent's last words; None where its last message has none, or nothing has it."""
    tool_calls: tuple[ToolCall, ...]


def read_conversation(spans: Sequence[Span], context: JsonValue) -> Conversation | None:
    """Read a conversation.

    The spans are read first, as they are made by libraries that agree on the names; then the
    context, whose keys are the user's own.

    Args:
        spans: Of the record's trace, in time order; may be empty.
        context: Of the record; None where it is not known.

    Returns:
        None if nobody says what the user said.

    Cost: linear in the size of the messages.
    """
    asked = _asked_of_spans(spans) or _asked_of_context(context)
    if not asked:
        return None
    work: AgentWork = agent_work(spans)
    is_told = work.content is not None or any(kind_of(span) is Kind.MODEL for span in spans)
    return Conversation(
        asked=tuple(asked),
        answer=work.content if is_told else _text_under(context, _ANSWERS),
        tool_calls=work.tool_calls,
    )


def _asked_of_spans(spans: Sequence[Span]) -> list[str]:
    """The user's messages as the model calls got them, or else the agents.

    The first model call is the agent's own. A later one goes on with that conversation if it
    begins with the same messages of the user; others are of agents inside of the agent.
    """
    return _asked_of_kinds(spans, _MODELS) or _asked_of_kinds(spans, _AGENTS)


def _asked_of_kinds(spans: Sequence[Span], kinds: Collection[Kind]) -> list[str]:
    asked: list[str] = []
    for span in spans:
        if kind_of(span) in kinds:
            said = _asked_of_messages(read_facts(span).input_messages or [])
            if said[: len(asked)] == asked:
                asked = said
    return asked


def _asked_of_context(context: JsonValue) -> list[str]:
    if not isinstance(context, Mapping):
        return []
    for name in _QUESTIONS:
        value = context.get(name)
        if isinstance(value, str) and value.strip():
            return [value]
        if isinstance(value, list) and (asked := _asked_of_messages(value)):
            return asked
    return []


def _asked_of_messages(messages: list[JsonValue]) -> list[str]:
    log = MessageLog()
    log.read(messages)
    return log.asked


def _text_under(context: JsonValue, names: Sequence[str]) -> str | None:
    if not isinstance(context, Mapping):
        return None
    texts = (context.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), None)
