"""A trace in a few words: a line for each agent, or as a turn of a conversation."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.acts import Act
from scouter.model.genai.control_flow import has_failed
from scouter.model.genai.facts import MODEL_CALLS, Kind
from scouter.model.genai.work import sum_known

CostOf: TypeAlias = Callable[[Act], float | None]
"""US dollars of a model's call; None where they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """The calls of one tool by one agent."""

    name: str
    calls: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Runs of another agent that began inside of one's own."""

    to: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """The work of one agent; a call that several spans tell of counts once."""

    name: str
    """Empty for work that no agent is named for."""
    runs: int
    model_calls: int
    tools: tuple[ToolLine, ...]
    """Agents in the order of their first calls."""
    retries: int
    """Calls of a model or a tool whose last call by the same agent failed."""
    failed: int
    """Calls of models and tools, and runs, that failed."""
    input_tokens: int | None
    """Null where no call tells."""
    output_tokens: int | None
    cost: float | None
    """US dollars; null without a call, and where that of any call is unknown."""
    unpriced_calls: int
    """Model calls of unknown cost."""
    unpriced_models: tuple[str, ...]
    """Their models, sorted."""
    hand_overs: tuple[HandOver, ...]


@dataclass(slots=True)
class _Work:
    acts: list[Act] = field(default_factory=list[Act])
    handed: Counter[str] = field(default_factory=Counter[str])


def agent_lines(tree: SpanTree, cost_of: CostOf) -> list[AgentLine]:
    """Sum up the work of each agent of a trace, in the order in which they began.

    A span that names no agent belongs to the one above it that does.

    Args:
        tree: The spans.
        cost_of: Prices a model's call.

    Cost: as of `SpanTree.acts`.
    """
    names: dict[str, str] = {
        span_id: act.facts.agent for act in tree.acts if act.facts.agent for span_id in act.span_ids
    }
    owners = [names.get(span_id, "") for span_id in tree.span_ids]
    for at in tree.top_down:
        if not owners[at] and tree.parents_at[at] >= 0:
            owners[at] = owners[tree.parents_at[at]]
    place = {span_id: at for at, span_id in enumerate(tree.span_ids)}
    work: dict[str, _Work] = {}
    for act in tree.acts:
        at = place[act.spans[0].span_id]
        work.setdefault(owners[at], _Work()).acts.append(act)
        above = owners[tree.parents_at[at]] if tree.parents_at[at] >= 0 else ""
        if act.facts.kind is Kind.AGENT and above and above != owners[at]:
            work.setdefault(above, _Work()).handed[owners[at]] += 1
    return [_line(name, each, cost_of) for name, each in work.items()]


def _line(name: str, work: _Work, cost_of: CostOf) -> AgentLine:
    calls, failed, retries = _count(work.acts)
    acts = [act for act in work.acts if act.facts.kind in MODEL_CALLS]
    models, costs = [act.facts for act in acts], list(map(cost_of, acts))
    known = [cost for cost in costs if cost is not None]
    unpriced = {
        each.response_model or each.request_model
        for each, cost in zip(models, costs, strict=True)
        if cost is None
    }
    return AgentLine(
        name=name,
        runs=sum(act.facts.kind is Kind.AGENT for act in work.acts),
        model_calls=len(models),
        tools=tuple(
            ToolLine(name=tool, calls=times, failed=failed[Kind.TOOL, tool])
            for (kind, tool), times in calls.items()
            if kind is Kind.TOOL
        ),
        retries=retries,
        failed=failed.total(),
        input_tokens=sum_known(each.usage.input for each in models),
        output_tokens=sum_known(each.usage.output for each in models),
        cost=sum(known) if known and len(known) == len(costs) else None,
        unpriced_calls=len(costs) - len(known),
        unpriced_models=tuple(sorted(unpriced)),
        hand_overs=tuple(HandOver(to=to, times=times) for to, times in work.handed.items()),
    )


def _count(
    acts: Sequence[Act],
) -> tuple[Counter[tuple[Kind, str]], Counter[tuple[Kind, str]], int]:
    """Calls and failed ones by kind and name, and how many came after a failed one."""
    calls: Counter[tuple[Kind, str]] = Counter()
    failed: Counter[tuple[Kind, str]] = Counter()
    has_failed: dict[tuple[Kind, str], bool] = {}
    retries = 0
    for act in acts:
        facts = act.facts
        key = facts.kind, facts.tool or facts.response_model or facts.request_model
        is_call = facts.kind is Kind.TOOL or facts.kind in MODEL_CALLS
        retries += is_call and has_failed.get(key, False)
        has_failed[key] = _has_failed(act)
        calls[key] += 1
        failed[key] += has_failed[key]
    return calls, failed, retries


def _has_failed(act: Act) -> bool:
    return bool(act.facts.error) or any(map(has_failed, act.spans))


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
        question=view_question(tree),
        answer=_text(tree.agent_work.content),
        calls=tuple(map(_call, tools[:MOST_CALLS])),
        call_count=len(tools),
        input_tokens=sum_known(each.usage.input for each in models),
        output_tokens=sum_known(each.usage.output for each in models),
    )


def view_question(tree: SpanTree) -> TurnText | None:
    """What the user asked of the agent; None where no span tells.

    Args:
        tree: Spans of one trace.
    """
    return _text(tree.agent_work.question)


def _text(text: str | None) -> TurnText | None:
    return None if text is None else TurnText(text=text[:MOST_CHARACTERS], characters=len(text))


def _call(act: Act) -> TurnCall:
    span = act.spans[0]
    return TurnCall(
        tool=act.facts.tool,
        agent=act.facts.agent,
        span_id=span.span_id,
        duration_ns=span.duration_ns,
        is_failed=_has_failed(act),
    )
