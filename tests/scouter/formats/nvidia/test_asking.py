"""Kinds of agents, and whose turn a span belongs to."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.report.evaluator import EvalItem
from scouter.evaluate.report.steps import tool_calls
from scouter.formats.nvidia.turns import Conversation, conversations_of
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing import get_tracer
from tests.scouter.formats.nvidia.run_agent import ask

TURNS: Final[list[Any]] = [
    {"turn_id": "a", "query": "first"}, {"query": "second"}, {"query": "third"},
]  # fmt: skip


def conversations() -> list[Conversation]:
    return conversations_of([EvalItem(id="c", entry={"conversation": TURNS})])


def _tool(name: str) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps({"of": name}),
    }
    with get_tracer("agent").start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


def plain(message: str) -> str:
    _tool(message)
    return f"re {message}"


async def in_loop(message: str) -> str:
    await asyncio.sleep(0)
    return plain(message)


def gives_awaitable(message: str) -> Any:
    return in_loop(message)


def in_thread(message: str) -> str:
    """Loses the context on its way, so that its span begins a trace of its own."""
    thread = threading.Thread(target=_tool, args=(message,))
    thread.start()
    thread.join()
    return f"re {message}"


class Stateful:
    """Counts its own turns; each conversation has one of these."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, message: str) -> str:
        self.count += 1
        _tool(message)
        return f"re {message}" if self.count <= 3 else "another conversation's"


def test_definitions_of_tools_come_from_the_spans() -> None:
    """Those of the turn; of a turn that tells none, those of the conversation so far."""

    def agent(message: str) -> str:
        tools = json.dumps([{"name": f"tool_of_{message}"}])
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": tools}
        if message != "third":
            with get_tracer("agent").start_as_current_span("chat m", attributes=attributes):
                pass
        return message

    answered = ask(conversations(), agent)
    first, second = {"name": "tool_of_first"}, {"name": "tool_of_second"}
    assert [each.item.tools for each in answered] == [(first,), (second,), (first, second)]


@pytest.mark.parametrize("agent", [plain, in_loop, gives_awaitable, Stateful])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_each_turn_has_its_own_steps(agent: Callable[..., Any], concurrency: int) -> None:
    answered = ask(conversations(), agent, concurrency=concurrency)
    names = ["first", "second", "third"]
    assert [each.item.id for each in answered] == ["c_a", "c_turn_2", "c_turn_3"]
    assert [each.item.answer for each in answered] == [f"re {name}" for name in names]
    assert [tool_calls(each.item.steps) for each in answered] == [
        [{"step": 1, "name": name, "params": {"of": name}}] for name in names
    ]
    assert all(each.latency_s is not None and each.latency_s >= 0 for each in answered)
    history = [(turn["turn_id"], turn["answer"]) for turn in answered[2].item.history]
    assert history == [("a", "re first"), ("turn_2", "re second")]


def test_a_reference_to_an_earlier_turn_gets_its_steps() -> None:
    """The first turn by its id, the second by its number; nobody else needs them."""
    path: list[str] = []
    refers: Any = {"query": "third", "trajectory_ground_truth": [
        {"name": "x", "params": {"of": {"$ref": {"tool": "first", "path": path, "turn": "a"}}}}
    ]}  # fmt: skip
    item = EvalItem(id="c", entry={"conversation": [*TURNS[:2], refers]})
    answered = ask(conversations_of([item]), plain)
    names = {
        turn: [step.name for step in steps] for turn, steps in answered[2].item.earlier.items()
    }
    assert names == {"a": ["first"], "turn_2": ["second"]}
    assert answered[1].item.earlier == {}


def test_a_span_without_its_turn_belongs_to_its_time() -> None:
    answered = ask(conversations(), in_thread, concurrency=1)
    names = [[step.name for step in each.item.steps] for each in answered]
    assert names == [["first"], ["second"], ["third"]]


def test_an_orchestrator_is_no_agent_here() -> None:
    class Own(EvalOrchestrator):
        """Runs scenarios itself."""

    with pytest.raises(ConfigError, match="no EvalOrchestrator"):
        ask(conversations(), Own)
