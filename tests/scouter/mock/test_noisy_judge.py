"""The noisy judge makes the mistakes that it was ordered to make, and always the same ones."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import binom

from scouter.evaluate.judge.port import Message
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.noisy_judge import NoisyJudge, Word

COUNT = 4000


def request(text: str) -> LLMRequest:
    return LLMRequest(
        number=0,
        protocol="openai",
        path="/",
        model="m",
        messages=(Message(role="user", content=text),),
        schema=None,
        tool="",
        body={},
        headers={},
    )


def share(judge: NoisyJudge, word: Word, text: Callable[[int], str] = str) -> float:
    """The share of answers with a word, over questions that are all different."""
    return sum(judge.verdict(request(text(at))) == word for at in range(COUNT)) / COUNT


def is_about(found: float, rate: float) -> bool:
    """True inside of what chance gives but once in a million runs (of this seed: never)."""
    chance: Any = binom
    low, high = chance.interval(1 - 1e-6, COUNT, rate)
    return bool(low <= found * COUNT <= high)


@pytest.mark.parametrize(
    ("truth", "word", "rate", "fields"),
    [
        ("pass", "pass", 0.9, {}),
        ("fail", "fail", 0.8, {}),
        ("pass", "abstain", 0.1, {"abstention_rate": 0.1}),
        ("pass", "pass", 0.9 * 0.9, {"abstention_rate": 0.1}),
        ("first", "first", 0.9, {}),
        ("second", "second", 0.8, {}),
        ("first", "first", 0.3 + 0.7 * 0.9, {"position_bias": 0.3}),
        ("second", "second", 0.7 * 0.8, {"position_bias": 0.3}),
        ("pass", "pass", 1.0, {"sensitivity": 1.0}),
        ("fail", "fail", 0.0, {"specificity": 0.0}),
    ],
)
def test_the_rates_are_those_ordered(
    truth: Word, word: Word, rate: float, fields: dict[str, float]
) -> None:
    judge = NoisyJudge(truth=lambda _: truth, **fields)  # pyright: ignore[reportArgumentType]
    assert is_about(share(judge, word), rate)


def test_length_moves_the_log_odds() -> None:
    """1,000 characters too many at a bias of 1: odds of 9 become 9e, a share of 9e/(1+9e)."""
    judge = NoisyJudge(truth=lambda _: "pass", length_bias=1.0, usual_length=1000)
    long = share(judge, "pass", lambda at: f"{at:<2000}")
    usual = share(judge, "pass", lambda at: f"{at:<1000}")
    assert is_about(long, 9 * math.e / (1 + 9 * math.e))
    assert is_about(usual, 0.9)


def test_the_same_question_gets_the_same_verdict_in_any_order() -> None:
    texts = [f"question {at}" for at in range(200)]

    def verdicts(order: list[str], seed: int = 0) -> dict[str, Word]:
        judge = NoisyJudge(truth=lambda _: "pass", sensitivity=0.5, seed=seed)
        return {text: judge.verdict(request(text)) for text in order}

    assert verdicts(texts) == verdicts(texts[::-1])
    assert verdicts(texts) != verdicts(texts, seed=1)


def test_repeated_questions_are_turned_around_at_a_rate() -> None:
    steady = NoisyJudge(truth=lambda _: "pass")
    shaky = NoisyJudge(truth=lambda _: "pass", inconsistency=0.2)
    firsts = [shaky.verdict(request(str(at))) for at in range(COUNT)]
    again = [shaky.verdict(request(str(at))) for at in range(COUNT)]

    assert firsts == [steady.verdict(request(str(at))) for at in range(COUNT)]
    assert firsts == [steady.verdict(request(str(at))) for at in range(COUNT)]
    turned = sum(one != other for one, other in zip(firsts, again, strict=True)) / COUNT
    assert is_about(turned, 0.2)


def test_the_answer_has_the_form_that_was_ordered() -> None:
    judge = NoisyJudge(
        truth=lambda _: "pass", sensitivity=1, say=lambda word: {"ok": word == "pass"}
    )
    assert judge(request("a")) == {"ok": True}
    assert NoisyJudge(truth=lambda _: "fail", specificity=1)(request("a")) == {"verdict": "fail"}
    with pytest.raises(ValueError, match="sensitivity: expected a probability"):
        NoisyJudge(truth=lambda _: "pass", sensitivity=1.5)
