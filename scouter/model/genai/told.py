"""Told and untold calls: a call that no span tells of may have happened."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scouter.model.agent_work import Evidence
from scouter.model.genai.acts import Act
from scouter.model.genai.calls import Calls
from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.finish import ERROR, STOP, TOOL_CALL, finish_word
from scouter.model.genai.lookup import WITH_SPAN_PER_CALL
from scouter.model.genai.messages import field as field_of
from scouter.model.genai.messages import text
from scouter.model.genai.token_sums import states_usage


def find_evidence(acts: Sequence[Act], calls: Calls) -> Evidence:
    """Look for what tells of the calls of traces.

    A model's call tells of them by its output, by the finish reason `stop`, or by an error where
    nothing came back. Google's models say `stop` either way, and of OpenAI's Responses the
    instrumentors make up a reason. Any other reason leaves it open what was asked for.

    Args:
        acts: In time order.
        calls: Read from these.
    """
    models = [act for act in acts if act.facts.kind is Kind.MODEL]
    # Where a reason says that no tool was asked for while one was, no reason says anything.
    has_reasons = all(asks_for_tool(models[at].facts) for at in calls.askers)
    traces = {act.trace_id: _Trace() for act in acts}
    for at, act in enumerate(models):
        trace = traces[act.trace_id]
        trace.has_models = True
        if at in calls.askers:
            continue
        if asks_for_tool(act.facts):
            trace.asking.append((act.start_ns, act.facts.span_id))
        tells = at in calls.told.writers or not states_usage(act.facts)
        tells = tells or (has_reasons and _declines(act.facts))
        tells = tells and not act.facts.runs_tools
        if not tells and act.facts.convention not in WITH_SPAN_PER_CALL:
            trace.silent = trace.silent or act.facts.span_id
    for act in acts:
        for trace in (traces[span.trace_id] for span in act.spans if span.trace_id in traces):
            trace.is_executed |= act.facts.kind is Kind.TOOL and not act.facts.is_merged
            trace.has_span_per_call &= act.facts.convention in WITH_SPAN_PER_CALL
    for act in calls.unasked:
        traces[act.trace_id].unasked_ns.append(act.start_ns)
    silent = [(trace, words) for trace in traces.values() if (words := _silence(trace))]
    return Evidence(
        missing=next((words for each in traces.values() if (words := _missing(each))), ""),
        silent=next((words for _, words in silent), ""),
        unseen=next((words for trace, words in silent if not trace.is_executed), ""),
    )


@dataclass(slots=True)
class _Trace:
    """Signs in one trace that tool calls are missing."""

    asking: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Start and span of the models' calls that asked for a tool, and for none that is known."""
    unasked_ns: list[int] = field(default_factory=list[int])
    """Starts of executions that nobody is known to have asked for."""
    silent: str = ""
    """The span of the first model's call that does not tell whether it asked for a tool."""
    has_models: bool = False
    is_executed: bool = False
    has_span_per_call: bool = True


def _silence(trace: _Trace) -> str:
    if trace.silent:
        return (
            f"the model's call {trace.silent} tells neither what it wrote nor that it asked for no "
            "tool"
        )
    if trace.has_models or trace.is_executed or trace.has_span_per_call:
        return ""
    return "the trace has no span of a model's call or of a tool"


def asks_for_tool(facts: SpanFacts) -> bool:
    """Tell whether a model's call ended by asking for a tool, by its finish reason."""
    return any(finish_word(reason) == TOOL_CALL for reason in reasons_of(facts))


def is_failed(facts: SpanFacts) -> bool:
    """Tell whether a model's call failed, by its error or its finish reason."""
    return bool(facts.error) or any(finish_word(each) == ERROR for each in reasons_of(facts))


def _missing(trace: _Trace) -> str:
    """Name an answer that asks for a tool, where no execution is left that could be its."""
    left = sorted(trace.unasked_ns)
    for start_ns, span_id in reversed(trace.asking):
        if not left or left.pop() < start_ns:
            return (
                f"the model's call {span_id} ended by asking for a tool, and no such call is told"
            )
    return ""


def _declines(facts: SpanFacts) -> bool:
    """Tell whether the finish reasons say that no tool was asked for."""
    model = f"{facts.request_model} {facts.response_model}".lower()
    is_mute = (
        "gemini" in model
        or facts.provider.startswith(("gcp", "google", "vertex"))
        or facts.response_id.startswith("resp_")
    )
    words = {finish_word(reason) for reason in reasons_of(facts)}
    return words == {STOP} and not is_mute


def reasons_of(facts: SpanFacts) -> list[str]:
    """Give the finish reasons of a model's call, of its span and of its messages."""
    messages = facts.output_messages or []
    told = [text(field_of(each, "finish_reason")) for each in messages]
    return [reason for reason in (*facts.finish_reasons, *told) if reason]
