"""Traces of a desk for orders: half of the customers want their money back."""

import json
from collections.abc import Iterator, Mapping, Sequence

from scouter.model.span import AttributeValue, Span
from tests.scouter.evaluate.spans_support import span

Turn = tuple[str, Mapping[str, object], object]
"""A call of a tool: its name, its arguments, and what it gives back."""


def traces(first: int = 0, count: int = 16) -> list[Span]:
    """Traces of as many customers, each with one question, all good."""
    return [each for number in range(first, first + count) for each in trace(number)]


def turns(number: int) -> list[Turn]:
    """A look at the order, and for every second customer a refund."""
    order = {"id": f"A-{1000 + number}", "total": 100 + number}
    found: Turn = ("find_order", {"id": order["id"]}, order)
    paid: Turn = ("refund_order", {"id": order["id"], "amount": order["total"]}, {"done": True})
    return [found, paid] if number % 2 else [found]


def answer(number: int) -> str:
    """What the desk says in the end."""
    if number % 2:
        return f"We have refunded {100 + number} euros for your order. Thank you for the wait."
    return f"We found your order, and it costs {100 + number} euros. It is on its way to you."


def trace(number: int) -> list[Span]:
    """The spans of one customer, in OpenTelemetry's names."""
    return list(_spans(number))


def _spans(number: int) -> Iterator[Span]:
    trace_id = f"{number + 1:032x}"
    question = f"Where is my order A-{1000 + number}?"
    said = answer(number)

    def made(
        at: int, name: str, parent: int | None, attributes: Mapping[str, AttributeValue]
    ) -> Span:
        begin = 0 if parent is None else at
        end = 90 if parent is None else at + 0.5
        return span(at, name, parent, (begin, end), attributes, trace=trace_id)

    history: list[object] = [_message("user", question)]
    yield made(1, "invoke_agent desk", None, {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.output.messages": json.dumps([_message("assistant", said)]),
    })  # fmt: skip
    at = 2
    for place, (tool, arguments, result) in enumerate(turns(number)):
        call_id = f"call-{number}-{place}"
        call = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        message = {"role": "assistant", "parts": [call]}
        yield made(at, "chat m", 1, _chat(history, message))
        yield made(at + 1, f"execute_tool {tool}", 1, {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call_id, "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps(result),
        })  # fmt: skip
        given = {"type": "tool_call_response", "id": call_id, "response": result}
        history = [*history, message, {"role": "tool", "parts": [given]}]
        at += 2
    yield made(at, "chat m", 1, _chat(history, _message("assistant", said)))


def _message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _chat(history: Sequence[object], output: object) -> dict[str, AttributeValue]:
    return {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.output.messages": json.dumps([output]),
    }  # fmt: skip
