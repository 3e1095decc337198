"""An agent's work and words, its calls of tools among them, in one form for all sources."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model requested it and, where known, what came back."""

    name: str
    arguments: JsonValue = None
    """Usually an object; a text where the model's arguments were no JSON; None where unknown."""
    call_id: str = ""
    result: JsonValue = None
    has_result: bool = False
    """Tells a null result from no known result."""
    error: str = ""
    """Error type or message, empty where the call did not fail as far as is known."""
    is_executed: bool = field(default=False, compare=False)
    """A span reports its execution; else only messages report it."""
    step: int | None = field(default=None, compare=False)
    """Calls with one number were made side by side: one message requested them or, where no
    message did, they ran at the same time under one parent. None where nobody tells."""
    span_ids: tuple[str, ...] = field(default=(), compare=False)
    """Spans of its execution, the outermost first; where there is none, of the model's call that
    requested it; none where no span was read."""


class CallsToldBy(StrEnum):
    """Source that a person names for an agent's tool calls, where traces alone would mislead.

    Without it, the spans of a trace decide whether all calls are known; see `why_unreported`.
    """

    SPANS = "spans"
    """Every call has a span."""
    MESSAGES = "messages"
    """Every call is in the models' messages; a tool's span does not say that every tool has one."""
    NOBODY = "nobody"
    """Some calls are in no span and no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Reasons why tool calls of a trace may be unknown, in words; an empty one does not apply."""

    missing: str = ""
    """Reason if a model requested a call that is not known."""
    silent: str = ""
    """Reason if the output of a model call is not here, so that it may have requested a tool."""
    unseen: str = ""
    """The reason of `silent`, in a trace in which no call has a span of its execution."""


TOKENS: Final = ("input_tokens", "output_tokens", "total_tokens")
"""Fields of `AgentWork` with numbers of tokens."""
COMPLETE: Final = Evidence()
"""Evidence of a response, which names all of its calls itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailRun:
    """One check by a guardrail."""

    name: str
    verdict: str = ""
    """Verdict of the guardrail, such as `allow` or `deny`; empty where it is not reported."""
    action: str = ""
    """Action upon the verdict, such as `allow` or `block`; empty where it is not reported."""
    span_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork:
    """Tool calls and the last answer of an agent."""

    tool_calls: tuple[ToolCall, ...] = ()
    """Calls in the order in which they were made."""
    has_overlaps: bool = False
    """Some calls are one step only because they ran at the same time: no message requests them."""
    evidence: Evidence = COMPLETE
    """Reasons for which calls may be missing here; see `why_unreported`."""
    guardrails: tuple[GuardrailRun, ...] = ()
    """Checks in the order in which they ran."""
    question: str | None = None
    """The user's message that the agent answers; None where it is not reported."""
    content: str | None = None
    """Text of the agent's last answer, None where it has none."""
    unknown_content: str = ""
    """Reason why the text is not known; empty where it is, or where the answer has none."""
    asks_for_tool: bool = False
    """The last answer requests a tool."""
    answer_span_id: str = ""
    """Span of the model's call that gave the answer; empty where none is known."""
    has_agent: bool = True
    """False for spans that report no question, no answer and no call of an agent's own."""
    model: str | None = None
    finish_reason: str | None = None
    """Reason for the end of the last answer, in the provider's word."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    """Total as reported, or the sum of the two above where both are known."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fields from `content` on of which a part is missing, with the reason in words.

    A number of tokens is the least that it can be then."""


ANSWER_CUT: Final = "the answer was cut, as its end says"
"""Reason for a missing part of `content`."""


def total_of(total: int | None, given: int | None, made: int | None) -> int | None:
    """Take the reported total, or add input and output where both are known."""
    if total is not None or given is None or made is None:
        return total
    return given + made


def why_unreported(work: AgentWork, by: CallsToldBy | None = None) -> str:
    """Say why more calls may have been made than are known; empty where all are known.

    All calls are known where a tool has a span, or where every model call shows its output or that
    it requested no tool. They are never all known where a model requested one that is not here.

    Args:
        work: Calls and evidence.
        by: Source that a person names for the agent; it takes the place of the first rule above.
    """
    evidence = work.evidence
    if evidence.missing:
        return evidence.missing
    if by is CallsToldBy.NOBODY:
        return "calls_told_by says that nobody tells of all calls"
    if by is CallsToldBy.SPANS:
        return ""
    return evidence.unseen if by is None else evidence.silent
