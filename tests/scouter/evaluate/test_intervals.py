"""Wilson's interval against published values and its own definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.intervals import wilson


@pytest.mark.parametrize(
    ("passed", "n", "lower", "upper"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3 (score, no correction)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published(passed: int, n: int, lower: float, upper: float) -> None:
    assert wilson(passed, n) == pytest.approx((lower, upper), abs=5e-5)


def test_nothing_is_known_of_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_bounds_solve_the_score_equation(pair: tuple[int, int]) -> None:
    """At a bound b, |rate - b| equals z standard errors of b; and failures mirror passes."""
    passed, n = pair
    lower, upper = wilson(passed, n)
    z = 1.959963984540054
    assert 0 <= lower <= passed / n <= upper <= 1
    for bound in (lower, upper):
        distance = abs(passed / n - bound)
        assert distance == pytest.approx(z * math.sqrt(bound * (1 - bound) / n), abs=1e-7)
    mirrored = wilson(n - passed, n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((lower, upper), abs=1e-12)


@pytest.mark.parametrize("arguments", [(2, 1), (-1, 1), (0, -1), (1, 2, 0.0), (1, 2, 1.0)])
def test_out_of_range(arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"is no rate|expected a level"):
        wilson(*arguments)
