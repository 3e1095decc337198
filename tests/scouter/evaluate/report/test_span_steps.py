"""Steps read from spans: models, tools, tools inside of tools."""

import json
from collections.abc import Callable

from scouter.evaluate.report.steps import selected, steps_of, tool_calls
from scouter.replay.captured import captured_run
from scouter.tracing import get_tracer

Body = Callable[[], object]


def _nothing() -> None:
    pass


def _model(text: str, *names: str) -> None:
    calls = [
        {"type": "tool_call", "id": f"{name}-id", "name": name, "arguments": {"q": name}}
        for name in names
    ]
    parts = [*([{"type": "text", "content": text}] if text else []), *calls]
    messages = [{"role": "assistant", "parts": parts, "finish_reason": "stop"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m1",
        "gen_ai.output.messages": json.dumps(messages),
    }
    with get_tracer("agent").start_as_current_span("chat m1", attributes=attributes):
        pass


def _tool(name: str, inside: Body = _nothing) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": f"{name}-id",
        "gen_ai.tool.call.arguments": json.dumps({"q": name}),
        "gen_ai.tool.call.result": f"result of {name}",
    }
    with get_tracer("agent").start_as_current_span(f"execute_tool {name}", attributes=attributes):
        inside()


def test_parallel_calls_and_tools_inside_of_tools() -> None:
    def agent() -> None:
        _model("", "search", "fetch")
        _tool("search", lambda: (_model("", "deep"), _tool("deep")))
        _tool("fetch")
        _model("", "search")
        _tool("search")
        _model("done")

    steps = steps_of(captured_run(agent), "What?")
    assert [(step.name, step.is_model, bool(step.parent)) for step in steps] == [
        ("m1", True, False), ("m1", True, True), ("deep", False, True), ("search", False, False),
        ("fetch", False, False), ("m1", True, False), ("search", False, False), ("m1", True, False),
    ]  # fmt: skip
    assert steps[0].input == "What?"
    assert tool_calls(selected(steps)) == [
        {"step": 1, "name": "search", "params": {"q": "search"}},
        {"step": 1, "name": "fetch", "params": {"q": "fetch"}},
        {"step": 2, "name": "search", "params": {"q": "search"}},
    ]
    assert steps[3].output == "result of search"
    assert steps[-1].output == "done"


def test_a_call_that_only_messages_tell_of() -> None:
    def agent() -> None:
        _model("", "search")
        _model("done")

    steps = steps_of(captured_run(agent))
    assert tool_calls(selected(steps)) == [{"step": 1, "name": "search", "params": {"q": "search"}}]


def test_no_spans() -> None:
    assert steps_of(()) == ()
