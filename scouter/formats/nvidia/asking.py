"""The agent, asked turn by turn; what it did is told apart by a span around each turn."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioResult
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.item import HISTORY_KEY
from scouter.evaluate.report.qa_evaluator import plain_answer
from scouter.evaluate.report.span_steps import steps_of
from scouter.evaluate.report.steps import TrajectoryStep
from scouter.evaluate.results.provenance import name_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.formats.nvidia.outputs import Answered
from scouter.formats.nvidia.turns import Conversation
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.span import Span
from scouter.replay.at_once import is_async, over_at_once
from scouter.replay.loading import loaded_agent
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.tracer import get_tracer

_TURN: Final = "scouter.eval.turn"
"""Attribute of the span around a turn: which one, from 0."""
_NANO: Final = 1_000_000_000
_NOT_ASKED: Final = "not asked: an earlier turn failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Agent under test, and the limits and tries of its calls."""

    agent: object
    """`module:name`, or the agent itself."""
    concurrency: int = 8
    timeout_s: float | None = None
    retries: int = 0
    progress: bool | None = None
    note: Callable[[str], None] | None = None
    """Is told of spans that got lost."""


class _Turns(EvalOrchestrator):
    """Asks an agent, with a span around each turn."""

    @over_at_once(lambda self: is_async(self.agent_fn))
    def execute_agent(self, scenario: EvalScenario) -> Any:  # noqa: ANN401 - whatever it answers
        """Ask the agent all turns; gives back the last answer, or an awaitable of it."""
        turns = enumerate((scenario.initial_query, *scenario.predefined_turns))
        if is_async(self.agent_fn):
            return self._later(scenario, turns)
        answer: Any = None
        for at, message in turns:
            with _turn_span(at):
                answer = self.execute_agent_turn(scenario, message)
                if inspect.isawaitable(answer):
                    return self._later(scenario, turns, (at, answer))
        return answer

    async def _later(
        self,
        scenario: EvalScenario,
        turns: Iterable[tuple[int, str]],
        begun: tuple[int, Awaitable[Any]] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever it answers
        answer: Any = None
        if begun is not None:  # a plain function gave back an awaitable
            with _turn_span(begun[0]):
                answer = await begun[1]
        for at, message in turns:
            with _turn_span(at):
                answer = self.execute_agent_turn(scenario, message)
                answer = await answer if inspect.isawaitable(answer) else answer
        return answer


def _turn_span(at: int) -> Any:  # noqa: ANN401 - a context manager
    return get_tracer("scouter.formats.nvidia").start_as_current_span(
        "turn", attributes={_TURN: at}
    )


def ask_all(conversations: Sequence[Conversation], asking: Asking, journal: Path) -> list[Answered]:
    """Ask the agent every turn: turns of a conversation in their order, conversations at a time.

    Args:
        conversations: The conversations, with their turns.
        asking: The agent, and the settings of the calls.
        journal: Keeps answers as they come, so that an interrupted run goes on.

    Returns:
        The turns of all conversations, in their order, with answers and steps.

    Raises:
        ConfigError: The agent cannot be loaded or called, or it is no function.
    """
    scenarios = EvalScenarios(scenarios=[_scenario(each) for each in conversations])
    with loaded_agent(asking.agent, {}) as loaded:  # pyright: ignore[reportArgumentType] - anything
        made = loaded.make(scenarios, None)
        if type(made) is not EvalOrchestrator:
            raise ConfigError("--config asks an agent function; --agent names an EvalOrchestrator")
        orchestrator = _Turns(made.queue, scenarios, made.agent_fn)
        orchestrator.agent_name = name_of(asking.agent)
        results = orchestrator.run(
            on_error="record", concurrency=asking.concurrency, timeout_s=asking.timeout_s,
            retries=asking.retries, resume=journal, progress=asking.progress,
        )  # fmt: skip
    if asking.note is not None:
        for each in results.lost:
            asking.note(f"{each.count} lost: {each.text}")
    found: list[Answered] = []
    for conversation in conversations:
        found += _answers(conversation, results.get_scenario_detail(conversation.id))
    return found


def _scenario(conversation: Conversation) -> EvalScenario:
    first, *more = (as_text(turn.question) for turn in conversation.turns)
    return EvalScenario(id=conversation.id, initial_query=first, predefined_turns=more)


def _answers(conversation: Conversation, result: ScenarioResult) -> list[Answered]:
    """Make an answered item of each turn of a conversation, with its steps and seconds."""
    history: list[JsonValue] = []
    earlier: dict[str, tuple[TrajectoryStep, ...]] = {}
    found: list[Answered] = []
    failure = result.error_line if result.error else ""
    for at, item in enumerate(conversation.turns):
        spans, latency_s = _of_turn(result.traces, at)
        steps = steps_of(spans, as_text(item.question))
        entry: Mapping[str, JsonValue] = item.entry
        if history:
            entry = {**entry, HISTORY_KEY: list(history)}
        tools = tool_definitions(spans) or tool_definitions(result.traces)
        item = replace(item, entry=entry, steps=steps, earlier=dict(earlier), tools=tuple(tools))
        if at < len(result.turns):
            answer = result.turns[at]["agent"]
            item = replace(item, answer=answer)
        elif at == len(result.turns):
            answer = None
            item = replace(item, answer=None, failure=failure or _NOT_ASKED)
        else:
            answer, latency_s = None, None
            item = replace(item, answer=None, failure=_NOT_ASKED)
        found.append(Answered(item=item, latency_s=latency_s))
        if not conversation.is_single:
            turn_id = str(item.entry.get("turn_id") or f"turn_{at + 1}")
            earlier[turn_id] = steps
            said = plain_answer(answer)
            history.append({"turn_id": turn_id, "query": item.question, "answer": said})
    return found


def _of_turn(spans: Sequence[Span], at: int) -> tuple[list[Span], float | None]:
    """The spans inside a turn, and its seconds; None where the turn did not run.

    Spans of its trace are the turn's, and those of other traces that began in its time: an agent
    may lose the context on its way into a thread.
    """
    around = [span for span in spans if span.attributes.get(_TURN) == at]
    if not around:
        return [], None
    own = {span.trace_id for span in around}
    marked = {span.trace_id for span in spans if _TURN in span.attributes}
    start_ns, end_ns = min(s.start_ns for s in around), max(s.end_ns for s in around)

    def is_inside(span: Span) -> bool:
        if _TURN in span.attributes:
            return False
        is_stray = span.trace_id not in marked and start_ns <= span.start_ns <= end_ns
        return span.trace_id in own or is_stray

    return [span for span in spans if is_inside(span)], (end_ns - start_ns) / _NANO
