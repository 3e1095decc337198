"""Parts of a trace of any length."""

from pydantic import Field

from scouter.client.models.answer import Answer
from scouter.client.models.evaluations import Evaluation
from scouter.evaluate.show.agent_lines import AgentLine, TurnView
from scouter.evaluate.show.trace_columns import TraceColumns
from scouter.evaluate.show.trace_view import ResultView, SpanView


class TraceRows(Answer):
    """A trace as columns, the evaluations of its records, and results that name no span of it."""

    trace_id: str
    service_name: str = ""
    """Of the root, as the next two; empty if it tells none."""
    service_version: str = ""
    environment: str = ""
    columns: TraceColumns
    evaluations: tuple[Evaluation, ...]
    tasks: tuple[ResultView, ...]


class TraceAgents(Answer):
    """The agents of a trace, in the order in which they began."""

    items: tuple[AgentLine, ...]


class TraceTurn(Answer):
    """A trace as a turn of a conversation."""

    trace_id: str
    turn: TurnView


class TraceMatches(Answer):
    """Spans that a filter selects."""

    span_ids: tuple[str, ...] = Field(description="By start time.")


class CutText(Answer):
    """A text of which only the beginning is here."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to it, from the span.")
    characters: int = Field(description="Characters of the whole text.")
    is_binary: bool = Field(description="It looks like base64, so that none of it is here.")


class SpanDetail(Answer):
    """One span as people read it."""

    trace_id: str
    span: SpanView
    cut: tuple[CutText, ...] = Field(description="Texts of which only the beginning is here.")
