"""A rate that several calibrations tell of, each of a part of the outcomes."""

import itertools
from collections.abc import Sequence

import pytest

from scouter.agent.calibration.rates import together
from scouter.evaluate.results.judge_rate import JudgeKnown, JudgeRate


def known(name: str) -> JudgeKnown:
    return JudgeKnown(
        digest=name, created_at="2026-01-01T00:00:00+00:00", sensitivity=0.9,
        sensitivity_interval=(0.8, 1.0), specificity=0.8, specificity_interval=(0.7, 0.9),
        kappa=0.7, good=100, bad=100,
    )  # fmt: skip


def part(
    judged: int, rate: float | None, interval: tuple[float, float] | None, name: str = "a"
) -> JudgeRate:
    return JudgeRate(
        alias="desk", task_id="tone", passed=judged // 2, judged=judged,
        standing="cannot_say" if rate is None else "corrected", rate=rate, interval=interval,
        why="too few labels" if rate is None else "", calibration=known(name),
    )  # fmt: skip


def test_the_mean_by_verdicts() -> None:
    """By hand: (30 * 0.2 + 10 * 0.6) / 40 = 0.3, and so with both ends."""
    found = together([part(30, 0.2, (0.1, 0.4)), part(10, 0.6, (0.5, 0.8), "b")])

    assert found.rate == pytest.approx(0.3)
    assert found.interval == pytest.approx((0.2, 0.5))
    assert (found.passed, found.judged) == (20, 40)
    assert (found.standing, found.why) == ("corrected", "")
    assert found.calibration == known("b")


@pytest.mark.parametrize(
    "parts", list(itertools.permutations([part(30, 0.2, (0.1, 0.4)), part(0, None, None)]))
)
def test_a_part_without_verdicts_does_not_count(parts: Sequence[JudgeRate]) -> None:
    found = together(parts)

    assert (found.rate, found.interval) == (pytest.approx(0.2), pytest.approx((0.1, 0.4)))
    assert (found.standing, found.judged, found.why) == ("corrected", 30, "")


def test_what_one_part_cannot_say_the_whole_cannot() -> None:
    found = together([part(30, 0.2, (0.1, 0.4)), part(10, None, None)])

    assert (found.standing, found.rate, found.interval) == ("cannot_say", None, None)
    assert found.why == "of 10 of the 40 outcomes: too few labels"
    assert found.judged == 40


def test_where_there_is_no_verdict_at_all() -> None:
    found = together([part(0, None, None), part(0, None, None, "b")])

    assert (found.standing, found.rate, found.why) == ("cannot_say", None, "too few labels")
    assert found.judged == 0
