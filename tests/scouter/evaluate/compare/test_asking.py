"""The rule of a release check: what it asks again, and what it decides."""

import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.compare.asking import LOOKS, ONLY_LOOK, Ask, Trial
from scouter.evaluate.statistics.failing import Attempts
from tests.scouter.evaluate.statistics.test_failing import by_brute_force


def rows(texts: Sequence[str]) -> dict[str, list[int]]:
    """One text per scenario: `+` passed, `-` did not."""
    return {f"s{at}": [int(sign == "+") for sign in text] for at, text in enumerate(texts)}


def trial(
    before: Sequence[str],
    *rounds: Sequence[str],
    single: Mapping[str, str] | None = None,
    release: int = 1,
    confirm: int | None = None,
) -> Trial:
    baseline = rows(before)
    alone = {name: [int(sign == "+") for sign in text] for name, text in (single or {}).items()}
    return Trial(
        baseline=baseline,
        usual={name: Attempts(sum(row), len(row)) for name, row in baseline.items()},
        suite=[rows(each) for each in rounds],
        single=alone,
        release=release,
        confirm=confirm,
    )


GOOD = ["+"] * 10


@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        pytest.param([GOOD], Ask.NOTHING, id="nothing-fell"),
        pytest.param([["-", *["+"] * 9]], Ask.SCENARIOS, id="one-of-ten"),
        pytest.param([["-", "-", *["+"] * 8]], Ask.SUITE, id="20-points-at-the-first-look"),
        pytest.param([["-"] * 4 + ["+"] * 6], Ask.SUITE, id="p-1/32-is-above-the-first-level"),
        pytest.param([["-"] * 6 + ["+"] * 4], Ask.NOTHING, id="p-1/128-decides"),
        pytest.param([["-", "-", *["+"] * 8], GOOD], Ask.NOTHING, id="recovered"),
        pytest.param(
            [["-", "-", *["+"] * 8], ["-", *["+"] * 9]], Ask.SUITE, id="15-points-of-20-attempts"
        ),
        pytest.param([["-", *["+"] * 4], GOOD[:5], GOOD[:5]], Ask.NOTHING, id="three-rounds"),
    ],
)
def test_next(rounds: list[list[str]], wanted: Ask) -> None:
    assert trial(GOOD[: len(rounds[0])], *rounds).next is wanted


def test_one_failure_needs_seven_more() -> None:
    """By brute force: eight failures in a row have a chance of 0.1 % or less in ten scenarios."""
    first = [(0, 1), *[(1, 1)] * 9]
    by_hand = [by_brute_force([(1, 1)] * 10, first, 0, failures) for failures in range(12)]
    needed = next(at for at, chance in enumerate(by_hand) if chance * 10 <= 0.01)
    assert needed == 8
    for further in range(10):
        found = trial(GOOD, ["-", *["+"] * 9], single={"s0": "-" * further})
        assert found.broken.chances["s0"] == pytest.approx(by_hand[1 + further])
        assert bool(found.broken.names) is (1 + further >= needed)
        assert (found.next is Ask.NOTHING) is (1 + further >= needed)


def test_a_pass_ends_the_asking() -> None:
    found = trial(GOOD, ["-", *["+"] * 9], single={"s0": "---+"})
    assert (found.next, found.broken.names, found.exit_code) == (Ask.NOTHING, (), 0)


def test_several_scenarios_are_broken_together() -> None:
    """Three of thirty fail three times: none is broken alone, and three at a time is too much."""
    before, now = ["+"] * 30, ["-"] * 3 + ["+"] * 27
    found = trial(before, now, single=dict.fromkeys(("s0", "s1", "s2"), "--"))
    first = [(0, 1)] * 3 + [(1, 1)] * 27
    alone = by_brute_force([(1, 1)] * 30, first, 0, 3)
    passing = by_brute_force([(1, 1)] * 30, first, 29, 3)
    assert alone * 30 > 0.01
    mean = 3 * alone + 27 * passing
    together = 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(3))
    assert together <= 0.003
    assert set(found.broken.names) == {"s0", "s1", "s2"}
    assert found.exit_code == 1


def test_scenarios_that_failed_before_are_not_watched() -> None:
    found = trial(["--+", "++-", *["+++"] * 18], ["---", "---", *["+++"] * 18])
    assert "s0" not in found.open
    assert "s1" in found.open


@pytest.mark.parametrize(("confirm", "spent"), [(3, True), (4, False), (None, False)])
def test_a_bound_for_further_attempts(confirm: int | None, spent: bool) -> None:
    found = trial(GOOD, ["-", *["+"] * 9], single={"s0": "---"}, confirm=confirm)
    assert found.broken.is_spent is spent
    assert found.next is (Ask.NOTHING if spent else Ask.SCENARIOS)


@pytest.mark.parametrize(
    ("scenarios", "tries", "spent", "is_spent"),
    [
        pytest.param(10, 1, 39, False, id="the-40th-is-made"),
        pytest.param(10, 1, 40, True, id="40-at-least"),
        pytest.param(30, 2, 119, False, id="twice-the-run"),
        pytest.param(30, 2, 120, True, id="no-more-than-twice-the-run"),
    ],
)
def test_the_budget_of_single_attempts(
    scenarios: int, tries: int, spent: int, is_spent: bool
) -> None:
    """At most 40, or twice the attempts of the run."""
    good = ["+" * tries] * scenarios
    found = trial(good, ["-" * tries, *good[1:]], single={"s0": "-" * spent})
    assert found.broken.is_spent is is_spent


def test_levels() -> None:
    """One look has the sum of all levels; each further release against a baseline has less."""
    assert pytest.approx(0.035) == ONLY_LOOK == sum(LOOKS)
    once = trial(GOOD, GOOD)
    assert once.level == pytest.approx(0.035)
    assert trial(GOOD, GOOD, GOOD).level == pytest.approx(0.010)
    assert trial(GOOD, GOOD, release=4).level == pytest.approx(0.035 / 4)


def test_mid_p_of_the_suite() -> None:
    """Five of ten fell and none rose: (1/32) / 2, by McNemar's exact test with half of the last."""
    found = trial(GOOD, ["-"] * 5 + ["+"] * 5)
    assert found.p_value == pytest.approx(1 / 64)
    assert (found.has_fallen, found.next) == (True, Ask.SUITE), "above 1.5 %, below 3.5 %"


@given(
    st.lists(st.text("+-", min_size=1, max_size=3), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
)
def test_no_go_over_a_visible_fall(before: list[str], luck: random.Random, rounds: int) -> None:
    """Kind: 0 over a fall of 20 points or more that is left in all attempts."""
    made = [["".join(luck.choice("+-") for _ in text) for text in before] for _ in range(rounds)]
    found = trial(before, *made)
    old = [sign == "+" for text in before for sign in text]
    new = [sign == "+" for each in made for text in each for sign in text]
    if sum(old) / len(old) - sum(new) / len(new) >= 0.2:
        assert found.exit_code != 0


@given(st.lists(st.text("+-", min_size=2, max_size=2), min_size=2, max_size=8), st.integers(1, 30))
def test_a_later_release_is_stopped_less_easily(before: list[str], release: int) -> None:
    """What does not stop the first release against a baseline stops no later one."""
    now = ["--" if text == "++" else text for text in before]
    codes = [trial(before, now, release=each).has_fallen for each in (1, release)]
    assert all(early >= late for early, late in pairwise(codes))
