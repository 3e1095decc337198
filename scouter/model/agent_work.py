"""An agent's work and words, in one form for all sources."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scouter.model.tool_call import ToolCall


class CallsToldBy(StrEnum):
    """Who tells of an agent's calls of tools, where the rule would see it otherwise."""

    SPANS = "spans"
    """Every call has a span."""
    MESSAGES = "messages"
    """What the models wrote; a span of a tool does not say that all have one."""
    NOBODY = "nobody"
    """Some calls are in no span and no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What keeps the calls of a trace from being told, in words; empty for nothing."""

    missing: str = ""
    """A model asked for a call that is not known."""
    silent: str = ""
    """A model's call may have asked for one: it tells neither its output nor that it did not."""
    unseen: str = ""
    """The same of a trace in which no call has a span of its execution."""


COMPLETE: Final = Evidence()
"""Of a response, which tells of its calls itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailRun:
    """One check by a guardrail."""

    name: str
    verdict: str = ""
    """What the guardrail found, such as `allow` or `deny`; empty where it is not told."""
    action: str = ""
    """What was done then, such as `allow` or `block`; empty where it is not told."""
    span_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork:
    """Tool calls and the last answer of an agent."""

    tool_calls: tuple[ToolCall, ...] = ()
    """In the order in which they were made."""
    has_overlaps: bool = False
    """Some calls are one step only because they ran at the same time: no message asks for them."""
    evidence: Evidence = COMPLETE
    """Whether these are all; see `why_untold`."""
    guardrails: tuple[GuardrailRun, ...] = ()
    """In the order in which they ran."""
    content: str | None = None
    """Text of the last answer, None where it has none."""
    model: str | None = None
    finish_reason: str | None = None
    """Of the last answer, in the provider's word."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    """As reported, or the sum of the two above where both are known."""


def total_of(total: int | None, given: int | None, made: int | None) -> int | None:
    """Take the reported total, or add input and output where both are known."""
    if total is not None or given is None or made is None:
        return total
    return given + made


def why_untold(work: AgentWork, by: CallsToldBy | None = None) -> str:
    """Say why more calls may have been made than are known; empty where all are told.

    Calls are told where a tool has a span, or where every call of a model tells what it wrote or
    that it asked for no tool. They are never told where a model asked for one that is not known.

    Args:
        work: What is known.
        by: What a person says of the agent, in place of the first sentence.
    """
    evidence = work.evidence
    if evidence.missing:
        return evidence.missing
    if by is CallsToldBy.NOBODY:
        return "calls_told_by says that nobody tells of all calls"
    if by is CallsToldBy.SPANS:
        return ""
    return evidence.unseen if by is None else evidence.silent
