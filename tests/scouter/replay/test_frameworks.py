"""Agents of real frameworks, called at once: each thread has a loop, each attempt a memory."""

import asyncio
import importlib.util
import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.model.attributes import CONVERSATION_ID
from tests.scouter.replay.bench import Bench
from tests.scouter.replay.test_conversation import SIX, TALK, WAYS, answers, more
from tests.support.components import require

THREE = [["one", "one two", "one two three"]]


@pytest.fixture(autouse=True)
def loop_of_the_main_thread() -> Iterator[None]:
    """In turn, agents run in the user's own thread, whose loop is the user's."""
    with asyncio.Runner():
        yield


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Repeat all that the user said; look something up before the first answer."""
    said = [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    if info.function_tools and len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("look_up", {})])
    return ModelResponse(parts=[TextPart(" ".join(said))])


def repeater(bench: Bench) -> Agent[None, str]:
    """One for all attempts, as modules have it."""
    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    async def look_up() -> str:  # pyright: ignore[reportUnusedFunction] - the model calls it
        with bench.tracer.start_as_current_span("look_up"):
            await asyncio.sleep(0)
        return "found"

    return agent


@pytest.mark.parametrize("way", WAYS)
def test_run_sync_of_pydantic_ai(bench: Bench, way: str) -> None:
    """A class keeps the messages; each attempt has its tool call in its conversation."""
    shared = repeater(bench)

    class Desk:
        def __init__(self, session: str) -> None:
            self.session = session
            self.messages: list[ModelMessage] = []

        def __call__(self, message: str) -> str:
            result = shared.run_sync(message, message_history=self.messages)
            self.messages = result.all_messages()
            sessions.append(self.session)
            return result.output

    sessions: list[str] = []
    results = bench.orchestrator(*SIX, agent_fn=Desk).run(**WAYS[way])
    assert answers(results) == THREE * 6 * WAYS[way].get("repeats", 1)
    found = [
        span.attributes[CONVERSATION_ID]
        for attempt in results.conversations
        for span in attempt.traces
        if span.name == "look_up"
    ]
    assert sorted(map(str, found)) == sorted(set(sessions))


@pytest.mark.parametrize("way", ["in turn", "at once"])
def test_run_of_pydantic_ai_in_the_loop_of_the_replay(bench: Bench, way: str) -> None:
    """A function that gets the history needs no memory of its own."""
    agent = Agent(TestModel(custom_output_text="yes"))

    async def answer(message: str, history: list[dict[str, str]]) -> str:
        result = await agent.run(message)
        return f"{result.output} {len(history)}"

    results = bench.orchestrator(*SIX, agent_fn=answer).run(**WAYS[way])
    assert answers(results) == [["yes 0", "yes 2", "yes 4"]] * 6


def test_run_sync_of_pydantic_ai_in_a_notebook(bench: Bench) -> None:
    """A loop is running in the thread of `run`."""
    shared = repeater(bench)

    def answer(message: str) -> str:
        return shared.run_sync(message).output

    async def cell() -> ScenarioEvalResults:
        return bench.orchestrator(*SIX[:2], agent_fn=answer).run()

    assert answers(asyncio.run(cell())) == [["one", "two", "three"]] * 2


class Said(TypedDict):
    """The state of a graph."""

    said: Annotated[list[str], operator.add]


def graph(checkpointer: Any = None) -> Any:
    """A graph with an async node, so that only `ainvoke` can run it."""
    require(
        "langgraph", present=importlib.util.find_spec("langgraph") is not None, detail="no module"
    )
    from langgraph.graph import END, START, StateGraph

    async def repeat(state: Said) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return {"said": []}

    built = StateGraph(Said)
    built.add_node("repeat", repeat)
    built.add_edge(START, "repeat")
    built.add_edge("repeat", END)
    return built.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("runs", ["loop", "asyncio.run", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_a_graph_of_langgraph_with_the_session_as_its_thread(
    bench: Bench, way: str, runs: str
) -> None:
    """One graph and one store for all attempts; the session keeps them apart."""
    require(
        "langgraph", present=importlib.util.find_spec("langgraph") is not None, detail="no module"
    )
    from langgraph.checkpoint.memory import InMemorySaver

    app = graph(InMemorySaver())

    async def ask(message: str, session: str) -> str:
        config = {"configurable": {"thread_id": session}}
        state = await app.ainvoke({"said": [message]}, config)
        return " ".join(state["said"])

    def by_loop(message: str, session: str) -> str:
        return asyncio.get_event_loop().run_until_complete(ask(message, session))

    def by_run(message: str, session: str) -> str:
        return asyncio.run(ask(message, session))

    agent = {"loop": by_loop, "asyncio.run": by_run, "async": ask}[runs]
    results = bench.orchestrator(*SIX, agent_fn=agent).run(**WAYS[way])
    assert answers(results) == THREE * 6 * WAYS[way].get("repeats", 1)


@pytest.mark.parametrize("way", ["in turn", "at once"])
def test_a_graph_of_langgraph_that_gets_the_history(bench: Bench, way: str) -> None:
    app = graph()

    async def answer(message: str, history: list[dict[str, str]]) -> str:
        before = [each["content"] for each in history if each["role"] == "user"]
        state = await app.ainvoke({"said": [*before, message]})
        return " ".join(state["said"])

    found = bench.orchestrator(
        *SIX, TALK.model_copy(update={"max_turns": 2}),
        agent_fn=answer, simulated_user_fn=more,
    ).run(**WAYS[way])  # fmt: skip
    assert answers(found) == [*THREE * 6, ["one", "one more"]]
