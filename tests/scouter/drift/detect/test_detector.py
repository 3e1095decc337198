"""The detector against other implementations, by hand, by brute force and on healthy streams."""

import itertools
import json
import math
import random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.detect.alternatives import falls
from scouter.drift.detect.detector import Design, Detector
from scouter.drift.detect.spending import Start, spend
from tests.support.vectors import load_vectors


def vectors() -> dict[str, Any]:
    return load_vectors("drift/vectors_eprocess.json")


def logs(design: Design, outcomes: list[float]) -> list[float]:
    detector = Detector(design)
    found: list[float] = []
    for outcome in outcomes:
        detector.update(outcome)
        found.append(detector.log_evidence)
    return found


@pytest.mark.parametrize(
    ("name", "start"),
    [("st_mixture_log", Start.FIRST), ("esr_log", Start.ALWAYS), ("weighted_start", Start.SPENT)],
)
def test_passes_and_fails_as_others_compute_them(name: str, start: Start) -> None:
    case = vectors()["bernoulli"]
    rates, weights = tuple(case["alternatives"]), tuple(case["weights"])
    design = Design(healthy=case["p0"], start=start, rates=rates, weights=weights)
    expected = case[name]["log"] if name == "weighted_start" else case[name]
    assert logs(design, case["x"]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "start"), [("product_mixture_log", Start.FIRST), ("esr_log", Start.ALWAYS)]
)
def test_scores_as_others_compute_them(name: str, start: Start) -> None:
    case = vectors()["bounded"]
    healthy = case["m0"]
    rates = tuple(healthy - bet * healthy * (1 - healthy) for bet in case["lambdas"])
    weights = tuple(case["weights"])
    design = Design(healthy=healthy, start=start, rates=rates, weights=weights)
    assert design.bets == pytest.approx(case["lambdas"])
    assert logs(design, case["y"]) == pytest.approx(case[name], abs=1e-9)


def test_the_whole_budget_is_spent_and_no_more() -> None:
    spent = math.fsum(spend(at) for at in range(1, 200_001))
    rest = 0.5 / (2.1097428012 * math.log(200_002))  # the integral of the terms behind
    assert spent < 1
    assert spent + rest == pytest.approx(1, abs=1e-6)


def test_a_release_that_is_bad_from_its_start_by_hand() -> None:
    # One alternative of 1/2 against 3/4: a fail counts (1/2)/(1/4) = 2, the first one with the
    # weight w of the first start; each later one adds its own start.
    design = Design(healthy=0.75, rates=(0.5,), alpha=0.01)
    detector = Detector(design)
    detector.update(0)
    assert detector.evidence == pytest.approx(2 * spend(1))
    detector.update(0)
    assert detector.evidence == pytest.approx(2 * (2 * spend(1) + spend(2)))
    detector.update(1)
    assert detector.evidence == pytest.approx((4 * spend(1) + 2 * spend(2) + spend(3)) * 2 / 3)


@given(st.lists(st.sampled_from([0.0, 1.0, 1.0, 1.0, 0.5]), max_size=60))
def test_the_change_point_is_where_the_best_product_starts(outcomes: list[float]) -> None:
    design = Design(healthy=0.8, rates=(0.5,))
    detector = Detector(design)
    for outcome in outcomes:
        detector.update(outcome)
    products = {
        start: math.prod(design.factors(outcome)[0] for outcome in outcomes[start:])
        for start in range(len(outcomes) + 1)
    }
    found = products[detector.changed_after]
    assert found == pytest.approx(max(1.0, max(products.values())), rel=1e-9)


def test_a_late_fall_is_dated() -> None:
    detector = Detector(Design(healthy=0.9))
    for outcome in itertools.chain([1.0] * 9 * 100, [1.0, 0.0] * 100):
        if detector.update(outcome):
            break
    assert detector.alarmed_at is not None
    assert 900 <= detector.changed_after <= 902
    assert detector.alarmed_at < 960


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 40))
def test_a_stored_state_goes_on_exactly(outcomes: list[float], cut: int) -> None:
    design = Design(healthy=0.7)
    whole, first = Detector(design), Detector(design)
    for outcome in outcomes:
        whole.update(outcome)
    for outcome in outcomes[:cut]:
        first.update(outcome)
    second = Detector.from_json(design, json.loads(json.dumps(first.to_json())))
    for outcome in outcomes[cut:]:
        second.update(outcome)
    assert second.to_json() == whole.to_json()
    assert second.evidence == whole.evidence


@given(st.lists(st.sampled_from([0.0, 1.0, 1.0, 1.0, 0.5]), max_size=40), st.data())
def test_to_look_changes_nothing(outcomes: list[float], data: st.DataObject) -> None:
    """Not even the last bit: what is stored after a crash does not depend on who looked before."""
    design = Design(healthy=0.8)
    seen, unseen = Detector(design), Detector(design)
    for outcome in outcomes:
        seen.update(outcome)
        unseen.update(outcome)
        if data.draw(st.booleans()):
            assert seen.evidence >= 0
            assert seen.changed_after <= seen.count
    assert seen.changed_after == unseen.changed_after
    assert seen.to_json() == unseen.to_json()


@pytest.mark.parametrize("healthy", [0.999, 0.9, 0.5, 0.05, 0.001])
def test_every_healthy_mean_has_falls_below_it(healthy: float) -> None:
    rates = falls(healthy)
    assert len(rates) == 8
    assert list(rates) == sorted(rates, reverse=True)
    assert all(0 < rate < healthy for rate in rates)
    assert min(Design(healthy=healthy).on_pass) > 0


def test_no_run_of_passes_ever_alarms() -> None:
    detector = Detector(Design(healthy=0.999, alpha=0.5))
    assert not any(detector.update(1) for _ in range(5_000))
    assert detector.evidence < 1


def test_evidence_stays_a_number_however_bad_the_agent_is() -> None:
    detector = Detector(Design(healthy=0.99))
    for _ in range(5_000):
        detector.update(0)
    assert math.isfinite(detector.log_evidence)
    assert math.isfinite(sum(detector.to_json()["peaks"]))


def test_healthy_streams_seldom_alarm() -> None:
    # 400 streams at alpha = 5 %: more than 32 alarms would have a chance below 0.5 %.
    rng = random.Random(5)
    design = Design(healthy=0.9, alpha=0.05)
    alarms = 0
    for _ in range(400):
        detector = Detector(design)
        alarms += any(detector.update(float(rng.random() < 0.9)) for _ in range(500))
    assert alarms <= 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"healthy": 1.0}, "leaves no fall"),
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"rates": (0.95,)}, "not in"),
        ({"rates": (0.5, 0.6), "weights": (0.5, 0.6)}, "shares of 1"),
    ],
)
def test_bad_designs_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Design(**cast(Any, {"healthy": 0.9, **changes}))


@pytest.mark.parametrize("outcome", [-0.1, 1.5, math.nan])
def test_bad_outcomes_are_refused(outcome: float) -> None:
    detector = Detector(Design(healthy=0.9))
    with pytest.raises(ValueError, match="no outcome"):
        detector.update(outcome)
    assert detector.count == 0


def test_a_state_of_another_design_is_refused() -> None:
    state = Detector(Design(healthy=0.9)).to_json()
    with pytest.raises(ValueError, match="components"):
        Detector.from_json(Design(healthy=0.9, rates=(0.5,)), state)
