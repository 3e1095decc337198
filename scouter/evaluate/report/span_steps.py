"""Steps of an agent, read from the spans of its trace."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from scouter.evaluate.report.steps import ASKING, TrajectoryStep
from scouter.model.genai.acts import Act
from scouter.model.genai.facts import Kind
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.work import acts_of, work_of
from scouter.model.span import Span
from scouter.model.tool_call import ToolCall


def steps_of(spans: Sequence[Span], question: str = "") -> tuple[TrajectoryStep, ...]:
    """Read the answers of models and the executions of tools, in the order in which they ended.

    A call that only messages tell of follows the answer that asks for it.

    Args:
        spans: Spans of one turn.
        question: The question to the models, as output files show it.

    Cost: linear in the spans, and their depth, and the size of their messages.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.trace_id, span.span_id))
    acts = acts_of(ordered)
    parents = {span.span_id: span.parent_span_id or "" for span in ordered}
    tools = {
        span.span_id: act.spans[0].span_id
        for act in acts
        if act.facts.kind is Kind.TOOL
        for span in act.spans
    }
    told = _told_calls(work_of(acts, ordered).tool_calls)
    found: list[TrajectoryStep] = []
    for act in sorted(acts, key=lambda act: max(span.end_ns for span in act.spans)):
        uid = act.spans[0].span_id
        parent = _tool_around(parents.get(uid, ""), parents, tools)
        if act.facts.kind is Kind.MODEL:
            found.append(_model_step(act, uid, parent, question))
            for span in act.spans:
                found += [_told_step(call, parent) for call in told.get(span.span_id, ())]
        elif act.facts.kind is Kind.TOOL:
            given = act.facts.arguments
            found.append(
                TrajectoryStep(
                    name=act.facts.tool,
                    input={} if given is None else given,
                    output=act.facts.error or act.facts.result,
                    parent=parent,
                    uid=uid,
                )
            )
    return tuple(found)


def _told_calls(calls: Sequence[ToolCall]) -> Mapping[str, list[ToolCall]]:
    """Calls without a span of their own, by the span of the answer that asks for them."""
    found: dict[str, list[ToolCall]] = {}
    for call in calls:
        if not call.is_executed and call.span_ids:
            found.setdefault(call.span_ids[0], []).append(call)
    return found


def _told_step(call: ToolCall, parent: str) -> TrajectoryStep:
    given = {} if call.arguments is None else call.arguments
    return TrajectoryStep(
        name=call.name, input=given, output=call.error or call.result, parent=parent
    )


def _model_step(act: Act, uid: str, parent: str, question: str) -> TrajectoryStep:
    log = MessageLog()
    log.read(act.facts.output_messages or ())
    calls: list[JsonValue] = [
        {"id": call.call_id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in log.tool_calls(0)
    ]
    asked = f"\n\n{ASKING} {calls}" if calls else ""
    return TrajectoryStep(
        name=act.facts.response_model or act.facts.request_model or "model",
        is_model=True,
        input=question,
        output=f"{log.content or ''}{asked}",
        parent=parent,
        uid=uid,
    )


def _tool_around(span_id: str, parents: Mapping[str, str], tools: Mapping[str, str]) -> str:
    """The tool inside which something ran; "" where it ran in none."""
    seen = set[str]()
    while span_id and span_id not in seen:
        if span_id in tools:
            return tools[span_id]
        seen.add(span_id)
        span_id = parents.get(span_id, "")
    return ""
