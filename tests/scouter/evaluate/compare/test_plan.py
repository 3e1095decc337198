"""What a check would see: its figures hold in releases that are drawn apart from its own."""

import math
from collections.abc import Sequence
from random import Random

import pytest

from scouter.evaluate.compare.asking import Trial, carried_out
from scouter.evaluate.compare.plan import Design, Outlook, Plan, plan_of
from scouter.evaluate.statistics.failing import Attempts
from tests.scouter.evaluate.compare.test_decisions import attempts
from tests.scouter.evaluate.statistics.test_failing import by_brute_force

SUITE: Sequence[Sequence[str]] = [["P"] * 3] * 16 + [["P", "F", "P"]] * 2 + [["F", "P", "F"]] * 2
NAMES = [f"s{at}" for at in range(len(SUITE))]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """20 scenarios of which four are flaky, and a baseline of three attempts each."""
    return plan_of(attempts(SUITE, None), NAMES, 1)


def outlook(plan: Plan, repeats: int, runs: int | None) -> Outlook:
    [found] = [row for row in plan.outlooks if row.design == Design(repeats=repeats, runs=runs)]
    return found


def rate(passed: int, made: int) -> float:
    """Chance that the next attempt at a scenario passes, by brute force."""
    old = [*[(3, 3)] * 16, *[(2, 3)] * 2, *[(1, 3)] * 2]
    return 1 - by_brute_force(old, [(0, 0)] * 20, old.index((passed, made)), 1)


@pytest.mark.parametrize(("repeats", "runs"), [(1, None), (1, 3), (3, 1), (5, 3)])
def test_the_fall_is_found_in_four_of_five_releases(
    plan: Plan, repeats: int, runs: int | None
) -> None:
    """In releases of another seed, with rates worked out apart; the interval is 6 points wide."""
    fall = outlook(plan, repeats, runs).fall
    assert fall is not None
    chances = [*[rate(3, 3)] * 16, *[rate(2, 3)] * 2, *[rate(1, 3)] * 2]
    now = dict(zip(NAMES, (max(chance - fall, 0) for chance in chances), strict=True))
    luck, found = Random(7), 0
    stored = dict(zip(NAMES, ([int(sign == "P") for sign in row] for row in SUITE), strict=True))

    def drawn(chance: float, times: int) -> list[int]:
        return [int(luck.random() < chance) for _ in range(times)]

    for _ in range(200):
        before = stored if runs is None else {
            name: drawn(chance, repeats * runs) for name, chance in zip(NAMES, chances, strict=True)
        }  # fmt: skip
        trial = Trial(
            baseline=before,
            usual={name: Attempts(sum(row), len(row)) for name, row in before.items()},
            suite=[{name: drawn(chance, repeats) for name, chance in now.items()}],
            single={},
        )
        found += carried_out(trial, lambda name, times: drawn(now[name], times)).exit_code == 1
    assert 0.68 <= found / 200 <= 0.92


def test_more_attempts_see_more(plan: Plan) -> None:
    falls = [outlook(plan, *design).fall or 1 for design in ((1, 1), (3, 1), (5, 3))]
    assert falls == sorted(falls, reverse=True)
    assert outlook(plan, 1, 3).fall == pytest.approx(outlook(plan, 1, None).fall, abs=0.07)
    for row in plan.outlooks:
        assert row.fifth_broken >= 0.9
        assert row.calls >= 20 * row.design.repeats
        assert (row.calls_in_rounds is None) is (row.design.repeats == 1)
        assert row.calls_in_rounds is None or row.calls_in_rounds < row.calls


def test_the_same_plan_again(plan: Plan) -> None:
    assert plan_of(attempts(SUITE, None), NAMES, 1) == plan


def test_designs() -> None:
    """Those at hand, and the usual ones; each is named before it is simulated."""
    started: list[Design] = []
    found = plan_of(attempts([["P"]] * 4, None), ["s0", "s1", "s2", "s3"], 2, started.append)
    assert [row.design for row in found.outlooks] == started
    assert [(each.repeats, each.runs) for each in started] == [
        (2, None), (1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 3), (5, 1), (5, 3),
    ]  # fmt: skip


def test_too_few_scenarios_see_nothing() -> None:
    """One scenario that passed once may fail for ever without being stopped by one attempt."""
    found = plan_of(attempts([["P"]], None), ["s0"], 1)
    assert outlook(found, 1, 1).fall is None
    assert not outlook(found, 1, 1).suffices


def test_repeats_pay_by_the_standard_deviation(plan: Plan) -> None:
    """Neyman's allocation: in proportion to the root of p (1 - p)."""
    spread = {
        name: math.sqrt(p * (1 - p)) for name, p in (("two", rate(2, 3)), ("one", rate(1, 3)))
    }
    whole = 2 * sum(spread.values())
    assert set(plan.noisy) == {"s16", "s17", "s18", "s19"}
    assert plan.noisy["s16"] == pytest.approx(spread["two"] / whole)
    assert plan.noisy["s19"] == pytest.approx(spread["one"] / whole)
    assert list(plan.noisy.values()) == sorted(plan.noisy.values(), reverse=True)


def test_scenarios_that_tell_nothing() -> None:
    rows = [["P", "P"], ["P", "F"], ["F", "F"], ["F"], ["E", "E"], ["E", "F"]]
    found = plan_of(attempts(rows, None), [f"s{at}" for at in range(7)], 1)
    assert found.silent == {
        "s2": "failed in all 2 attempts, so it cannot fall",
        "s3": "failed in its only attempt, so it cannot fall",
        "s4": "errored in all 2 attempts, so it cannot fall",
        "s5": "failed in all 2 attempts, so it cannot fall",
        "s6": "not in the baseline",
    }


def test_a_scenario_that_the_file_no_longer_has_counts_for_nothing() -> None:
    found = plan_of(attempts([["P"], ["P"], ["F"]], None), ["s0", "s1"], 1)
    assert (found.scenarios, found.made, found.passed, found.silent) == (2, 2, 2, {})


def test_nothing_in_common() -> None:
    found = plan_of(attempts([["P"]], None), ["other"], 1)
    assert (found.outlooks, found.silent) == ([], {"other": "not in the baseline"})


def test_the_cheapest_design_that_suffices(plan: Plan) -> None:
    best = plan.recommended
    assert best.suffices
    for row in plan.outlooks:
        assert not row.suffices or row.design.repeats >= best.design.repeats
