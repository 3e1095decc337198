"""What an agent did and said, from all the spans of its trace."""

from collections.abc import Iterable

from scouter.model.agent_work import AgentWork, total_of
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.span import Span
from scouter.model.tool_call import ToolCall


def agent_work(spans: Iterable[Span]) -> AgentWork:
    """Read what an agent did and said from the spans of its trace.

    Tool calls are the executions of tools; where no span tells of one, the calls that models
    asked for in their output. The answer, its model and its finish reason are those of the last
    model call that tells of them; tokens are summed over the model calls, as the spans above them
    often repeat the sum.

    Args:
        spans: In time order.

    Cost: linear in the spans and the size of their messages.
    """
    wanted = (Kind.MODEL, Kind.TOOL)
    facts = [read_facts(span) for span in spans if kind_of(span) in wanted]
    models = [each for each in facts if each.kind is Kind.MODEL]
    calls = tuple(tool_call_of(each) for each in facts if each.kind is Kind.TOOL)
    log = MessageLog()
    for each in models:
        log.read(each.output_messages or ())
    given = _sum(each.usage.input for each in models)
    made = _sum(each.usage.output for each in models)
    return AgentWork(
        tool_calls=calls or log.tool_calls(),
        content=log.content,
        model=_last(each.response_model or each.request_model for each in models),
        finish_reason=_last("".join(each.finish_reasons[-1:]) for each in models)
        or log.finish_reason,
        input_tokens=given,
        output_tokens=made,
        total_tokens=total_of(_sum(each.usage.total for each in models), given, made),
    )


def tool_call_of(facts: SpanFacts) -> ToolCall:
    """The call that a tool's span tells of."""
    return ToolCall(
        name=facts.tool,
        arguments=facts.arguments,
        call_id=facts.call_id,
        result=facts.result,
        has_result=facts.has_result,
        error=facts.error,
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Add up what the spans report; None where none reports anything."""
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None


def _last(texts: Iterable[str]) -> str | None:
    found = [text for text in texts if text]
    return found[-1] if found else None
