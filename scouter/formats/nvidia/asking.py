"""RowOrchestrator: asks an agent the cases of a dataset, and makes each turn a record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from scouter.evaluate.report.evaluator import EXPECTED_CALLS_KEY, HISTORY_KEY, EvalItem
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.qa_evaluator import plain_answer
from scouter.evaluate.report.steps import has_refs, steps_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.formats.nvidia.cases import Answered, Cases
from scouter.formats.nvidia.turns import turn_id
from scouter.formats.turns import (
    ALIAS,
    NANO,
    NOT_CALLED,
    Times,
    TurnOrchestrator,
    spans_so_far,
    spans_within,
)
from scouter.model.agent_work import why_unreported
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.collected import plain_turns
from scouter.replay.conduct import error_text
from scouter.replay.turn import LiveConversation


class RowOrchestrator(TurnOrchestrator):
    """Leads the cases of a dataset.

    Args:
        cases: The cases; the scenarios are theirs.
        queue: Takes the records.
        scenarios: From `cases.scenarios()`.
        agent_fn: The agent.
        simulated_user_fn: Not called, as rows have all their turns.
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

    def answered(
        self, scenario: EvalScenario, conversation: LiveConversation, response: object
    ) -> object:
        """Make the record of the last turn."""
        turn = len(conversation.turns) - 1
        [said] = plain_turns(conversation.turns[turn:])
        self._insert(
            scenario.id, conversation, turn, conversation.times_ns[turn], answer=said["agent"]
        )
        return response

    def failed(
        self, scenario: EvalScenario, conversation: LiveConversation, times: Times, error: Exception
    ) -> None:
        """Make the records of the turn that raised, and of those that are not sent any more.

        They count in every mean.
        """
        turn_times: Times | None = times
        failure = error_text(error)
        for turn in range(len(conversation.turns), len(self._cases.by_name[scenario.id].turns)):
            self._insert(scenario.id, conversation, turn, turn_times, failure=failure)
            turn_times, failure = None, NOT_CALLED

    def _insert(
        self,
        name: str,
        conversation: LiveConversation,
        turn: int,
        times: Times | None,
        *,
        answer: JsonValue = None,
        failure: str = "",
    ) -> None:
        turns = self._cases.by_name[name].turns
        item, own = turns[turn], spans_so_far(name, conversation)
        spans, question = spans_within(own, times), as_text(item.question)
        item = replace(
            item,
            answer=answer,
            failure=failure,
            steps=steps_of(spans, question),
            unreported="" if failure else _why_unreported(spans, own),
            tools=tuple(tool_definitions(spans) or tool_definitions(own)),
        )
        if turn:
            item = _with_history(item, conversation, turns[:turn])
        if has_refs(item.entry.get(EXPECTED_CALLS_KEY)):
            pairs = zip(turns[:turn], conversation.times_ns, strict=False)
            earlier = {
                turn_id(each, at): steps_of(spans_within(own, when), as_text(each.question))
                for at, (each, when) in enumerate(pairs)
            }
            item = replace(item, earlier=earlier)
        latency_s = None if times is None else (times[1] - times[0]) / NANO
        answered = Answered(item=item, latency_s=latency_s)
        self.queue[ALIAS].insert(self._cases.record(name, turn, answered))


def _with_history(
    item: EvalItem, conversation: LiveConversation, before: Sequence[EvalItem]
) -> EvalItem:
    """Say the questions and answers in the turns before."""
    said = [each["agent"] for each in plain_turns(conversation.turns[: len(before)])]
    said += [None] * (len(before) - len(said))
    history: list[JsonValue] = [
        {"turn_id": turn_id(each, at), "query": each.question, "answer": plain_answer(answer)}
        for at, (each, answer) in enumerate(zip(before, said, strict=True))
    ]
    return replace(item, entry={**item.entry, HISTORY_KEY: history})


def _why_unreported(spans: Sequence[Span], own: Sequence[Span]) -> str:
    """Say why the calls of a turn are not all known; "" where they are.

    An agent whose spans tell of its work in the conversation has made no call in a turn without.
    """
    if not SpanTree(own).has_agent_spans:
        return "the agent has left no spans of its work; trace it, so that its calls are seen"
    return why_unreported(SpanTree(spans).agent_work) if spans else ""
