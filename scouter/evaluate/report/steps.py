"""Steps of an agent: answers of models and executions of tools, also from spans."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.report.field_metrics import Compat
from scouter.model.agent_work import ToolCall
from scouter.model.genai.acts import Act
from scouter.model.genai.facts import Kind
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.work import acts_of, work_of
from scouter.model.span import Span

ASKING: Final = "Tool calls:"
_ASKED: Final = re.compile(r"Tool calls:\s*(\[.*\])", re.DOTALL)
NO_CALLS: Final = "(no tool calls)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryStep:
    """One step that ended."""

    name: str
    """Name of the model or of the tool."""
    is_model: bool = False
    input: JsonValue = ""
    output: JsonValue = ""
    """A model that asks for tools writes `Tool calls: [{'id', 'function': {'name', …}}, …]`."""
    parent: str = ""
    """Key of the step, or of the function, inside which it ran."""
    uid: str = ""
    """Its own key."""

    @property
    def asks_for(self) -> tuple[str, ...] | None:
        """Names of the tools that a model asks for; None where it asks for none."""
        if not (self.is_model and isinstance(self.output, str)):
            return None
        found = _ASKED.search(self.output)
        calls = literal(found[1]) if found else None
        if not isinstance(calls, list):
            return None
        return tuple(_name_of(call) for call in calls)


def _name_of(call: JsonValue) -> str:
    reported = call if isinstance(call, dict) else {}
    function = reported.get("function")
    named = function if isinstance(function, dict) else reported
    return str(named.get("name", ""))


def literal(text: str) -> JsonValue:
    """Read JSON, or a value as Python writes it.

    Returns:
        The text itself where it is neither.
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return cast("JsonValue", read(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    return text


def selected(steps: Sequence[TrajectoryStep], compat: Compat = "sound") -> list[TrajectoryStep]:
    """Keep the agent's own choices: its models' calls of tools, and the tools they named.

    A model's call is followed by the next executions, in the same function, of the tools that it
    requested. Tools that no model requested, and models inside of tools, are left out. In `sound`
    the tools stay where no model tells of its calls, as the choice is not known then.

    Args:
        steps: In the order in which they ended.
        compat: Name of the rules.
    """
    inside = {step.uid for step in steps if step.uid and not step.is_model}
    outer = [step for step in steps if compat == "vss" or step.parent not in inside]
    if compat != "vss" and not any(step.asks_for for step in outer):
        return [step for step in outer if not step.is_model]
    retained: set[int] = set()
    for at, step in enumerate(outer):
        names = step.asks_for
        if names is None:
            continue
        retained.add(at)
        for name in names:
            follows = (
                later
                for later in range(at + 1, len(outer))
                if later not in retained
                and not outer[later].is_model
                and outer[later].name == name
                and outer[later].parent == step.parent
            )
            retained.update([found] if (found := next(follows, None)) is not None else [])
    return [outer[at] for at in sorted(retained)]


def tool_calls(
    steps: Sequence[TrajectoryStep], compat: Compat = "sound"
) -> list[dict[str, JsonValue]]:
    """The calls of tools as `{"step", "name", "params"}`; calls of one step were made at once.

    In `vss` the answer of a model that asks for nothing is a call of the model.
    """
    calls: list[dict[str, JsonValue]] = []
    number = 0
    for step in steps:
        if isinstance(step.output, str) and ASKING in step.output:
            number += 1
        elif not step.is_model or compat == "vss":
            params = _params(step.input, compat)
            calls.append({"step": max(1, number), "name": step.name, "params": params})
    return calls


def _params(given: JsonValue, compat: Compat) -> JsonValue:
    if not isinstance(given, str):
        return {} if given is None else given
    if compat == "vss":
        try:
            return cast("JsonValue", ast.literal_eval(given))
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return given
    return literal(given)


def trajectory_json(steps: Sequence[TrajectoryStep]) -> list[JsonValue]:
    """Write steps as pairs of an action and its observation."""
    pairs: list[JsonValue] = []
    log = ""
    for step in steps:
        action: JsonValue = {
            "tool": step.name,
            "tool_input": step.input,
            "log": "" if step.is_model else log,
        }
        if step.is_model:
            log = step.output if isinstance(step.output, str) else ""
        pairs.append([action, step.output])
    return pairs


def trajectory_text(steps: Sequence[TrajectoryStep]) -> str:
    """Write steps for a judge: action, input and observation, a line each."""
    return "\n".join(
        f"Action: {step.name}\nInput: {step.input}\nObservation: {step.output}" for step in steps
    )


def results_by_tool(steps: Sequence[TrajectoryStep]) -> dict[str, list[JsonValue]]:
    """List the results of each tool, in the order of the steps."""
    found: dict[str, list[JsonValue]] = {}
    for step in steps:
        if not step.is_model:
            found.setdefault(step.name, []).append(step.output)
    return found


def resolve_refs(
    params: JsonValue,
    results: Mapping[str, Sequence[JsonValue]],
    earlier: Mapping[str, Mapping[str, Sequence[JsonValue]]],
) -> JsonValue:
    """Replace references to what tools gave back: `{"$ref": {tool, path, index, turn}}`.

    Args:
        params: Expected parameters; references inside of values are left as they are.
        results: By tool, what it gave back in this turn, in order.
        earlier: The same of earlier turns, by their id.

    Returns:
        The parameters; a reference that leads nowhere stays.
    """
    if not isinstance(params, dict):
        return params
    return {name: _resolved(value, results, earlier) for name, value in params.items()}


def _resolved(
    value: JsonValue,
    results: Mapping[str, Sequence[JsonValue]],
    earlier: Mapping[str, Mapping[str, Sequence[JsonValue]]],
) -> JsonValue:
    ref = value.get("$ref") if isinstance(value, dict) else None
    if not isinstance(ref, dict):
        return value
    turn, index = ref.get("turn"), ref.get("index", 0)
    source = results if turn is None else earlier.get(str(turn), {})
    outputs = source.get(str(ref.get("tool")), ())
    if not isinstance(index, int) or not -len(outputs) <= index < len(outputs):
        return value
    found: JsonValue = outputs[index]
    found = literal(found) if isinstance(found, str) else found
    path = ref.get("path") or []
    for part in path if isinstance(path, list) else [path]:
        found, is_there = _step_into(found, part)
        if not is_there:
            return value
    return found


def _step_into(value: JsonValue, part: JsonValue) -> tuple[JsonValue, bool]:
    if isinstance(value, dict) and isinstance(part, str) and part in value:
        return value[part], True
    if isinstance(value, list) and isinstance(part, int) and -len(value) <= part < len(value):
        return value[part], True
    return None, False


def has_refs(calls: JsonValue) -> bool:
    """Tell whether expected calls refer to results of tools."""
    return any(
        isinstance(value, dict) and "$ref" in value
        for call in _objects(calls)
        for value in _values(call.get("params"))
    )


def _objects(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    yield from (
        each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict)
    )


def _values(value: JsonValue) -> Iterator[JsonValue]:
    yield from value.values() if isinstance(value, dict) else ()


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
    reported = _calls_by_span(work_of(acts, ordered).tool_calls)
    found: list[TrajectoryStep] = []
    for act in sorted(acts, key=lambda act: max(span.end_ns for span in act.spans)):
        uid = act.spans[0].span_id
        parent = _tool_around(parents.get(uid, ""), parents, tools)
        if act.facts.kind is Kind.MODEL:
            found.append(_model_step(act, uid, parent, question))
            for span in act.spans:
                found += [_reported_step(call, parent) for call in reported.get(span.span_id, ())]
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


def _calls_by_span(calls: Sequence[ToolCall]) -> Mapping[str, list[ToolCall]]:
    """Calls without a span of their own, by the span of the answer that asks for them."""
    found: dict[str, list[ToolCall]] = {}
    for call in calls:
        if not call.is_executed and call.span_ids:
            found.setdefault(call.span_ids[0], []).append(call)
    return found


def _reported_step(call: ToolCall, parent: str) -> TrajectoryStep:
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
    requests = f"\n\n{ASKING} {calls}" if calls else ""
    return TrajectoryStep(
        name=act.facts.response_model or act.facts.request_model or "model",
        is_model=True,
        input=question,
        output=f"{log.content or ''}{requests}",
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
