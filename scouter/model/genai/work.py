"""An agent's work and words, from all the spans of its trace."""

from collections.abc import Iterable, Sequence
from typing import Final

from scouter.model.agent_work import ANSWER_CUT, TOKENS, AgentWork, GuardrailRun
from scouter.model.genai.acts import Act, find_acts
from scouter.model.genai.calls import read_calls
from scouter.model.genai.control_flow import is_tripwire
from scouter.model.genai.dialogue import find_dialogue
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.reported import find_evidence, reasons_of, token_sums
from scouter.model.genai.wrappers import is_cut_text, is_hidden
from scouter.model.span import Span

_OPERATIONS: Final = frozenset({"run_guardrail", "apply_guardrail"})
"""Operations whose spans have the name of the guardrail behind the operation's."""
NAME: Final = (
    "gen_ai.guardrail.component.name", "gen_ai.security.guardrail.name", "gen_ai.guardian.name",
    "gen_ai.guardrail.name", "guardrail_name", "guardrail.name",
)  # fmt: skip
VERDICT: Final = (
    "gen_ai.guardrail.verdict.type", "gen_ai.security.verdict.type",
    "gen_ai.security.decision.type", "gen_ai.guardrail.result.value", "guardrail_status",
)  # fmt: skip
ACTION: Final = (
    "gen_ai.guardrail.action.type", "gen_ai.security.action.type", "gen_ai.guardrail.action",
)  # fmt: skip
TRIGGERED: Final = ("gen_ai.guardrail.triggered", "guardrail.triggered")
"""A tripwire of the OpenAI Agents SDK: it stands for the verdict, as the exception of one does."""


def guardrail_run(act: Act) -> GuardrailRun:
    """Read one check by a guardrail; each field from the innermost span that has it."""
    spans = act.spans[::-1]
    return GuardrailRun(
        name=_first(spans, NAME) or _bare(act.spans[0].name),
        verdict=_first(spans, VERDICT) or _tripwire(spans),
        action=_first(spans, ACTION),
        span_ids=act.span_ids,
    )


def _first(spans: tuple[Span, ...], names: tuple[str, ...]) -> str:
    for attributes in (span.attributes for span in spans):
        for name in names:
            value = attributes.get(name)
            if isinstance(value, str) and value and not is_hidden(value):
                return value
    return ""


def _tripwire(spans: tuple[Span, ...]) -> str:
    for attributes in (span.attributes for span in spans):
        for name in TRIGGERED:
            if attributes.get(name) is not None:
                return "deny" if str(attributes[name]).lower() == "true" else "allow"
    return "deny" if any(map(is_tripwire, spans)) else ""


def _bare(name: str) -> str:
    """A span's name without its operation."""
    operation, _, rest = name.partition(" ")
    return rest if rest and operation in _OPERATIONS else name


def acts_of(spans: Sequence[Span]) -> list[Act]:
    """Find what was done in traces: each call once, however many spans report it.

    Args:
        spans: In time order.

    Cost: linear in the spans.
    """
    pairs = [(span, read_facts(span)) for span in spans if kind_of(span) is not Kind.OTHER]
    return find_acts(pairs, spans)


def agent_work(spans: Iterable[Span]) -> AgentWork:
    """Read what an agent did and said from the spans of its trace.

    Calls of tools are what models requested and what was executed, as one set. Question, answer,
    its model and its finish reason are the agent's own; see `dialogue`. Tokens are summed as
    `token_sums` has it. A call that several instrumentors report counts once.

    Args:
        spans: In time order.

    Cost: linear in the spans and the size of their messages.
    """
    ordered = tuple(spans)
    return work_of(acts_of(ordered), ordered)


def work_of(acts: Sequence[Act], spans: Sequence[Span]) -> AgentWork:
    """Put together what an agent did and said from the acts of its spans, both in time order."""
    calls = read_calls(acts, spans)
    said = find_dialogue(acts, calls, spans)
    agents = [act.facts for act in acts if act.facts.kind in (Kind.AGENT, Kind.WORKFLOW)]
    models = said.models if said.by is None else (*said.models, said.by.facts)
    tokens = token_sums(acts, spans)
    return AgentWork(
        tool_calls=calls.calls,
        has_overlaps=calls.has_overlaps,
        evidence=find_evidence(acts, calls),
        guardrails=tuple(guardrail_run(act) for act in acts if act.facts.kind is Kind.GUARDRAIL),
        question=said.question,
        content=said.answer,
        unknown_content=said.unknown,
        asks_for_tool=said.asks,
        answer_span_id=said.by.facts.span_id if said.by else "",
        has_agent=said.has_agent,
        model=_last(each.response_model or each.request_model for each in models or agents),
        finish_reason=next(iter(reasons_of(said.by.facts)), None) if said.by else None,
        input_tokens=tokens[0].number,
        output_tokens=tokens[1].number,
        total_tokens=tokens[2].number,
        missing={
            name: each.missing for name, each in zip(TOKENS, tokens, strict=True) if each.missing
        }
        | ({"content": ANSWER_CUT} if said.answer and is_cut_text(said.answer) else {}),
    )


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """Add up what the calls report; None where none reports anything."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _last(texts: Iterable[str]) -> str | None:
    found = [text for text in texts if text]
    return found[-1] if found else None
