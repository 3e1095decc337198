"""FunctionTask with a prompt: a function of the program that asks the judge of the run."""

from collections.abc import Mapping
from typing import Any

import pytest

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.ask import TaskJudge
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, Message
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.function import FunctionTask
from scouter.model.record import EvalRecord

PROMPT = Prompt("How good?", "m", "openai")


def question(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def number(reply: JudgeReply) -> float:
    if not isinstance(reply.response, int | float):
        raise JudgeError(Reason.PARSE, f"no number: {reply.response}")
    return float(reply.response)


def one(_: object) -> float:
    return 1.0


def run(function: Any, judge: Any, **fields: Any) -> EvalTaskResult:
    task = FunctionTask("own", function, prompt=PROMPT, **fields)
    return (
        EvalDataset([EvalRecord({"answer": "a"})], [task]).evaluate(judge=judge).records[0].tasks[0]
    )


def test_it_asks_until_it_has_a_score() -> None:
    """The second question follows from the first answer; the first one is shown."""
    questions: list[str] = []

    async def function(context: Mapping[str, Any]) -> float:
        judge = TaskJudge(model="m", provider="openai")
        first = await judge.ask("a", question(context["answer"]), number)
        return await judge.ask("b", question(f"after {first}"), number) + first

    def judge(request: JudgeRequest) -> float:
        questions.append(request.messages[-1]["content"])
        return 0.25 if len(questions) == 1 else 0.75

    found = run(function, judge)
    assert (found.outcome, found.score, questions) == ("passed", 1.0, ["a", "after 0.25"])
    assert found.usage is not None
    assert found.exchange is not None
    assert (found.usage.calls, found.exchange.messages, found.exchange.answer) == (
        2,
        question("a"),
        0.75,
    )


def test_questions_that_wait_for_nothing_are_put_together() -> None:
    """Two fields at a time: neither is answered before the other one is put, too."""
    import asyncio

    both = asyncio.Barrier(2)

    async def function(_: object) -> float:
        judge = TaskJudge(model="m", provider="openai")
        scores = await judge.gather([judge.ask("a", question(text), number) for text in "xy"])
        return sum(scores)

    async def judge(request: JudgeRequest) -> float:
        await asyncio.wait_for(both.wait(), 120)
        return 0.25 if request.messages[-1]["content"] == "x" else 0.5

    found = run(function, judge)
    assert (found.outcome, found.score) == ("failed", 0.75)


def test_an_answer_that_cannot_be_read_is_requested_again() -> None:
    answers: list[object] = ["much", "more", 1]

    async def function(_: object) -> float:
        judge = TaskJudge(model="m", provider="openai", max_retries=2)
        return await judge.ask("a", question("x"), number)

    def answering(_: object) -> object:
        return answers.pop(0)

    found = run(function, answering)
    assert (found.score, found.usage and found.usage.calls) == (1.0, 3)
    answers += ["much", "more", "most"]
    found = run(function, answering)
    assert (found.outcome, found.reason) == ("errored", "parse")
    assert found.message == "no number: most (called 3 times)"


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [(Reason.BUDGET, "skipped"), (Reason.REFUSAL, "errored"), (Reason.PROVIDER, "errored")],
)
def test_a_judge_that_does_not_answer(reason: Reason, outcome: str) -> None:
    """What is not the judge's failure is no error; the function never gets an answer."""

    async def function(_: object) -> float:
        return await TaskJudge(model="m").ask("a", question("x"), number)

    def judge(_: JudgeRequest) -> float:
        raise JudgeError(reason, "no answer", permanent=True)

    found = run(function, judge)
    assert (found.outcome, found.reason, found.message) == (outcome, reason, "no answer")


def test_what_it_gives_without_asking_counts() -> None:
    def skips(_: object) -> object:
        return {"score": None, "reason": "not about it"}

    assert run(one, one).passed
    skipped = run(skips, one)
    assert (skipped.outcome, skipped.message) == ("skipped", "not about it")
    assert skipped.usage is None

    async def raises(_: object) -> float:
        raise KeyError("answer")

    found = run(raises, one)
    assert (found.outcome, found.message) == ("errored", "KeyError: 'answer'")
