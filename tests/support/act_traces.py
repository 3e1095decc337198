"""Traces of calls inside of calls, as one instrumentor tells them, and as two do."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from scouter.model.span import AttributeValue, Scope, Span, StatusCode
from tests.scouter.evaluate.spans_support import span

OPERATIONS: Final = {
    "agent": "invoke_agent", "model": "chat", "tool": "execute_tool", "guardrail": "run_guardrail",
}  # fmt: skip
_ARGUMENTS: Final = "gen_ai.tool.call.arguments"


def made(
    id: int,
    kind: str,
    name: str,
    parent: int | None = None,
    at: tuple[float, float] = (0, 1),
    scope: str = "a",
    **told: AttributeValue,
) -> Span:
    """One span of an instrumentor, in OpenTelemetry's words."""
    names = {
        "call": "gen_ai.response.id" if kind == "model" else "gen_ai.tool.call.id",
        "args": _ARGUMENTS,
        "input": "gen_ai.usage.input_tokens",
        "output": "gen_ai.usage.output_tokens",
        "output_messages": "gen_ai.output.messages",
        "input_messages": "gen_ai.input.messages",
        "finish": "gen_ai.response.finish_reasons",
    }
    whose = {
        "agent": "gen_ai.agent.name", "model": "gen_ai.request.model",
        "tool": "gen_ai.tool.name", "guardrail": "gen_ai.guardrail.component.name",
    }[kind]  # fmt: skip
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": OPERATIONS[kind],
        whose: name,
        **{names[key]: value for key, value in told.items() if value is not None},
    }
    return replace(
        span(id, f"{OPERATIONS[kind]} {name}", parent, at, attributes), scope=Scope(name=scope)
    )


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    """Spans of one instrumentor: calls of models and tools below agents, some at a time.

    Some tools call themselves, with something else.
    """
    spans = [made(1, "agent", "travel", at=(0, 1000))]
    for id in range(2, draw(st.integers(2, 9))):
        above = draw(st.sampled_from(spans))
        low, high = above.start_ns // 1_000_000, above.end_ns // 1_000_000
        start = draw(st.integers(low, high - 1))
        end = draw(st.integers(start + 1, high))
        kind = draw(st.sampled_from(["agent", "model", "model", "tool", "tool", "tool"]))
        name = draw(st.sampled_from(["x", "y"]))
        told: dict[str, AttributeValue] = {}
        if kind == "model":
            told = {"input": draw(st.integers(1, 3)), "output": draw(st.integers(0, 2))}
        if kind == "tool":
            arguments = [json.dumps({"q": q}) for q in (1, 2, 3)]
            if above.name == f"{OPERATIONS[kind]} {name}":
                arguments.remove(str(above.attributes[_ARGUMENTS]))
            told = {"args": draw(st.sampled_from(arguments))}
        elif above.attributes["gen_ai.operation.name"] == OPERATIONS[kind]:  # it is told once
            name = "x" if above.name.endswith("y") else "y"
        if draw(st.booleans()):
            told["call"] = f"c{id}"
        parent = int(above.span_id, 16)
        one = made(id, kind, name, parent, (start, end), "a", **told)
        failed = kind == "tool" and draw(st.booleans())
        spans.append(replace(one, status=StatusCode.ERROR) if failed else one)
    return spans


def doubled(data: st.DataObject, spans: list[Span]) -> list[Span]:
    """Tell each call once more: by a span inside, around or beside it, with its id or without.

    The other instrumentor tells the arguments in its own way, or not at all.
    """
    how = data.draw(st.sampled_from(["inside", "around", "beside"]))
    tell = data.draw(st.sampled_from(_WAYS))
    keeps_ids = data.draw(st.booleans())
    found: list[Span] = []
    for each in spans:
        operation = each.attributes["gen_ai.operation.name"]
        if operation == "invoke_agent":
            found.append(each)
            continue
        left_out = () if keeps_ids else ("gen_ai.tool.call.id", "gen_ai.response.id")
        attributes = {key: value for key, value in each.attributes.items() if key not in left_out}
        if _ARGUMENTS in attributes:
            attributes[_ARGUMENTS] = tell(json.loads(str(attributes[_ARGUMENTS])))
        id = f"{int(each.span_id, 16) + 100:016x}"
        again = replace(each, span_id=id, attributes=attributes, scope=Scope(name="b"))
        if how == "inside":
            found += [each, replace(again, parent_span_id=each.span_id)]
        elif how == "around":
            found += [again, replace(each, parent_span_id=id)]
        else:
            found += [each, again]
    return found


_WAYS: Final[tuple[Callable[[dict[str, int]], AttributeValue], ...]] = (
    json.dumps,
    lambda arguments: json.dumps({**arguments, "unit": "C"}),
    lambda arguments: json.dumps({"kwargs": {"q": str(arguments["q"])}}),
    lambda _: None,
)
"""The same, with a default more, inside of a wrapper and as a text, and none."""
