"""Whether the calls of an agent's tools are told: what nobody told of may have happened."""

from collections.abc import Sequence
from typing import Final

from scouter.model.agent_work import Evidence
from scouter.model.genai.acts import Act
from scouter.model.genai.calls import Calls
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.lookup import WITH_SPAN_PER_CALL
from scouter.model.genai.messages import field, text

_ASKS: Final = frozenset(
    {"toolcall", "toolcalls", "tooluse", "functioncall", "functioncalls", "requiresaction"}
)
"""Finish reasons that ask for a tool, without case and signs."""


def find_evidence(acts: Sequence[Act], calls: Calls) -> Evidence:
    """Look for what tells of the calls of a trace.

    A model's call tells of them by its output, or by a finish reason that asks for none. Google's
    models say `stop` either way, and of OpenAI's Responses the instrumentors make up a reason.
    """
    models = [act for act in acts if act.facts.kind is Kind.MODEL]
    # Where a reason says that no tool was asked for while one was, no reason says anything.
    has_reasons = all(asks_for_tool(models[at].facts) for at in calls.askers)
    silent = ""
    if not models and not all(act.facts.convention in WITH_SPAN_PER_CALL for act in acts):
        silent = "the trace has no span of a model's call or of a tool"
    asking: list[tuple[int, SpanFacts]] = []
    for at, act in enumerate(models):
        if at in calls.askers:
            continue
        if asks_for_tool(act.facts):
            asking.append((act.start_ns, act.facts))
        tells = (
            at in calls.told.writers
            or act.facts.convention in WITH_SPAN_PER_CALL
            or (has_reasons and _declines(act.facts))
        )
        if not (tells or silent):
            silent = (
                f"the model's call {act.facts.span_id} tells neither what it wrote nor that it "
                "asked for no tool"
            )
    return Evidence(
        missing=_missing(asking, calls.unasked_ns),
        silent=silent,
        has_executions=any(call.is_executed for call in calls.calls),
    )


def asks_for_tool(facts: SpanFacts) -> bool:
    """Tell whether a model's call ended by asking for a tool, by its finish reason."""
    return any(map(_asks, _reasons(facts)))


def _missing(asking: Sequence[tuple[int, SpanFacts]], unasked_ns: Sequence[int]) -> str:
    """Name an answer that asks for a tool, where no execution is left that could be its."""
    left = sorted(unasked_ns)
    for start_ns, facts in reversed(asking):
        if not left or left.pop() < start_ns:
            return (
                f"the model's call {facts.span_id} ended by asking for a tool, and no such call is "
                "told"
            )
    return ""


def _declines(facts: SpanFacts) -> bool:
    """Tell whether a finish reason says that no tool was asked for."""
    model = f"{facts.request_model} {facts.response_model}".lower()
    is_mute = (
        "gemini" in model
        or facts.provider.startswith(("gcp", "google", "vertex"))
        or facts.response_id.startswith("resp_")
    )
    return bool(_reasons(facts)) and not is_mute and not asks_for_tool(facts)


def _reasons(facts: SpanFacts) -> list[str]:
    messages = facts.output_messages or []
    told = [text(field(each, "finish_reason")) for each in messages]
    return [reason for reason in (*facts.finish_reasons, *told) if reason]


def _asks(reason: str) -> bool:
    return "".join(filter(str.isalpha, reason.lower())) in _ASKS
