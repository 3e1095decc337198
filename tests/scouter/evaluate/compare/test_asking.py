"""The rule of a release check: what it asks again, and what it decides."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.compare.asking import EARLY, LOOKS, ONLY_LOOK, Ask, Trial
from scouter.evaluate.compare.rows import ScoreChange
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
    planned: int = 0,
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
        planned=planned,
        left=max(planned - len(rounds[0][0]), 0),
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


def score(p_value: float, fall: float) -> ScoreChange:
    """A score from 0 to 1 of 30 records that fell by so much."""
    return ScoreChange(
        task_id="tone", records=30, conversations=30, baseline_count=30, comparison_count=30,
        baseline_mean=0.9, comparison_mean=0.9 - fall, difference=-fall, interval=None,
        direction=1, p_value=p_value, adjusted_p=p_value,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "p_value", "fall", "release", "wanted", "code"),
    [
        pytest.param(1, 0.004, 0.1, 1, Ask.NOTHING, 1, id="decided-at-the-first-look"),
        pytest.param(1, 0.005, 0.1, 1, Ask.SUITE, 1, id="enough-only-if-nobody-may-ask"),
        pytest.param(1, 0.02, 0.1, 1, Ask.SUITE, 0, id="near-so-ask-again"),
        pytest.param(1, 0.03, 0.1, 1, Ask.NOTHING, 0, id="far"),
        pytest.param(1, 0.02, 0.019, 1, Ask.NOTHING, 0, id="sure-and-below-the-margin"),
        pytest.param(1, 0.001, 0.019, 1, Ask.NOTHING, 0, id="surer-and-below-the-margin"),
        pytest.param(1, 0.2, 0.2, 1, Ask.SUITE, 0, id="large-at-the-first-look"),
        pytest.param(2, 0.2, 0.2, 1, Ask.NOTHING, 0, id="large-and-chance"),
        pytest.param(3, 0.004, 0.1, 1, Ask.NOTHING, 1, id="decided-at-the-last-look"),
        pytest.param(3, 0.005, 0.1, 1, Ask.NOTHING, 0, id="three-looks-share-the-level"),
        pytest.param(3, 0.05, 0.2, 1, Ask.NOTHING, 3, id="large-and-hardly-chance"),
        pytest.param(3, 0.06, 0.2, 1, Ask.NOTHING, 0, id="large-and-chance-after-three-looks"),
        pytest.param(1, 0.003, 0.1, 2, Ask.SUITE, 1, id="second-release"),
        pytest.param(1, 0.004, 0.1, 2, Ask.SUITE, 0, id="second-release-needs-more"),
    ],
)
def test_scores(
    rounds: int, p_value: float, fall: float, release: int, wanted: Ask, code: int
) -> None:
    """Levels: 0.7 % in one look, 0.4 % in each of several; near is four times 0.7 %."""
    found = replace(trial(GOOD, *[GOOD] * rounds, release=release), compared=[score(p_value, fall)])
    assert (found.next, found.exit_code) == (wanted, code)


@pytest.mark.parametrize(
    ("left", "p_value", "fall", "wanted"),
    [
        pytest.param(2, 0.0006, 0.1, Ask.NOTHING, id="decided-early"),
        pytest.param(2, 0.0007, 0.1, Ask.ROUND, id="not-yet"),
        pytest.param(2, 0.69, 0.1, Ask.ROUND, id="a-fall-may-be-found"),
        pytest.param(2, 0.71, 0.1, Ask.NOTHING, id="futile"),
        pytest.param(2, 0.69, 0.01, Ask.NOTHING, id="below-the-margin"),
        pytest.param(0, 0.0026, 0.1, Ask.NOTHING, id="decided-in-the-last-round"),
        pytest.param(0, 0.0027, 0.1, Ask.SUITE, id="near-in-the-last-round"),
    ],
)
def test_scores_in_rounds(left: int, p_value: float, fall: float, wanted: Ask) -> None:
    """A third of 0.4 % in two looks, two thirds in the last; up to 0.1 + 0.9 * 2/3 it goes on."""
    made = replace(trial(GOOD, GOOD), planned=3, left=left, compared=[score(p_value, fall)])
    assert made.next is wanted


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


@pytest.mark.parametrize(
    ("now", "planned", "wanted", "code"),
    [
        pytest.param(["+"] * 10, 3, Ask.NOTHING, 0, id="all-pass-go"),
        pytest.param(["-"] + ["+"] * 9, 3, Ask.ROUND, None, id="p-1/8-is-open"),
        pytest.param(["-"] * 2 + ["+"] * 8, 3, Ask.ROUND, None, id="20-points"),
        pytest.param(["-"] * 3 + ["+"] * 7, 3, Ask.ROUND, None, id="p-1/128-is-above-1/400"),
        pytest.param(["-"] * 4 + ["+"] * 6, 3, Ask.NOTHING, 1, id="p-1/512-decides"),
        pytest.param(["-"] * 4 + ["+"] * 6, 6, Ask.ROUND, None, id="more-looks-lower-levels"),
        pytest.param(["--"] + ["++"] * 9, 3, Ask.ROUND, None, id="p-1/20-is-open"),
        pytest.param(["-+"] + ["++"] * 9, 3, Ask.ROUND, None, id="p-1/5-is-open"),
        pytest.param(["-++"] + ["+++"] * 9, 3, Ask.NOTHING, 0, id="all-are-made"),
        pytest.param(["---"] + ["+++"] * 9, 3, Ask.NOTHING, 1, id="broken-by-the-last"),
    ],
)
def test_rounds(now: list[str], planned: int, wanted: Ask, code: int | None) -> None:
    """Against 3 of 3: one failure in a round of one has a chance of 1/4, and half of it counts."""
    found = trial(["+++"] * 10, now, planned=planned)
    assert found.next is wanted
    assert code is None or found.exit_code == code


def test_a_round_is_futile_where_nothing_fell() -> None:
    """Four of 20 failed in 2 of 3 before, and pass now: only the one that fails is repeated.

    Each of the four passes with 1/2 if nothing changed, and the fifth with 3/4. All five pass with
    3/64, and four of them, as observed, with 13/64: p is 1 - 3/64 - 13/128.
    """
    before, now = ["+--"] * 4 + ["+++"] * 16, ["+"] * 4 + ["-"] + ["+"] * 15
    found = trial(before, now, planned=3)
    assert found.p_value == pytest.approx(1 - 3 / 64 - 13 / 128)
    assert found.next is Ask.SCENARIOS
    passed = trial(before, now, single={"s4": "+"}, planned=3)
    assert (passed.next, passed.exit_code) == (Ask.NOTHING, 0)


@pytest.mark.parametrize("planned", [2, 3, 5, 20])
@pytest.mark.parametrize("release", [1, 4])
def test_levels_of_all_looks(planned: int, release: int) -> None:
    """All looks together have the level that they have without rounds."""
    made = [trial(["+"], ["+" * at], planned=planned, release=release) for at in range(1, planned)]
    first = trial(["+"], ["+" * planned], planned=planned, release=release)
    early = sum(found.level for found in made)
    assert early == pytest.approx(EARLY / release)
    assert early + first.level == pytest.approx(ONLY_LOOK / release)


@pytest.mark.parametrize(("failed", "spent"), [(2, False), (3, True)])
def test_without_asking_again_a_scenario_gets_its_planned_attempts(
    failed: int, spent: bool
) -> None:
    found = trial(GOOD, ["-", *["+"] * 9], single={"s0": "-" * (failed - 1)}, confirm=0, planned=3)
    assert found.broken.is_spent is spent


@given(
    st.lists(st.text("+-", min_size=3, max_size=3), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
    st.integers(1, 2),
)
def test_no_early_go_over_a_visible_fall(before: list[str], luck: random.Random, made: int) -> None:
    """Kind: a run that stops early lets go what the whole run would look into."""
    now = ["".join(luck.choice("+-") for _ in range(made)) for _ in before]
    found = trial(before, now, planned=3)
    old = [sign == "+" for text in before for sign in text]
    new = [sign == "+" for text in now for sign in text]
    if sum(old) / len(old) - sum(new) / len(new) >= 0.2:
        assert found.next is Ask.ROUND or found.exit_code == 1


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
