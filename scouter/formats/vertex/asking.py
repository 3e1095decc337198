"""RowOrchestrator: asks an agent the rows of a dataset, and makes each answered row a record."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.trajectory.spans import trajectory_from_spans
from scouter.formats.row_scenario import ALIAS
from scouter.formats.vertex.answer import FAULT, GIVEN, LATENCY, PREDICTED, read_answer
from scouter.formats.vertex.cases import (
    ATTACHMENTS,
    NAMES,
    PROMPT,
    STATE,
    Case,
    Cases,
    refuse_lost,
)
from scouter.formats.vertex.dataset import Row
from scouter.model.agent_work import why_untold
from scouter.model.attributes import SCENARIO_TRY
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.turn import Talk, running_talk
from scouter.tracing.capture import CAPTURE

_NANO: Final = 1_000_000_000


class RowOrchestrator(EvalOrchestrator):
    """Leads the cases of a dataset.

    Args:
        cases: The cases; the scenarios are theirs.
        queue: Takes the records.
        scenarios: From `cases.scenarios()`.
        agent_fn: The agent.
        simulated_user_fn: Plays the users of cases that have a plan.

    Raises:
        ConfigError: The agent does not take what a case begins with, or nobody plays a user.
    """

    def __init__(
        self,
        cases: Cases,
        queue: ScouterQueue,
        scenarios: EvalScenarios,
        agent_fn: Any,  # noqa: ANN401 - a function, or a class that is called like one
        simulated_user_fn: Any = None,  # noqa: ANN401 - a function or an object
    ) -> None:
        refuse_lost(agent_fn, cases, simulated_user_fn)
        super().__init__(queue, scenarios, agent_fn, simulated_user_fn)
        self._cases = cases
        self._states: dict[str, Any] = {}

    def arguments(self, scenario: EvalScenario, turn: int) -> Mapping[str, object]:
        """Give the session's values, and the attachments of a turn."""
        case = self._cases.by_name[scenario.id]
        state = self._states.setdefault(
            running_talk().session, copy.deepcopy(case.session.get(STATE) or {})
        )
        attachments = case.rows[turn].get(ATTACHMENTS) if turn < len(case.rows) else None
        return {
            **dict.fromkeys(NAMES), **case.session, STATE: state, ATTACHMENTS: attachments or []
        }  # fmt: skip

    def answering(self, scenario: EvalScenario, method: str) -> Callable[[Any], Any]:
        """Give the function that answers, which makes a record of each answer."""
        talk = running_talk()
        if talk.agent is None:
            ask = super().answering(scenario, method)
            case = self._cases.by_name[scenario.id]

            def answer(message: str) -> object:
                row = case.asked(len(talk.turns), message)
                response = ask(row.get(PROMPT))  # pyright: ignore[reportArgumentType] - as the dataset has it
                if inspect.isawaitable(response):
                    return self._noted_later(case, talk, response)
                return self._noted(case, talk, response)

            talk.agent = answer
        return talk.agent

    async def _noted_later(self, case: Case, talk: Talk, response: Awaitable[object]) -> object:
        return self._noted(case, talk, await response)

    def _noted(self, case: Case, talk: Talk, response: object) -> object:
        """Make the record of a turn; give its answer back in a form that has JSON.

        Calls are those that the answer has, or else those of the turn's spans.
        """
        answer, turn = read_answer(response), len(talk.turns) - 1
        begin_ns, end_ns = talk.times_ns[turn]
        calls = answer.get(PREDICTED)
        if calls is None and not (CAPTURE.overflow or CAPTURE.failed):
            calls = _calls(
                [
                    span
                    for span in CAPTURE.spans()
                    if span.attributes.get(SCENARIO_TRY) == talk.session
                    and begin_ns <= span.start_ns <= end_ns
                ]
            )
        asked = case.asked(turn, talk.turns[turn]["user"])
        row: Row = {name: cell for name, cell in asked.items() if name != FAULT}
        row |= {name: cell for name, cell in answer.items() if name not in (*row, *GIVEN)}
        row |= {
            "response": answer["response"], LATENCY: (end_ns - begin_ns) / _NANO,
            "failure": 0, PREDICTED: calls,
        }  # fmt: skip
        self.queue[ALIAS].insert(self._cases.record(turn, row))
        if not isinstance(response, str):
            talk.turns[turn]["agent"] = response = answer
        return response


def _calls(spans: Sequence[Span]) -> JsonValue:
    """The calls of a turn's spans; None where these do not tell of every call."""
    tree = SpanTree(spans)
    if not tree.has_agent_spans or why_untold(tree.agent_work):
        return None
    return trajectory_from_spans(spans)
