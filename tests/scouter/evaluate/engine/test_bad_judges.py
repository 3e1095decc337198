"""Judges of one's own that misbehave: each is its task's error, and the others are judged."""

import asyncio
import gc
import sys
import threading
import time
from typing import Any

import pytest

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord

HANG = threading.Event()
"""Never set while a test runs."""
GOOD = {"ok": True}


def leaves(request: JudgeRequest) -> Any:
    sys.exit(3)


async def leaves_later(request: JudgeRequest) -> Any:
    await asyncio.sleep(0)
    sys.exit("no key")


def hangs(request: JudgeRequest) -> Any:
    HANG.wait()


async def hangs_in_loop(request: JudgeRequest) -> Any:
    await asyncio.Event().wait()


class HangingJudge:
    time_limit_s = 0.05

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        await asyncio.Event().wait()
        raise AssertionError


class PlainHangingJudge:
    time_limit_s = 0.05

    def ask(self, request: JudgeRequest) -> JudgeReply:
        HANG.wait()
        raise AssertionError


class LateCoroutine:
    async def ask(self, request: JudgeRequest) -> Any:
        return answered(request)


async def answered(request: JudgeRequest) -> Any:
    return GOOD


async def a_coroutine_of_a_coroutine(request: JudgeRequest) -> Any:
    return answered(request)


for each in (hangs, hangs_in_loop):
    each.time_limit_s = 0.05  # type: ignore[attr-defined]


def task(task_id: str) -> LLMJudgeTask:
    return LLMJudgeTask(
        id=task_id,
        prompt=Prompt(messages="Is it?", model="m", provider="p"),
        context_path="ok",
        operator=ComparisonOperator.Equals,
        expected_value=True,
        max_retries=0,
    )


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (leaves, "the judge called sys.exit(3)"),
        (leaves_later, "the judge called sys.exit('no key')"),
        (hangs, "took longer than 0.05 s"),
        (hangs_in_loop, "took longer than 0.05 s"),
        (HangingJudge(), "took longer than 0.05 s"),
        (PlainHangingJudge(), "took longer than 0.05 s"),
        (LateCoroutine(), "returned a coroutine; expected a JudgeReply"),
    ],
    ids=lambda item: getattr(item, "__name__", type(item).__name__),
)
def test_what_a_judge_does_is_its_tasks_error(bad: Any, words: str) -> None:
    results = EvalDataset([EvalRecord(context={"a": 1})], [task("bad")]).evaluate(judge=bad)
    (found,) = results.records[0].tasks
    assert (str(found.outcome), str(found.reason)) in {
        ("errored", "provider"), ("errored", "parse"),
    }  # fmt: skip
    assert words in found.message
    gc.collect()  # a coroutine that nobody awaited would warn here


def test_the_others_are_judged() -> None:
    def both(request: JudgeRequest) -> Any:
        if request.task_id == "bad":
            sys.exit()
        return GOOD

    tasks = [task("bad"), task("good")]
    results = EvalDataset([EvalRecord(context={"a": 1})], tasks).evaluate(judge=both)
    outcomes = {each.task_id: str(each.outcome) for each in results.records[0].tasks}
    assert outcomes == {"bad": "errored", "good": "passed"}


def test_an_answer_may_have_to_be_awaited_twice() -> None:
    data = EvalDataset([EvalRecord(context={"a": 1})], [task("t")])
    results = data.evaluate(judge=a_coroutine_of_a_coroutine)
    assert str(results.records[0].tasks[0].outcome) == "passed"


def test_a_coroutine_that_comes_after_the_time_limit_is_closed() -> None:
    """Nobody awaits it; nothing warns of it, in whatever loop the answer comes."""
    go_on, given = threading.Event(), threading.Event()
    made: list[Any] = []

    def late(request: JudgeRequest) -> Any:
        go_on.wait(120)
        made.append(answered(request))
        given.set()
        return made[0]

    late.time_limit_s = 0.05  # type: ignore[attr-defined]
    results = EvalDataset([EvalRecord(context={"a": 1})], [task("t")]).evaluate(judge=late)
    assert "took longer" in results.records[0].tasks[0].message
    go_on.set()
    assert given.wait(120)
    until = time.monotonic() + 10
    while made[0].cr_frame is not None and time.monotonic() < until:
        for thread in threading.enumerate():
            if thread.name == "scouter-judge-call":
                thread.join(0.1)
    assert made[0].cr_frame is None, "closed"
