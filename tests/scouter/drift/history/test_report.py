"""Distances of mixes, by hand and against scipy."""

import math
from typing import Any, cast

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from scouter.drift.history.report import Share, moved

COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 50))


def chi_square(table: list[list[int]]) -> Any:
    return cast(Any, scipy.stats).chi2_contingency(table, correction=False)


def test_a_mix_that_moved_by_hand() -> None:
    """With a half added (0.95, 0.05) and (0.45, 0.55): half of ln(0.95 / 0.45 · 0.55 / 0.05)."""
    found = moved({"a": 9}, {"a": 4, "b": 5})
    assert found is not None
    assert found.psi == pytest.approx(0.5 * math.log(0.95 / 0.45 * 11))
    assert found.shares == (
        Share(name="a", before=1.0, since=4 / 9), Share(name="b", before=0.0, since=5 / 9),
    )  # fmt: skip


def test_the_ends() -> None:
    same, apart = moved({"a": 3, "b": 3}, {"a": 5, "b": 5}), moved({"a": 1}, {"b": 1})
    assert same is not None
    assert apart is not None
    assert (same.psi, same.jensen_shannon) == (0, 0)
    assert apart.jensen_shannon == 1
    assert moved({}, {"a": 1}) is None
    assert moved({"a": 1}, {"a": 0}) is None


@given(COUNTS, COUNTS)
def test_jensen_shannon_is_that_of_scipy(before: dict[str, int], since: dict[str, int]) -> None:
    found = moved(before, since)
    if found is None:
        assert not (sum(before.values()) and sum(since.values()))
        return
    names = sorted({*before, *since})
    distance = jensenshannon(
        [before.get(n, 0) for n in names], [since.get(n, 0) for n in names], base=2
    )
    # scipy takes the root of what rounding made negative.
    expected = 0.0 if math.isnan(distance) else distance**2
    assert found.jensen_shannon == pytest.approx(expected, abs=1e-12)
    assert found.psi >= 0


@given(st.lists(st.tuples(st.integers(10, 90), st.integers(10, 90)), min_size=2, max_size=9))
def test_the_chance_is_that_of_scipy(cells: list[tuple[int, int]]) -> None:
    """No name is rare if each expected count is 5 or more."""
    test = chi_square([[b for b, _ in cells], [s for _, s in cells]])
    before = {str(at): count for at, (count, _) in enumerate(cells)}
    since = {str(at): count for at, (_, count) in enumerate(cells)}
    found = moved(before, since)
    assert found is not None
    if test.expected_freq.min() >= 5:
        assert found.chance == pytest.approx(test.pvalue, rel=1e-9, abs=1e-300)


def test_rare_names_are_tested_as_one() -> None:
    """Ten names of once each make 10 of 100 on one side, and nothing of 100 on the other."""
    before = {"a": 90} | {f"r{n}": 1 for n in range(10)}
    test = chi_square([[90, 10], [100, 0]])
    found = moved(before, {"a": 100})
    assert found is not None
    assert found.chance == pytest.approx(test.pvalue)


@pytest.mark.parametrize(("before", "since"), [({"a": 3}, {"b": 3}), ({"a": 99}, {"a": 99})])
def test_too_few_names_or_calls_have_no_chance(
    before: dict[str, int], since: dict[str, int]
) -> None:
    found = moved(before, since)
    assert found is not None
    assert found.chance is None
