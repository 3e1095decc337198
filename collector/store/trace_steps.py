"""Steps of traces: their tool calls and their errors, in the order in which they began."""

from typing import NamedTuple


class Step(NamedTuple):
    """A span that is a call of a tool, or that failed, or both."""

    tool: str
    """Name of the tool; empty for a span that is no call of one."""
    is_error: bool
    error_type: str
    """Empty where the span tells none."""
    end_ns: int
