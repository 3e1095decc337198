"""The expected answer is read from its place; the agent's answer is never taken for it."""

from typing import Any

import pytest
from pydantic import JsonValue

from scouter.client.expectation import expected_answer
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask

WRONG = "Lyon"


def context(**more: JsonValue) -> dict[str, JsonValue]:
    return {"question": "Where?", "answer": WRONG, "city": "Paris", **more}


def judge(reference: str | None) -> LLMJudgeTask:
    prompt = Prompt("Is ${answer} right?", model="m", provider="openai")
    return LLMJudgeTask("j", prompt, True, "ok", "Equals", reference=reference)


def task(path: str, expected: object, operator: str = "Equals") -> AssertionTask:
    return AssertionTask(f"{path} {operator}", path, expected, operator)


@pytest.mark.parametrize(
    ("tasks", "more", "expected"),
    [
        ([], {}, None),
        ([], {"expected_outcome": "Paris"}, "Paris"),
        ([], {"ground_truth": "Paris", "expected": " "}, "Paris"),
        ([], {"expected": 42}, "42"),
        ([], {"expected": True, "reference": ["Paris"]}, None),
        ([task("answer", "Paris")], {}, "Paris"),
        ([task("answer", "${city}")], {}, "Paris"),
        ([task("answer", "${gone}")], {}, None),
        ([task("answer", "Par", "Contains"), task("answer", "Paris")], {}, "Paris"),
        ([task("answer", "Par", "Contains")], {}, "Par"),
        ([task("answer", "Lyon", "NotContains")], {}, None),
        ([task("answer", "Berlin", "NotEqual")], {}, None),
        ([task("city", "Paris")], {}, None),
        ([task("answer", ["Paris"])], {}, None),
        ([judge("city")], {}, "Paris"),
        ([judge("gone"), judge(None)], {}, None),
        ([task("answer", "Rome")], {"expected_answer": "Paris"}, "Paris"),
    ],
)
def test_what_was_expected(tasks: list[Any], more: dict[str, Any], expected: str | None) -> None:
    assert expected_answer(tasks, context(**more), WRONG) == expected


@pytest.mark.parametrize("found", [None, "text", 3, ["a"], {}])
def test_contexts_of_any_kind(found: JsonValue) -> None:
    assert expected_answer([task("answer", "Paris")], found, None) is None
