"""The pass rate of a judge task beside what is known of its judge."""

import datetime

import pytest

from scouter.agent.calibration.asking import JudgeOutcome
from scouter.agent.calibration.calibration import Calibration, Evidence, calibrate
from scouter.agent.calibration.identity import identify
from scouter.agent.calibration.known import Calibrations
from scouter.agent.calibration.labels import Item, Label
from scouter.agent.calibration.rates import RecordOutcome, rate
from scouter.evaluate.outcome import Outcome
from tests.scouter.agent.calibration.test_known import DESK, profile
from tests.support.calibrations import Counts, calibration

IDENTITY = identify(DESK, DESK.llm_judge_tasks[0], "")


def outcomes(passed: int, failed: int, errored: int = 0) -> list[RecordOutcome]:
    counts = ((Outcome.PASSED, passed), (Outcome.FAILED, failed), (Outcome.ERRORED, errored))
    return [
        RecordOutcome(outcome, f"{outcome}{n}") for outcome, count in counts for n in range(count)
    ]


def test_the_corrected_rate() -> None:
    """Rogan and Gladen by hand: (0.76 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.8."""
    found = rate(IDENTITY, outcomes(380, 120, 7), calibration(DESK))

    assert (found.passed, found.judged) == (380, 500)
    assert found.standing == "corrected"
    assert found.rate == pytest.approx(0.8, abs=1e-6)
    assert found.interval is not None
    assert found.interval[0] < 0.76 < 0.8 < found.interval[1]
    assert found.interval[1] - found.interval[0] > found.judge_interval[1] - found.judge_interval[0]
    assert found.calibration is not None
    assert (found.calibration.sensitivity, found.calibration.specificity) == (0.9, 0.8)
    assert (found.calibration.good, found.calibration.bad, found.calibration.labels) == (
        200, 200, 400,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("passed", "failed", "rate_of"),
    [
        pytest.param(60, 40, 0.6 * 0.9 + 0.4 * 0.2, id="the traffic of the labels"),
        pytest.param(60, 41, 6 / 10.1 * 0.9 + 4.1 / 10.1 * 0.2, id="one record more"),
    ],
)
def test_drawn_from_these_records(passed: int, failed: int, rate_of: float) -> None:
    """Of 20 passed ones 18 are good, of 20 failed ones 4.

    Of other records the judge's shares hold: it passes 0.54 / 0.62 of the good ones and 0.06 / 0.38
    of the bad ones.
    """
    label = Label(uid="x", label=True, order="outcome", stratum="passed", size=60)
    other = label.model_copy(update={"stratum": "failed", "size": 40})
    drawn = [(label, "passed", n, n < 18) for n in range(20)]
    drawn += [(other, "failed", n, n < 4) for n in range(20)]
    known = of_items(
        [
            Item(
                key=f"{name}{n}", uid=f"{name}{n}", record_id="", context=None, votes=[good],
                blind_votes=[good], drawn=each,
            )
            for each, name, n, good in drawn
        ],
        [name == "passed" for _, name, _, _ in drawn],
    )  # fmt: skip

    found = rate(IDENTITY, outcomes(passed, failed), known)

    assert found.rate is not None
    if failed == 40:
        assert found.rate == pytest.approx(rate_of)
    else:
        sensitivity, false_passes = 0.54 / 0.62, 0.06 / 0.38
        assert found.rate == pytest.approx((60 / 101 - false_passes) / (sensitivity - false_passes))
    assert known.sensitivity.value == pytest.approx(0.54 / 0.62)
    assert known.specificity.value == pytest.approx(0.32 / 0.38)


def of_items(items: list[Item], passed: list[bool]) -> Calibration:
    evidence = Evidence(
        items=items, outcomes=[[JudgeOutcome(passed=each)] for each in passed], labels=len(items)
    )
    return calibrate(IDENTITY, evidence, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        pytest.param(((5, 1), (2, 2)), "too few labels", id="few"),
        pytest.param(((50, 2), (0, 0)), "none of the 52 labelled items is bad", id="one kind"),
        pytest.param(((5, 50), (50, 5)), "passes bad items as often", id="upside down"),
    ],
)
def test_what_cannot_be_said(counts: Counts, why: str) -> None:
    found = rate(IDENTITY, outcomes(80, 20), calibration(DESK, counts))

    assert (found.standing, found.rate, found.interval) == ("cannot_say", None, None)
    assert why in found.why
    assert found.calibration is not None


def test_without_a_calibration_of_this_judge() -> None:
    """Nothing of another judge's calibration gets into the answer but in what it differs."""
    other = Calibrations([calibration(profile({"model": "small-0"}))]).of(IDENTITY)
    none = Calibrations().of(IDENTITY)

    found = rate(IDENTITY, outcomes(80, 20), other)
    assert (found.standing, found.rate, found.calibration) == ("another_judge", None, None)
    assert found.why == 'model is "small-1", calibrated was "small-0"; calibrate this judge'
    assert rate(IDENTITY, outcomes(80, 20), none).standing == "not_calibrated"


def test_nothing_was_judged() -> None:
    found = rate(IDENTITY, outcomes(0, 0, 3), calibration(DESK))

    assert (found.judge_rate, found.standing) == (None, "cannot_say")
