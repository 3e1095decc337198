"""What an agent did and said, in one form, wherever it was read from."""

from dataclasses import dataclass

from scouter.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork:
    """Tool calls and the last answer of an agent."""

    tool_calls: tuple[ToolCall, ...] = ()
    """In the order in which they were made."""
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
