"""Question answering: a judge compares an answer with the right one."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import AnyJudge, JudgeError
from scouter.evaluate.judge.render import fill_form
from scouter.evaluate.report.evaluator import (
    MOST_AT_ONCE,
    EvalItem,
    ItemEvaluator,
    ItemVerdict,
    errored,
    skipped,
)
from scouter.evaluate.report.field_judge import read_score
from scouter.evaluate.report.field_metrics import Compat, as_text
from scouter.evaluate.tasks.judged_answer import QA_CRITERIA

_THINK: Final = re.compile(r"<agent-think>.*?</agent-think>", re.DOTALL)
NO_GROUND_TRUTH: Final = "Error: marked for QA evaluation but no ground_truth provided"
QA_FORM: Final = f"""\
Judge the answer of an AI agent to a question by the right answer.

Question:
{{question}}

Answer of the agent:
{{answer}}

Right answer:
{{reference}}

{QA_CRITERIA}\
1 means right and complete, 0.8 right but for \
a detail, 0.6 the main thing right, 0.4 partly right, 0.2 hardly right, 0 wrong or no answer.
"""
REASONED: Final = """
Write your reasoning first. Then write the score alone on the last line: a number from 0 to 1.
"""
BARE: Final = """
Answer with the score alone: a number from 0 to 1.
"""


def plain_answer(answer: JsonValue) -> str:
    """An answer without what the agent thought, as text."""
    return _THINK.sub("", as_text(answer)).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAsker:
    """Asks a judge for one score."""

    caller: JudgeCaller
    compat: Compat = "sound"
    with_reasoning: bool = True

    async def ask(self, task_id: str, form: str, values: dict[str, str]) -> tuple[float, str]:
        """Ask, and read score and reasoning.

        Raises:
            JudgeError: There is no score.
        """
        is_sound = self.compat != "vss"
        ending = (REASONED if self.with_reasoning else BARE) if is_sound else ""
        messages = fill_form(form + ending, values, fence=is_sound)
        compat = self.compat
        return await self.caller.ask(task_id, messages, lambda reply: read_score(reply, compat))

    def without_score(self, item: EvalItem, error: JudgeError) -> ItemVerdict:
        """The verdict where the judge gave no score; in `vss` it is 0."""
        if self.compat != "vss":
            return errored(item, f"{error.reason}: {error}", error.reason)
        plain = error.message.rpartition(" (called")[0] or error.message
        attempts = self.caller.max_retries + 1
        text = f"Error evaluating after {attempts} attempts. Last error: {plain}"
        return ItemVerdict(id=item.id, score=0.0, reasoning=text, error=text)


class QAEvaluator(ItemEvaluator):
    """Judges answers against right ones.

    Args:
        judge: A judge, a function from `JudgeRequest` to the answer, or `entry/model`.
        evaluation_method_id: Items that do not name it in `evaluation_method` are skipped; empty
            skips none.
        custom_prompt_template: In place of our question; the blanks are `{question}`, `{answer}`
            and `{reference}`.
        llm_judge_reasoning: Whether the judge writes its reasoning, too.
        compat: `sound`, or `vss`: the first number of an answer is the score, and an item that
            cannot be evaluated scores 0.
        max_concurrency: Items at a time.

    Raises:
        ConfigError: The judge can answer nothing, or there is no such profile.
    """

    def __init__(
        self,
        judge: JudgeCaller | AnyJudge | str,
        *,
        evaluation_method_id: str = "qa",
        custom_prompt_template: str | None = None,
        llm_judge_reasoning: bool = True,
        compat: Compat = "sound",
        max_concurrency: int = MOST_AT_ONCE,
    ) -> None:
        super().__init__(evaluation_method_id, compat, max_concurrency)
        self._asker = ScoreAsker(
            caller=JudgeCaller.of(judge), compat=compat, with_reasoning=llm_judge_reasoning
        )
        self._form = custom_prompt_template or QA_FORM

    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Evaluate one item.

        Raises:
            DataError: It does not say which evaluators are to look at it.
        """
        if not self.is_for(item):
            return skipped(item, self.evaluation_method_id)
        truth, is_sound = item.ground_truth, self._compat != "vss"
        if (truth is None or truth == "") if is_sound else not truth:
            score = None if is_sound else 0.0
            return ItemVerdict(
                id=item.id, score=score, reasoning=NO_GROUND_TRUTH, error=NO_GROUND_TRUTH
            )
        if item.failure and self._compat == "sound":
            return errored(item, f"the agent failed: {item.failure}")
        answer = plain_answer(item.answer)
        values = {
            "question": as_text(item.question),
            "answer": answer,
            "reference": as_text(truth),
        }
        try:
            score, reasoning = await self._asker.ask("qa", self._form, values)
        except JudgeError as error:
            return self._asker.without_score(item, error)
        said: dict[str, JsonValue] = {
            "reasoning": reasoning,
            "question": item.question,
            "generated_answer": answer,
            "ground_truth": truth,
        }
        return ItemVerdict(id=item.id, score=score, reasoning=said)
