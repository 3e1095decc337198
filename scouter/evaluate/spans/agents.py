"""Model calls, tokens and cost of a trace, or of one agent in it.

A call belongs to the agent that it names, or else to the nearest agent around it. Several spans of
one call count once.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from scouter.evaluate.operators.show import show_name, show_names
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.acts import Act
from scouter.model.genai.facts import Kind
from scouter.model.genai.token_sums import TokenSum, states_usage, token_sums
from scouter.model.span import Span

COSTS: Final = (
    "gen_ai.usage.cost", "gen_ai.usage.cost_usd", "gen_ai.usage.total_cost", "llm.cost.total",
    "llm.usage.total_cost", "operation.cost",
)  # fmt: skip
"""Attributes in which instrumentors write the price of a call, in the currency of its sender."""
_SUMS: Final = {"input": 0, "output": 1, "total": 2}


def model_calls(tree: SpanTree, agent: str | None) -> list[Act]:
    """Find the calls of models that write an answer, in time order.

    Args:
        tree: The spans.
        agent: Name of the agent; None for all calls.

    Raises:
        TaskFault: No span tells of a model's call, so that nobody knows their number; or none
            tells of the agent.
    """
    return [act for act in _acts_of(tree, agent) if act.facts.kind is Kind.MODEL]


def tokens(tree: SpanTree, agent: str | None, part: str) -> TokenSum:
    """Sum up tokens.

    Args:
        tree: The spans.
        agent: Name of the agent; None for all calls.
        part: `input`, `output` or `total`.

    Raises:
        TaskFault: As of `model_calls`, and where no call states its tokens.
    """
    found = token_sums(_acts_of(tree, agent), tree.spans)[_SUMS[part]]
    if found.number is None:
        raise TaskFault(Reason.NOT_TOLD, f"no model's call states its {part} tokens")
    return found


def cost(tree: SpanTree, agent: str | None) -> tuple[float, str]:
    """Sum up what senders wrote down as the price of calls.

    Returns:
        The sum, and the reason, in words, that it lacks a call; empty for a whole one.

    Raises:
        TaskFault: As of `model_calls`, and where no call states its price.
    """
    prices = {act.span_ids[0]: _price(act.spans) for act in model_calls(tree, agent)
              if states_usage(act.facts)}  # fmt: skip
    known = [price for price in prices.values() if price is not None]
    if not known and prices:
        raise TaskFault(
            Reason.NOT_TOLD,
            f"no model's call states its cost; it is read from {', '.join(COSTS)}",
        )
    lacks = next((span_id for span_id, price in prices.items() if price is None), "")
    return sum(known), f"the model's call {lacks} does not state its cost" if lacks else ""


def _price(spans: Iterable[Span]) -> float | None:
    for span in reversed([*spans]):  # the innermost is nearest to the provider
        for name in COSTS:
            value = span.attributes.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return float(value)
    return None


def _acts_of(tree: SpanTree, agent: str | None) -> list[Act]:
    acts = tree.acts
    if not any(act.facts.kind is Kind.MODEL for act in acts):
        raise TaskFault(
            Reason.NOT_TOLD,
            f"none of the {len(tree)} spans of the trace says that it is a call of a model "
            "(gen_ai.operation.name is chat, openinference.span.kind is LLM and so on)",
        )
    if agent is None:
        return list(acts)
    owners = [_owner(acts, at) for at in range(len(acts))]
    if agent not in owners:
        names = sorted({*owners} - {""})
        told = show_names(names, len(names)) or "none"
        raise TaskFault(
            Reason.MISSING_PATH, f"no span tells of the agent {show_name(agent)}; there are: {told}"
        )
    return [act for act, owner in zip(acts, owners, strict=True) if owner == agent]


def _owner(acts: Sequence[Act], at: int) -> str:
    seen = 0
    while at >= 0 and seen <= len(acts):  # spans may name each other as parents
        if acts[at].facts.agent:
            return acts[at].facts.agent
        at, seen = acts[at].above, seen + 1
    return ""
