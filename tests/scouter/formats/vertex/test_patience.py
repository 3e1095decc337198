"""Agents that raise or do not answer: called again, given up, and never at other rows' cost."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.formats.vertex.eval_task import EvalTask

ROWS = [{"prompt": name, "reference": name} for name in ("bad", "good", "fine")]


def evaluated(agent: object, **options: Any) -> list[dict[str, Any]]:
    return list(EvalTask(ROWS, ["exact_match"]).evaluate(runnable=agent, **options).rows)


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["response"], row["failure"], row["exact_match/score"]) for row in rows]


ANSWERED = [("good", 0, 1.0), ("fine", 0, 1.0)]


@pytest.mark.parametrize(("retries", "is_answered"), [(0, False), (1, False), (2, True), (9, True)])
def test_a_call_that_failed_is_made_again(retries: int, is_answered: bool) -> None:
    """By hand: the third call answers."""
    calls: Counter[str] = Counter()

    def agent(prompt: str) -> str:
        calls[prompt] += 1
        if prompt == "bad" and calls[prompt] < 3:
            raise ValueError("not yet")
        return prompt

    bad, *others = evaluated(agent, retries=retries)
    assert seen(others) == ANSWERED
    assert calls == {"bad": min(3, retries + 1), "good": 1, "fine": 1}
    if is_answered:
        assert seen([bad]) == [("bad", 0, 1.0)]
        assert bad.get("failure_explanation") is None
    else:
        assert bad["failure_explanation"] == "ValueError: not yet"
        assert (bad["failure"], bad["latency_in_seconds"], bad["exact_match/score"]) == (
            1,
            None,
            None,
        )


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_plain_function_that_hangs(concurrency: int) -> None:
    """It keeps its own thread, not that of the rows behind it."""
    release = threading.Event()

    def agent(prompt: str) -> str:
        if prompt == "bad":
            release.wait()
        return prompt

    try:
        bad, *others = evaluated(agent, timeout_s=1.0, retries=1, concurrency=concurrency)
    finally:
        release.set()
    assert seen(others) == ANSWERED
    message = "TimeoutError: scenario 'bad' took longer than timeout_s=1"
    assert (bad["failure"], bad["failure_explanation"]) == (1, message)


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    ended = threading.Event()

    async def agent(prompt: str) -> str:
        if prompt == "bad":
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return prompt

    bad, *others = evaluated(agent, timeout_s=1.0)
    assert seen(others) == ANSWERED
    message = "TimeoutError: scenario 'bad' took longer than timeout_s=1"
    assert bad["failure_explanation"] == message
    assert ended.wait(120)


def test_a_cancelled_agent_loses_no_other_row() -> None:
    async def agent(prompt: str) -> str:
        if prompt == "bad":
            raise asyncio.CancelledError
        return prompt

    for options in ({}, {"timeout_s": 10.0}):
        bad, *others = evaluated(agent, **options)
        assert seen(others) == ANSWERED
        assert bad["failure_explanation"].endswith("raised CancelledError")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries is -1; expected a whole number from 0"),
        ({"retries": True}, "retries"),
        ({"timeout_s": 0}, "timeout_s is 0; expected seconds above 0"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": float("inf")}, "timeout_s"),
    ],
)
def test_numbers_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluated(str.strip, **options)
