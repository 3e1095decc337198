"""One call of a tool by an agent."""

from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model asked for it and, where known, what came back."""

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
    """A span tells of its execution; else only messages tell of it."""
    step: int | None = field(default=None, compare=False)
    """Calls with one number were made side by side: one message asked for them or, where no
    message did, they ran at the same time under one parent. None where nobody tells."""
    span_ids: tuple[str, ...] = field(default=(), compare=False)
    """Spans of its execution, the outermost first; where there is none, of the model's call that
    asked for it; none where no span was read."""
