"""Accuracy of an agent's answer, as a judge sees it."""

from collections.abc import Awaitable, Callable
from statistics import fmean
from typing import Final

from pydantic import JsonValue, ValidationError

from scouter.errors import ConfigError
from scouter.evaluate.accuracy.models import (
    AccuracyEvaluationResult,
    Compat,
    EvaluationScore,
    check_agent,
    check_compat,
    check_count,
    refuse,
    time_agent,
)
from scouter.evaluate.judge.answer_text import read_answer, under
from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import AnyJudge, JudgeError, JudgeReply, Message
from scouter.evaluate.judge.render import fill_form
from scouter.evaluate.outcome import Reason

NO_GUIDELINES: Final = "No additional guidelines provided."
_NO_OUTPUT: Final = "The agent under test produced a None output, cannot proceed with evaluation."
_NO_JUDGE: Final = "The `judge_agent` must be an instance of the `Agent` agent class."
_NO_SCORE: Final = "Judge agent failed to return a valid EvaluationScore object. Received: "

FORM: Final = """\
Judge how accurate an agent's answer is. Compare it with the expected answer, and follow the
guidelines. Ignore style unless they name it.

<UserQuery>
{query}
</UserQuery>

<ExpectedAnswer>
{expected}
</ExpectedAnswer>

<GeneratedAnswer>
{generated}
</GeneratedAnswer>

<EvaluationGuidelines>
{guidelines}
</EvaluationGuidelines>

Answer with one JSON object that has these fields:
- score: a number from 1 (wrong) to 10 (has all that is expected, and nothing wrong)
- reasoning: the steps that led to the score
- is_met: true if the answer has what is expected
- critique: one piece of advice that would improve the answer
"""


class AccuracyEvaluator:
    """Asks an agent a question, and a judge how accurate the answer is.

    Args:
        judge_agent: A judge, a function from `JudgeRequest` to the answer, or `entry/model` of a
            provider entry, such as `openai/gpt-4o-mini`.
        agent_under_test: A plain or async function from the query to the answer, or an object
            with `do_async(task)`.
        query: The question.
        expected_output: Content of a right answer.
        additional_guidelines: Further rules for the judge.
        num_iterations: Number of times that agent and judge are called, at least 1.
        compat: `sound`, or `upsonic-0.77`: the first failing iteration ends the evaluation, and
            nothing is called twice.

    Raises:
        TypeError: The judge or the agent cannot be called.
        ValueError: `num_iterations` is below 1.
    """

    def __init__(
        self,
        judge_agent: "JudgeCaller | AnyJudge | str",
        agent_under_test: object,
        query: str,
        expected_output: str,
        additional_guidelines: str | None = None,
        num_iterations: int = 1,
        *,
        compat: Compat = "sound",
    ) -> None:
        check_compat(compat)
        try:
            self._judge = JudgeCaller.of(judge_agent)
        except ConfigError as error:
            refuse(TypeError, compat, f"judge_agent: {error}", _NO_JUDGE)
        check_agent(agent_under_test, compat)
        check_count("num_iterations", num_iterations, 1, compat)
        self._agent = agent_under_test
        self._query, self._expected = query, expected_output
        self._guidelines = additional_guidelines or NO_GUIDELINES
        self._iterations, self._compat = num_iterations, compat

    async def run(self, print_results: bool = True) -> AccuracyEvaluationResult:
        """Ask the agent and judge each of its answers.

        Args:
            print_results: Whether a summary goes to standard output.

        Raises:
            JudgeError: No iteration has a verdict, for the judge.
            Exception: No iteration has a verdict, for what the agent raised; in `upsonic-0.77`
                the first iteration failed that way.
        """

        async def answer() -> object:
            found, _ = await time_agent(self._agent, self._query)
            if found is None:
                raise ValueError(_NO_OUTPUT)
            return found

        return await self._judged(answer, print_results)

    async def run_with_output(
        self, output: str, print_results: bool = True, trace_id: str | None = None
    ) -> AccuracyEvaluationResult:
        """Judge an answer that is there already; the agent is not called.

        Args:
            output: The answer.
            print_results: Whether a summary goes to standard output.
            trace_id: Trace of the answer; taken for Upsonic's sake, and not used.

        Raises:
            JudgeError: No iteration has a verdict.
        """

        async def answer() -> object:
            return output

        return await self._judged(answer, print_results)

    async def _judged(
        self, answer: Callable[[], Awaitable[object]], print_results: bool
    ) -> AccuracyEvaluationResult:
        scores: list[EvaluationScore] = []
        failures: list[Exception] = []
        errors: list[str] = []
        generated = ""
        for at in range(self._iterations):
            try:
                given = str(await answer())
                scores.append(await self._one_score(given))
            except Exception as error:
                if self._compat != "sound":
                    raise
                failures.append(error)
                errors.append(f"iteration {at + 1}: {type(error).__name__}: {error}")
            else:
                generated = given
        if not scores:
            raise failures[0]
        result = AccuracyEvaluationResult(
            evaluation_scores=scores,
            average_score=fmean(each.score for each in scores),
            user_query=self._query,
            expected_output=self._expected,
            generated_output=generated,
            errors=errors,
        )
        if print_results:
            from scouter.evaluate.accuracy.shown import print_accuracy  # rich loads on demand

            print_accuracy(result)
        return result

    async def _one_score(self, generated: str) -> EvaluationScore:
        schema: dict[str, JsonValue] = EvaluationScore.model_json_schema()
        if self._compat == "sound":
            return await self._judge.ask("accuracy", self.question(generated), _score, schema)
        call = self._judge.ask("accuracy", self.question(generated), lambda each: each, schema, 0)
        reply = await call
        try:
            return _score(reply)
        except JudgeError as error:
            raise TypeError(f"{_NO_SCORE}{type(reply.response)}") from error

    def question(self, generated: str) -> tuple[Message, ...]:
        """The question to the judge about an answer."""
        values = {
            "query": self._query,
            "expected": self._expected,
            "generated": generated,
            "guidelines": self._guidelines,
        }
        return fill_form(FORM, values, fence=self._compat == "sound")


def _score(reply: JudgeReply) -> EvaluationScore:
    found = reply.response
    try:
        if isinstance(found, str):
            found = read_answer(found, under("score"))
        return EvaluationScore.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise JudgeError(Reason.PARSE, f"the judge's answer: {where}: {first['msg']}") from error
