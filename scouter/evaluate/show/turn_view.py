"""One turn of a conversation: the question, the calls that it led to, the answer."""

from dataclasses import dataclass

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.acts import Act
from scouter.model.genai.control_flow import has_failed
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.genai.work import sum_told

MOST_CALLS = 100
MOST_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """A text, or its beginning."""

    text: str
    characters: int
    """Of the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """A call of a tool."""

    tool: str
    agent: str
    """Empty where the span names none."""
    span_id: str
    duration_ns: int
    is_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A trace as a turn of a conversation."""

    duration_ns: int
    question: TurnText | None
    """The last message of the user before the first answer; null where no span tells it."""
    answer: TurnText | None
    """The last message of the agent."""
    calls: tuple[TurnCall, ...]
    """The first 100 calls of tools, by start time."""
    call_count: int
    input_tokens: int | None
    """Of the model calls; null where none tells."""
    output_tokens: int | None


def view_turn(tree: SpanTree) -> TurnView:
    """Read a trace as a turn of a conversation.

    Args:
        tree: Spans of one trace, at least one.

    Cost: as of `SpanTree.acts`.
    """
    models = [act.facts for act in tree.acts if act.facts.kind in MODEL_CALLS]
    tools = [act for act in tree.acts if act.facts.kind is Kind.TOOL]
    return TurnView(
        duration_ns=tree.duration_ns,
        question=_text(tree.agent_work.question),
        answer=_text(tree.agent_work.content),
        calls=tuple(map(_call, tools[:MOST_CALLS])),
        call_count=len(tools),
        input_tokens=sum_told(each.usage.input for each in models),
        output_tokens=sum_told(each.usage.output for each in models),
    )


def _text(text: str | None) -> TurnText | None:
    return None if text is None else TurnText(text=text[:MOST_CHARACTERS], characters=len(text))


def _call(act: Act) -> TurnCall:
    span = act.spans[0]
    return TurnCall(
        tool=act.facts.tool,
        agent=act.facts.agent,
        span_id=span.span_id,
        duration_ns=span.duration_ns,
        is_failed=bool(act.facts.error) or any(map(has_failed, act.spans)),
    )
