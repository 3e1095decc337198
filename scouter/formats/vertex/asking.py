"""RowOrchestrator: asks an agent the rows of a dataset, and makes each answered row a record."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.trajectory.matching import trajectory_from_spans
from scouter.formats.turns import ALIAS, NANO, TurnOrchestrator, spans_so_far, spans_within
from scouter.formats.vertex.cases import (
    ATTACHMENTS,
    FAULT,
    GIVEN,
    LATENCY,
    NAMES,
    PREDICTED,
    PROMPT,
    STATE,
    Cases,
    read_answer,
    refuse_lost,
)
from scouter.formats.vertex.dataset import Row
from scouter.model.agent_work import why_unreported
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.turn import LiveConversation, running_conversation
from scouter.tracing.capture import CAPTURE


class RowOrchestrator(TurnOrchestrator):
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
            running_conversation().session, copy.deepcopy(case.session.get(STATE) or {})
        )
        attachments = case.rows[turn].get(ATTACHMENTS) if turn < len(case.rows) else None
        return {
            **dict.fromkeys(NAMES), **case.session, STATE: state, ATTACHMENTS: attachments or []
        }  # fmt: skip

    def request(
        self, scenario: EvalScenario, conversation: LiveConversation, message: str
    ) -> JsonValue:
        """Give the prompt of the next turn, as its row has it."""
        return self._cases.by_name[scenario.id].row_of(len(conversation.turns), message).get(PROMPT)

    def answered(
        self, scenario: EvalScenario, conversation: LiveConversation, response: object
    ) -> object:
        """Make the record of the last turn; give its answer back in a form that has JSON.

        Calls are those that the answer has, or else those of the turn's spans.
        """
        answer, turn = read_answer(response), len(conversation.turns) - 1
        begin_ns, end_ns = times = conversation.times_ns[turn]
        calls = answer.get(PREDICTED)
        if calls is None and not (CAPTURE.overflow or CAPTURE.failed):
            calls = _calls(spans_within(spans_so_far(scenario.id, conversation), times))
        case = self._cases.by_name[scenario.id]
        given = case.row_of(turn, conversation.turns[turn]["user"])
        row: Row = {name: cell for name, cell in given.items() if name != FAULT}
        row |= {name: cell for name, cell in answer.items() if name not in (*row, *GIVEN)}
        row |= {
            "response": answer["response"], LATENCY: (end_ns - begin_ns) / NANO,
            "failure": 0, PREDICTED: calls,
        }  # fmt: skip
        self.queue[ALIAS].insert(self._cases.record(turn, row))
        if not isinstance(response, str):
            conversation.turns[turn]["agent"] = response = answer
        return response


def _calls(spans: Sequence[Span]) -> JsonValue:
    """The calls of a turn's spans; None where these do not tell of every call."""
    tree = SpanTree(spans)
    if not tree.has_agent_spans or why_unreported(tree.agent_work):
        return None
    return trajectory_from_spans(spans)
