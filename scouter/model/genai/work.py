"""An agent's work and words, from all the spans of its trace."""

from collections.abc import Iterable, Sequence

from scouter.model.agent_work import TOKENS, AgentWork
from scouter.model.genai.acts import Act, find_acts
from scouter.model.genai.calls import read_calls
from scouter.model.genai.dialogue import find_dialogue
from scouter.model.genai.facts import Kind
from scouter.model.genai.guardrails import guardrail_run
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.token_sums import token_sums
from scouter.model.genai.told import find_evidence, reasons_of
from scouter.model.span import Span


def acts_of(spans: Sequence[Span]) -> list[Act]:
    """Find what was done in traces: each call once, however many spans tell of it.

    Args:
        spans: In time order.

    Cost: linear in the spans.
    """
    told = [(span, read_facts(span)) for span in spans if kind_of(span) is not Kind.OTHER]
    return find_acts(told, spans)


def agent_work(spans: Iterable[Span]) -> AgentWork:
    """Read what an agent did and said from the spans of its trace.

    Calls of tools are what models asked for and what was executed, as one set. Question, answer,
    its model and its finish reason are the agent's own; see `dialogue`. Tokens are summed as
    `token_sums` has it. A call that several instrumentors tell of counts once.

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
        },
    )


def sum_told(numbers: Iterable[int | None]) -> int | None:
    """Add up what the calls report; None where none reports anything."""
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None


def _last(texts: Iterable[str]) -> str | None:
    found = [text for text in texts if text]
    return found[-1] if found else None
