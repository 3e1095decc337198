"""What an agent did and said, from all the spans of its trace."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scouter.model.agent_work import AgentWork, total_of
from scouter.model.genai.answers import answer_of_agents, answer_of_steps
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.told_calls import ToldCalls
from scouter.model.span import Span
from scouter.model.tool_call import ToolCall


def agent_work(spans: Iterable[Span]) -> AgentWork:
    """Read what an agent did and said from the spans of its trace.

    Tool calls are the executions of tools, with what messages tell of their arguments and results
    where the executions do not; where no span tells of an execution, the calls that models asked
    for. The answer, its model and its finish reason are those of the last model call that tells of
    them; where none tells what it answered, the answer is that of the agent. Tokens are summed over
    the model calls, as the spans above them often repeat the sum.

    Args:
        spans: In time order.

    Cost: linear in the spans and the size of their messages.
    """
    ordered = tuple(spans)
    facts = [read_facts(span) for span in ordered if kind_of(span) is not Kind.OTHER]
    models = [each for each in facts if each.kind is Kind.MODEL]
    calls = [tool_call_of(each) for each in facts if each.kind is Kind.TOOL and not each.is_merged]
    told = ToldCalls(models)
    given = _sum(each.usage.input for each in models)
    made = _sum(each.usage.output for each in models)
    return AgentWork(
        tool_calls=_completed(calls, told) if calls else told.calls,
        content=told.content or answer_of_agents(facts) or answer_of_steps(ordered),
        model=_last(each.response_model or each.request_model for each in models),
        finish_reason=_last("".join(each.finish_reasons[-1:]) for each in models)
        or told.finish_reason,
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


def _completed(calls: Sequence[ToolCall], told: ToldCalls) -> tuple[ToolCall, ...]:
    """Take arguments and results that no execution tells from the messages."""
    if all(call.has_result and call.arguments is not None for call in calls):
        return tuple(calls)
    left = list(told.calls)
    found: list[ToolCall] = []
    for call in calls:
        at = _place(call, left)
        other = None if at is None else left.pop(at)
        if other is not None:
            call = replace(
                call,
                call_id=call.call_id or other.call_id,
                arguments=other.arguments if call.arguments is None else call.arguments,
                result=call.result if call.has_result else other.result,
                has_result=call.has_result or other.has_result,
            )
        found.append(call)
    return tuple(found)


def _place(call: ToolCall, among: Sequence[ToolCall]) -> int | None:
    """Find a call by its id, else by its name, and its arguments where they are known."""
    if call.call_id:
        for at, other in enumerate(among):
            if other.call_id == call.call_id:
                return at
    for at, other in enumerate(among):
        same = call.arguments is None or call.arguments == other.arguments
        if other.name == call.name and same and not (call.call_id and other.call_id):
            return at
    return None


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Add up what the spans report; None where none reports anything."""
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None


def _last(texts: Iterable[str]) -> str | None:
    found = [text for text in texts if text]
    return found[-1] if found else None
