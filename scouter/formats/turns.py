"""Turns of a dataset as records: each row of a case is one, under the alias `ALIAS`."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.scenario import EvalScenario
from scouter.model.attributes import SCENARIO_TRY
from scouter.model.span import Span
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.turn import LiveConversation, running_conversation
from scouter.tracing.capture import CAPTURE

ALIAS: Final = "rows"
"""Alias of the records that are rows."""

NOT_CALLED: Final = "not called: an earlier turn failed"
LOST: Final = "its record is in no result"
NANO: Final = 1_000_000_000
Times: TypeAlias = tuple[int, int]
"""Moments of a question and of its answer, in nanoseconds since the epoch."""


class RowScenario(EvalScenario):
    """A scenario that also says what its rows expect, as a change of it changes the question.

    The records hold it, so a baseline cannot be judged by another reference.
    """

    rows: list[dict[str, JsonValue]]


def turn_name(turn: int) -> str:
    """Name the record of a turn, from 0."""
    return f"turn {turn + 1}"


class TurnOrchestrator(EvalOrchestrator, ABC):
    """Leads the cases of a dataset, and has a record made of each turn."""

    def request(self, scenario: EvalScenario, conversation: LiveConversation, message: str) -> Any:  # noqa: ANN401 - as the dataset has it
        """Give the message to the agent with the next turn."""
        del scenario, conversation
        return message

    @abstractmethod
    def answered(
        self, scenario: EvalScenario, conversation: LiveConversation, response: object
    ) -> object:
        """Make the record of the last turn; give its answer back in a form that has JSON."""

    def failed(
        self, scenario: EvalScenario, conversation: LiveConversation, times: Times, error: Exception
    ) -> None:
        """Make records of the turn that raised, and of those behind it, if they are to have any."""

    def answering(self, scenario: EvalScenario, method: str) -> Callable[[Any], Any]:
        """Give the function that answers, and has the records made."""
        conversation = running_conversation()
        if conversation.agent is None:
            ask = super().answering(scenario, method)

            def fails(begin_ns: int, error: Exception) -> None:
                self.failed(scenario, conversation, (begin_ns, time.time_ns()), error)

            def answer(message: str) -> object:
                begin_ns = time.time_ns()
                try:
                    response = ask(self.request(scenario, conversation, message))
                except Exception as error:
                    fails(begin_ns, error)
                    raise
                if inspect.isawaitable(response):
                    return later(begin_ns, response)
                return self.answered(scenario, conversation, response)

            async def later(begin_ns: int, response: Awaitable[object]) -> object:
                try:
                    found = await response
                except Exception as error:
                    fails(begin_ns, error)
                    raise
                return self.answered(scenario, conversation, found)

            conversation.agent = answer
        return conversation.agent


def spans_so_far(scenario_id: str, conversation: LiveConversation) -> list[Span]:
    """The spans of a conversation."""
    found = CAPTURE.spans_of_scenario(scenario_id)
    return [span for span in found if span.attributes.get(SCENARIO_TRY) == conversation.session]


def spans_within(spans: Sequence[Span], times: Times | None) -> list[Span]:
    """Those spans that began in a turn; none of one that did not run."""
    if times is None:
        return []
    return [span for span in spans if times[0] <= span.start_ns <= times[1]]
