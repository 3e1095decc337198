"""Gold items: a judge that drifts is distinguished from an agent that drifts."""

from random import Random
from typing import Any, cast

import pytest
from scipy import stats

from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import CannotSay, CorrectedRate, JudgeCounts
from scouter.evaluate.statistics.gold_items import diagnose, judge_drift


def confusion(good_passed: int, good: int, bad_failed: int, bad: int) -> Confusion:
    return Confusion(
        good_passed=good_passed,
        good_failed=good - good_passed,
        bad_failed=bad_failed,
        bad_passed=bad - bad_failed,
    )


CALIBRATION = confusion(90, 100, 80, 100)
STEADY = JudgeCounts(380, 500)
"""A true rate of 0.8, as this judge sees it."""


def test_the_tests_are_fishers() -> None:
    """Each p-value is scipy's, doubled for the smaller one as Holm does."""
    found = judge_drift(CALIBRATION, confusion(30, 50, 38, 50))
    fisher = cast("Any", stats.fisher_exact)
    worse = fisher([[90, 10], [30, 20]]).pvalue
    other = fisher([[80, 20], [38, 12]]).pvalue

    assert found.sensitivity_p == pytest.approx(2 * worse)
    assert found.specificity_p == pytest.approx(max(other, 2 * worse))
    assert found.has_drifted


def test_a_steady_judge_and_a_steady_agent() -> None:
    found = diagnose(CALIBRATION, STEADY, confusion(91, 100, 79, 100), JudgeCounts(376, 500))

    assert not found.judge.has_drifted
    assert found.has_agent_drifted is False
    assert found.difference[0] < 0 < found.difference[1]
    assert "neither judge nor agent" in found.sentence
    assert "points would have been seen" in found.sentence


def test_an_agent_that_drifts() -> None:
    """The pass rate falls to what this judge makes of a true rate of 0.5; gold items go on."""
    found = diagnose(CALIBRATION, STEADY, confusion(181, 200, 159, 200), JudgeCounts(275, 500))

    assert not found.judge.has_drifted
    assert found.has_agent_drifted is True
    assert found.difference[1] < 0
    assert "the agent drifted; the judge decides gold items as before" in found.sentence


def test_a_judge_that_drifts() -> None:
    """Sensitivity 0.6: the pass rate falls to 0.52, the corrected one stays where it was."""
    found = diagnose(CALIBRATION, STEADY, confusion(60, 100, 80, 100), JudgeCounts(260, 500))

    assert found.judge.has_drifted
    assert found.has_agent_drifted is False
    assert isinstance(found.before, CorrectedRate)
    assert isinstance(found.after, CorrectedRate)
    assert found.before.estimate == pytest.approx(0.8)
    assert found.after.estimate == pytest.approx(0.8)
    assert "the judge drifted: sensitivity from 90% to 60%; no drift of the agent" in found.sentence


def test_both() -> None:
    found = diagnose(CALIBRATION, STEADY, confusion(120, 200, 160, 200), JudgeCounts(130, 500))

    assert found.judge.has_drifted
    assert found.has_agent_drifted is True
    assert found.sentence.endswith("; the agent did, too")


def test_too_few_gold_items_blame_nobody() -> None:
    """The pass rate fell, and ten gold items do not say why."""
    found = diagnose(CALIBRATION, STEADY, confusion(4, 5, 4, 5), JudgeCounts(275, 500))

    assert found.has_agent_drifted is None
    assert "too few to tell whether it is the agent or the judge" in found.sentence


def test_a_judge_gone_blind() -> None:
    """It passes everything: it drifted, and nothing is known of the agent any more."""
    found = diagnose(CALIBRATION, STEADY, confusion(50, 50, 0, 50), JudgeCounts(500, 500))

    assert found.judge.has_drifted
    assert isinstance(found.after, CannotSay)
    assert found.difference == (-1.0, 1.0)
    assert "specificity from 80% to 0%" in found.sentence
    assert "cannot be determined" in found.sentence


def test_no_gold_items() -> None:
    found = judge_drift(CALIBRATION, confusion(0, 0, 0, 0))

    assert (found.sensitivity_p, found.specificity_p, found.visible_fall) == (1.0, 1.0, None)
    assert not found.has_drifted


def test_false_alarms_are_rare() -> None:
    """The level is right with the calibration's own error in it: below 1 % of steady windows."""
    random = Random(5)

    def draw(good: int, bad: int) -> Confusion:
        return confusion(
            sum(random.random() < 0.9 for _ in range(good)), good,
            sum(random.random() < 0.8 for _ in range(bad)), bad,
        )  # fmt: skip

    alarms = sum(judge_drift(draw(60, 40), draw(40, 40)).has_drifted for _ in range(1500))
    seen = sum(
        judge_drift(draw(100, 100), confusion(30, 50, 40, 50)).has_drifted for _ in range(50)
    )

    assert alarms <= 25
    assert seen >= 45
