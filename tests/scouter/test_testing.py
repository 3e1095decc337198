"""The scripted judge: what it gives, what it keeps, and what it says when the script is short."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest
from scouter.evaluate.outcome import Reason
from scouter.testing import ScriptedJudge


def ask(judge: ScriptedJudge, *tasks: str) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return [
            (await judge.ask(JudgeRequest(task_id=task, messages=()))).response for task in tasks
        ]

    return asyncio.run(all_of_them())


def test_replies_by_task() -> None:
    """One reply is given for ever, a list one by one, and ids are compared in lower case."""
    judge = ScriptedJudge({"A": {"score": 1}, "b": ["x", JudgeReply(response=["y"])]})
    assert ask(judge, "a", "b", "a", "b") == [{"score": 1}, "x", {"score": 1}, ["y"]]
    assert [request.task_id for request in judge.requests] == ["a", "b", "a", "b"]
    assert judge.requests_of("B") == [judge.requests[1], judge.requests[3]]
    assert repr(judge) == "ScriptedJudge(4 questions so far)"


def test_replies_in_order_and_by_function() -> None:
    assert ask(ScriptedJudge([1, None]), "a", "b") == [1, None]
    assert ask(ScriptedJudge(lambda request: request.task_id * 2), "a", "b") == ["aa", "bb"]

    async def answer(request: JudgeRequest) -> str:
        return request.task_id

    assert ask(ScriptedJudge(answer), "a") == ["a"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"a": 1, "b": 2}, "no reply for the task 'c': there are replies for a, b"),
        ({}, "there are replies for none"),
        ([], "all its replies have been given"),
        ({"c": []}, "all its replies have been given"),
    ],
)
def test_a_script_that_is_too_short_says_so(script: Any, words: str) -> None:
    with pytest.raises(JudgeError, match=words) as caught:
        ask(ScriptedJudge(script), "c")
    assert not caught.value.is_worth_retrying


def test_exceptions_are_raised() -> None:
    with pytest.raises(JudgeError, match="no"):
        ask(ScriptedJudge([JudgeError(Reason.REFUSAL, "no")]), "a")
    with pytest.raises(LookupError):
        ask(ScriptedJudge({"a": LookupError()}), "a")


def test_a_text_is_no_script() -> None:
    with pytest.raises(ConfigError, match=r"write \['yes'\]"):
        ScriptedJudge("yes")


def test_delays_are_the_callers_to_wait_for() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    judge = ScriptedJudge({"a": 1, "bb": 2}, delay_s=lambda r: len(r.task_id) - 1.0, sleep=sleep)
    ask(judge, "a", "bb")
    ask(ScriptedJudge([1], delay_s=0.5, sleep=sleep), "a")
    assert slept == [1.0, 0.5]


def test_needs_no_test_framework() -> None:
    code = "import scouter.testing, sys; print([n for n in ('pytest',) if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
