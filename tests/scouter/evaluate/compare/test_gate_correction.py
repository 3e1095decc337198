"""Gates on rates of judges whose calibration is known, against rates worked out by hand."""

import json

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import GateCheck, check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.intervals import wilson
from scouter.evaluate.results.judge_rate import JudgeKnown, JudgeRate
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CorrectedRate,
    DrawnLabels,
    JudgeCounts,
    corrected_rate,
    judge_error,
)
from tests.support.gate_runs import replay

LABELS = Confusion(good_passed=180, good_failed=20, bad_passed=40, bad_failed=160)
"""Sensitivity 0.9, specificity 0.8."""


def known(passed: int, judged: int, labels: Confusion = LABELS, alias: str = "desk") -> JudgeRate:
    drawn, answers = DrawnLabels(counts=labels), JudgeCounts(passed, judged)
    found, error = corrected_rate(drawn, answers), judge_error(drawn, answers)
    assert isinstance(found, CorrectedRate)
    return JudgeRate(
        alias=alias, task_id="polite", passed=passed, judged=judged, standing="corrected",
        rate=found.estimate, interval=found.interval,
        error=error.interval if isinstance(error, CorrectedRate) else None,
        calibration=JudgeKnown(
            digest="d", created_at="", sensitivity=labels.sensitivity, sensitivity_interval=(0, 1),
            specificity=labels.specificity, specificity_interval=(0, 1), kappa=None,
            good=labels.good, bad=labels.bad,
        ),
    )  # fmt: skip


def run(
    judge: JudgeRate, letters: str = "P" * 20 + "F" * 20, plain: str = ""
) -> ScenarioEvalResults:
    """One record for each letter of the judge's task, and for each of a plain one."""
    rows = [("s", 0, {"polite": letter}) for letter in letters]
    rows += [("s", 0, {"plain": letter}) for letter in plain]
    return replay({"s": [{}]}, {"desk": rows}, judge_rates=[judge])


def check(results: ScenarioEvalResults, **gates: object) -> GateCheck:
    (found,) = check_gates(results, Gates.model_validate(gates))
    return found


@pytest.mark.parametrize(
    "gates",
    [
        '{"min_pass_rate": RATE}',
        '{"aliases": {"desk": RATE}}',
        '{"aliases": {"desk": {"tasks": {"polite": RATE}}}}',
        '{"tasks": {"polite": RATE}}',
    ],
)
def test_the_corrected_rate_is_compared(gates: str) -> None:
    """(0.5 + 0.8 - 1) / (0.9 + 0.8 - 1) = 3/7 = 42.9 %: below 0.43, though the judge says 50 %."""
    results = run(known(20, 40))
    for rate, met in (("0.428", True), ("0.43", False), ("0.5", False)):
        found = check(results, **json.loads(gates.replace("RATE", rate)))
        assert (found.met, found.passed, found.total) == (met, 20, 40)
        assert found.found == pytest.approx(3 / 7)
        assert found.counts_text == "corrected from 20/40"


def test_the_reason_names_both_rates_and_the_judges_error() -> None:
    error = known(20, 40).error
    assert error is not None
    assert error == pytest.approx((0.37, 0.48), abs=0.01)  # a grid over the likelihood agrees
    low, high = (round(100 * bound) for bound in error)
    found = check(run(known(20, 40)), tasks={"polite": 0.45})
    assert found.reason.startswith(
        "task 'polite': 42.9% (corrected for the judge's errors; the judge says 20 of 40, 95 %"
    )
    assert found.reason.endswith(
        f"wanted at least 45.0%; the judge's error alone leaves open whether that is reached "
        f"({low}% to {high}%): label more"
    )
    assert "leaves open" in check(run(known(20, 40)), tasks={"polite": 0.4}).reason


@pytest.mark.parametrize("wanted", [0.3, 0.6])
def test_a_gate_beyond_the_judges_error_is_not_open(wanted: float) -> None:
    """The interval of all errors, of 40 answers, is wider and holds both gates."""
    found = check(run(known(20, 40)), tasks={"polite": wanted})
    interval = known(20, 40).interval
    assert interval is not None
    assert interval[0] < 0.3 < 0.6 < interval[1]
    assert "leaves open" not in found.reason


def test_checks_without_a_judge_count_as_they_are() -> None:
    """60 plain checks, 45 passed: (45 + 3/7 * 40) / 100; of the ends the same."""
    found = check(run(known(20, 40), plain="P" * 45 + "F" * 15), min_pass_rate=0.6)
    assert found.found == pytest.approx((45 + 40 * 3 / 7) / 100)
    assert (found.passed, found.total) == (65, 100)
    interval = known(20, 40).interval
    assert interval is not None
    ends = [(end * 60 + of_judge * 40) / 100
            for end, of_judge in zip(wilson(45, 60), interval, strict=True)]  # fmt: skip
    assert f"95 % interval {ends[0]:.0%} to {ends[1]:.0%})" in found.reason


def test_an_errored_outcome_is_no_pass() -> None:
    """10 records more that the judge gave no outcome on: 3/7 of 40 in 50."""
    found = check(run(known(20, 40), "P" * 20 + "F" * 20 + "E" * 10), tasks={"polite": 0.3})
    assert found.found == pytest.approx(40 * 3 / 7 / 50)


def test_the_judge_of_another_alias_is_not_applied() -> None:
    found = check(run(known(20, 40, alias="other")), tasks={"polite": 0.5})
    assert (found.found, found.met) == (0.5, True)
    assert found.counts_text == "20/40"


@pytest.mark.parametrize(
    ("standing", "why", "said"),
    [
        ("cannot_say", "too few labels", "as its judge says (cannot say: too few labels)"),
        ("another_judge", "m", "as its judge says (calibration of another judge: m)"),
        ("not_calibrated", "", ""),
    ],
)  # fmt: skip
def test_without_a_corrected_rate_the_judges_own_is_compared(
    standing: str, why: str, said: str
) -> None:
    judge = known(20, 40).model_copy(
        update={"standing": standing, "why": why, "rate": None, "interval": None}
    )
    found = check(run(judge), tasks={"polite": 0.5})
    assert (found.found, found.met) == (0.5, True)
    assert found.reason == (
        "task 'polite': 50.0% (20 of 40, 95 % interval 35% to 65%), wanted 50.0%"
        + (f"; task 'polite' counts {said}" if said else "")
    )


def test_the_judges_error_is_not_reported_where_endless_answers_would_contradict_the_labels() -> (
    None
):
    """2 of 40 passed beside 40 of 200 bad items: chance for 40, impossible for endless ones."""
    found = check(run(known(2, 40), "PP" + "F" * 38), tasks={"polite": 0.01})
    assert found.found == 0
    assert "leaves open" not in found.reason
