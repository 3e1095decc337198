"""The choice of tools, as a judge sees it."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import AnyJudge, JudgeError
from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.evaluator import (
    EXPECTED_CALLS_KEY,
    MOST_AT_ONCE,
    EvalItem,
    ItemEvaluator,
    ItemVerdict,
    errored,
    skipped,
)
from scouter.evaluate.report.field_metrics import Compat, as_text
from scouter.evaluate.report.qa_evaluator import ScoreAsker, plain_answer
from scouter.evaluate.report.steps import (
    NO_CALLS,
    has_refs,
    resolve_refs,
    results_by_tool,
    selected,
    tool_calls,
    trajectory_json,
    trajectory_text,
)
from scouter.evaluate.tasks.trajectory import (
    NO_HISTORY,
    NO_TOOLS,
    WITH_REFERENCE,
    WITHOUT_REFERENCE,
)


class TrajectoryEvaluator(ItemEvaluator):
    """Judges what agents did: against expected calls where an item has them, else by itself.

    Args:
        judge: A judge, a function from `JudgeRequest` to the answer, or `entry/model`.
        evaluation_method_id: Items that do not name it in `evaluation_method` are skipped; empty
            skips none.
        track_agent_selected_tools_only: Whether tools that the agent did not choose itself, and
            models inside of tools, are left out.
        custom_prompt_template_with_reference: For items with `trajectory_ground_truth`; the blanks
            are `{question}`, `{reference}`, `{agent_trajectory}` and `{answer}`.
        custom_prompt_template_without_reference: For all others; the blanks are `{question}`,
            `{agent_trajectory}`, `{answer}`, `{tool_schemas}` and `{conversation_history}`.
        tool_schemas: The tools that the agent has; a text, or their definitions as plain data.
            Without them an item's `tool_schemas` count, else what its spans tell; where nobody
            tells, the prompt says so.
        llm_judge_reasoning: Whether the judge writes its reasoning, too.
        compat: `sound`, or `vss`: the first number of an answer is the score, an item that cannot
            be evaluated scores 0, and an item whose template is not given is an error.
        max_concurrency: Items at a time.

    Raises:
        ConfigError: The judge can answer nothing, or there is no such profile.
    """

    def __init__(
        self,
        judge: JudgeCaller | AnyJudge | str,
        *,
        evaluation_method_id: str = "trajectory",
        track_agent_selected_tools_only: bool = True,
        custom_prompt_template_with_reference: str | None = None,
        custom_prompt_template_without_reference: str | None = None,
        tool_schemas: str | Sequence[JsonValue] | None = None,
        llm_judge_reasoning: bool = True,
        compat: Compat = "sound",
        max_concurrency: int = MOST_AT_ONCE,
    ) -> None:
        super().__init__(evaluation_method_id, compat, max_concurrency)
        self._asker = ScoreAsker(
            caller=JudgeCaller.of(judge), compat=compat, with_reasoning=llm_judge_reasoning
        )
        self._selected_only = track_agent_selected_tools_only
        self._forms = {
            "with_reference": custom_prompt_template_with_reference,
            "without_reference": custom_prompt_template_without_reference,
        }
        self._schemas = tool_schemas

    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Evaluate one item.

        Raises:
            DataError: It does not say which evaluators are to look at it.
            ValueError: In `vss`, there is no template for it.
        """
        if not self.is_for(item):
            return skipped(item, self.evaluation_method_id)
        if item.failure and self._compat == "sound":
            return errored(item, f"the agent failed: {item.failure}")
        if item.unreported and self._compat == "sound":
            return errored(item, f"not reported: {item.unreported}", Reason.NOT_TOLD)
        steps = selected(item.steps, self._compat) if self._selected_only else list(item.steps)
        calls = tool_calls(steps, self._compat)
        expected = item.entry.get(EXPECTED_CALLS_KEY)
        resolved = self._resolved(item, expected) if has_refs(expected) else expected
        said: dict[str, JsonValue] = {
            "reasoning": "",
            "query": item.question,
            "actual_tool_calls": list[JsonValue](calls),
            "expected_tool_calls": expected,
            "final_answer": plain_answer(item.answer),
            "trajectory": trajectory_json(steps),
            "conversation_history": list[JsonValue](item.history),
            "track_agent_selected_tools_only": self._selected_only,
        }
        if resolved is not expected:
            said["resolved_expected_tool_calls"] = resolved
        values = {"question": as_text(item.question), "answer": plain_answer(item.answer)}
        if item.has_expected_calls:
            form = self._form(item, "with_reference")
            values["reference"] = _json(resolved)
            values["agent_trajectory"] = _json(list[JsonValue](calls)) if calls else NO_CALLS
        else:
            form = self._form(item, "without_reference")
            values["agent_trajectory"] = trajectory_text(steps)
            values["tool_schemas"] = self._tools(item)
            values["conversation_history"] = _history(item.history)
        try:
            score, reasoning = await self._asker.ask("trajectory", form, values)
        except JudgeError as error:
            return self._asker.without_score(item, error)
        return ItemVerdict(id=item.id, score=score, reasoning={**said, "reasoning": reasoning})

    def _tools(self, item: EvalItem) -> str:
        """The agent's tools: those that are given, else the row's, else what spans tell."""
        found = self._schemas or item.entry.get("tool_schemas") or list(item.tools)
        if not found and self._compat != "vss":
            return NO_TOOLS
        return found if isinstance(found, str) else _json(cast("JsonValue", found))

    def _form(self, item: EvalItem, mode: str) -> str:
        own = self._forms[mode]
        if own is not None:
            return own
        if self._compat == "vss":
            has = "has" if item.has_expected_calls else "has no"
            raise ValueError(
                f"Item {item.id} {has} trajectory_ground_truth but custom_prompt_template_{mode} "
                "is not configured. Please add it to the trajectory evaluator config in "
                "config.yml."
            )
        return WITH_REFERENCE if item.has_expected_calls else WITHOUT_REFERENCE

    def _resolved(self, item: EvalItem, expected: JsonValue) -> JsonValue:
        """The expected calls, with what they refer to in the place of references."""
        results = results_by_tool(item.steps)
        earlier = {turn: results_by_tool(steps) for turn, steps in item.earlier.items()}
        return [
            {**call, "params": resolve_refs(call.get("params"), results, earlier)}
            if isinstance(call, dict)
            else call
            for call in (expected if isinstance(expected, list) else [])
        ]


def _history(turns: Sequence[Mapping[str, JsonValue]]) -> str:
    return (
        "\n".join(
            f"[{turn.get('turn_id')}] User: {turn.get('query')}\n"
            f"[{turn.get('turn_id')}] Assistant: {turn.get('answer')}"
            for turn in turns
        )
        or NO_HISTORY
    )


def _json(value: JsonValue) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
