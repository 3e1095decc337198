"""RowOrchestrator: asks an agent the cases of a dataset, and makes each turn a record."""

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import JsonValue

from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.item import EXPECTED_CALLS_KEY, HISTORY_KEY, EvalItem
from scouter.evaluate.report.qa_evaluator import plain_answer
from scouter.evaluate.report.span_steps import steps_of
from scouter.evaluate.report.steps import has_refs
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.formats.nvidia.cases import Answered, Cases
from scouter.formats.nvidia.turns import turn_id
from scouter.formats.row_scenario import ALIAS
from scouter.model.attributes import SCENARIO_TRY
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.collected import plain_turns
from scouter.replay.conduct import error_text
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.turn import Talk, running_talk
from scouter.tracing.capture import CAPTURE

NOT_ASKED: Final = "not asked: an earlier turn failed"
_NANO: Final = 1_000_000_000


class RowOrchestrator(EvalOrchestrator):
    """Leads the cases of a dataset.

    Args:
        cases: The cases; the scenarios are theirs.
        queue: Takes the records.
        scenarios: From `cases.scenarios()`.
        agent_fn: The agent.
        simulated_user_fn: Not asked, as rows have all their turns.
    """

    def __init__(
        self,
        cases: Cases,
        queue: ScouterQueue,
        scenarios: EvalScenarios,
        agent_fn: Any,  # noqa: ANN401 - a function, or a class that is called like one
        simulated_user_fn: Any = None,  # noqa: ANN401 - nobody plays a user here
    ) -> None:
        super().__init__(queue, scenarios, agent_fn, simulated_user_fn)
        self._cases = cases

    def answering(self, scenario: EvalScenario, method: str) -> Callable[[Any], Any]:
        """Give the function that answers, which makes a record of each turn.

        A turn that failed, and those behind it, have records, too: they count in every mean.
        """
        talk = running_talk()
        if talk.agent is None:
            ask = super().answering(scenario, method)

            def answer(message: str) -> object:
                begin_ns = time.time_ns()
                try:
                    response = ask(message)
                except Exception as error:
                    self._failed(scenario.id, talk, begin_ns, error)
                    raise
                if inspect.isawaitable(response):
                    return later(response, begin_ns)
                self._answered(scenario.id, talk)
                return response

            async def later(response: Awaitable[object], begin_ns: int) -> object:
                try:
                    found = await response
                except Exception as error:
                    self._failed(scenario.id, talk, begin_ns, error)
                    raise
                self._answered(scenario.id, talk)
                return found

            talk.agent = answer
        return talk.agent

    def _answered(self, name: str, talk: Talk) -> None:
        """Make the record of the last turn."""
        turn = len(talk.turns) - 1
        [said] = plain_turns(talk.turns[turn:])
        self._insert(name, talk, turn, talk.times_ns[turn], answer=said["agent"])

    def _failed(self, name: str, talk: Talk, begin_ns: int, error: Exception) -> None:
        """Make the records of the turn that raised, and of those that nobody is asked any more."""
        times_ns, failure = (begin_ns, time.time_ns()), error_text(error)
        for turn in range(len(talk.turns), len(self._cases.by_name[name].turns)):
            self._insert(name, talk, turn, times_ns, failure=failure)
            times_ns, failure = None, NOT_ASKED

    def _insert(
        self,
        name: str,
        talk: Talk,
        turn: int,
        times_ns: tuple[int, int] | None,
        *,
        answer: JsonValue = None,
        failure: str = "",
    ) -> None:
        turns = self._cases.by_name[name].turns
        item, own = turns[turn], _spans(name, talk)
        spans, question = _within(own, times_ns), as_text(item.question)
        item = replace(
            item,
            answer=answer,
            failure=failure,
            steps=steps_of(spans, question),
            tools=tuple(tool_definitions(spans) or tool_definitions(own)),
        )
        if turn:
            item = _with_history(item, talk, turns[:turn])
        if has_refs(item.entry.get(EXPECTED_CALLS_KEY)):
            pairs = zip(turns[:turn], talk.times_ns, strict=False)
            earlier = {
                turn_id(each, at): steps_of(_within(own, when), as_text(each.question))
                for at, (each, when) in enumerate(pairs)
            }
            item = replace(item, earlier=earlier)
        latency_s = None if times_ns is None else (times_ns[1] - times_ns[0]) / _NANO
        answered = Answered(item=item, latency_s=latency_s)
        self.queue[ALIAS].insert(self._cases.record(name, turn, answered))


def _with_history(item: EvalItem, talk: Talk, before: Sequence[EvalItem]) -> EvalItem:
    """Say what was asked and answered in the turns before."""
    said = [each["agent"] for each in plain_turns(talk.turns[: len(before)])]
    said += [None] * (len(before) - len(said))
    history: list[JsonValue] = [
        {"turn_id": turn_id(each, at), "query": each.question, "answer": plain_answer(answer)}
        for at, (each, answer) in enumerate(zip(before, said, strict=True))
    ]
    return replace(item, entry={**item.entry, HISTORY_KEY: history})


def _spans(name: str, talk: Talk) -> list[Span]:
    """The spans of a conversation so far."""
    found = CAPTURE.spans_of_scenario(name)
    return [span for span in found if span.attributes.get(SCENARIO_TRY) == talk.session]


def _within(spans: Sequence[Span], times_ns: tuple[int, int] | None) -> list[Span]:
    """The spans of a turn; none of one that was not asked."""
    if times_ns is None:
        return []
    return [span for span in spans if times_ns[0] <= span.start_ns <= times_ns[1]]
