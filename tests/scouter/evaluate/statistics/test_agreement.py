"""Agreement: published tables, other programs' printouts, and the jackknife."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.agreement import Weights, cohen_kappa, fleiss_kappa

SAS = ((0, 4, 1), (0, 8, 0), (0, 1, 5))
"""The example of PROC FREQ's AGREE option whose printout the tests of statsmodels hold, too."""

ANXIETY = (
    (3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3),
    (3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4),
    (2, 1, 4, 4, 3, 2, 1, 6, 1, 1, 1, 2, 3, 3, 1, 1, 3, 3, 2, 2),
)
"""Three raters' answers in the R package irr (data set `anxiety`)."""

FLEISS = """
    444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 144444 124444 222333
    144444 224445 333335 111455 111112 224444 133555 555555 244444 224555 114444 144445 222224
    111155 224444 133333 555555
"""
"""Six diagnoses for each of 30 patients, Fleiss 1971, table 1 (data set `diagnoses` of irr)."""


def cross(first: Sequence[int], second: Sequence[int]) -> list[list[int]]:
    """Count pairs by category, leaving categories out that nobody used, as irr does."""
    used = sorted({*first, *second})
    pairs = list(zip(first, second, strict=True))
    return [[pairs.count((a, b)) for b in used] for a in used]


@pytest.mark.parametrize(
    ("weights", "value", "error"), [("none", 0.4842, 0.1380), ("linear", 0.4701, 0.1457)]
)
def test_cohen_as_sas_prints_it(weights: Weights, value: float, error: float) -> None:
    found = cohen_kappa(SAS, weights)

    assert found.value == pytest.approx(value, abs=5e-5)
    assert found.standard_error == pytest.approx(error, abs=5e-5)


@pytest.mark.parametrize(
    ("weights", "value"), [("none", -0.006289308), ("linear", 0.1459075), ("quadratic", 0.2520325)]
)
def test_cohen_as_irr_prints_it(weights: Weights, value: float) -> None:
    found = cohen_kappa(cross(ANXIETY[1], ANXIETY[2]), weights)

    assert found.value == pytest.approx(value, abs=5e-8)


def test_cohen_by_hand() -> None:
    """Agree on 35 of 50; by chance on half of them: (0.7 - 0.5) / 0.5."""
    assert cohen_kappa([[20, 5], [10, 15]]).value == pytest.approx(0.4)


def test_perfect_agreement_is_not_certain() -> None:
    """The plain interval would be (1, 1)."""
    few, many = cohen_kappa([[10, 0], [0, 10]]), cohen_kappa([[500, 0], [0, 500]])

    assert (few.value, few.standard_error) == (1.0, 0.0)
    assert few.interval[1] == many.interval[1] == 1.0
    assert 0.4 < few.interval[0] < 0.9 < many.interval[0] < 1.0


@pytest.mark.parametrize("table", [[], [[0, 0], [0, 0]], [[7, 0], [0, 0]]])
def test_cohen_without_anything_to_agree_on(table: list[list[int]]) -> None:
    found = cohen_kappa(table)

    assert (found.value, found.interval) == (None, (-1.0, 1.0))


@pytest.mark.parametrize("table", [[[1, 2]], [[1, -1], [0, 1]]])
def test_cohen_refuses_what_is_no_table(table: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="square"):
        cohen_kappa(table)


@given(st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=3, max_size=3))
def test_cohen_is_the_same_from_both_sides(table: list[list[int]]) -> None:
    """Neither rater is the first; and nothing changes with twice the items but the error."""
    there, back = cohen_kappa(table), cohen_kappa(list(zip(*table, strict=True)))
    twice = cohen_kappa([[2 * count for count in row] for row in table])

    assert there.value == pytest.approx(back.value)
    assert there.interval == pytest.approx(back.interval)
    if there.value is not None and there.standard_error is not None:
        assert twice.value == pytest.approx(there.value)
        assert twice.standard_error == pytest.approx(there.standard_error / math.sqrt(2))
        assert there.interval[0] <= there.value <= there.interval[1]


def test_fleiss_as_published() -> None:
    """0.430 in the paper; more digits from irr's kappam.fleiss."""
    found = fleiss_kappa([[row.count(each) for each in "12345"] for row in FLEISS.split()])

    assert found.value == pytest.approx(0.4302445, abs=5e-8)


def test_fleiss_error_is_near_the_jackknife() -> None:
    """Leave out one patient at a time, and see how far kappa moves."""
    counts = [[row.count(each) for each in "12345"] for row in FLEISS.split()]
    others = [fleiss_kappa(counts[:at] + counts[at + 1 :]).value or 0.0 for at in range(30)]
    mean = sum(others) / 30
    jackknife = math.sqrt(29 / 30 * sum((each - mean) ** 2 for each in others))

    assert fleiss_kappa(counts).standard_error == pytest.approx(jackknife, rel=0.06)


def test_fleiss_of_two_answers_by_hand() -> None:
    """Scott's pi: of four items two agree; half of all answers are yes, so chance agrees half."""
    assert fleiss_kappa([[2, 0], [0, 2], [1, 1], [1, 1]]).value == pytest.approx(0.0)


def test_fleiss_leaves_single_answers_out() -> None:
    counts = [[3, 0], [0, 3], [2, 1], [1, 2]]

    assert fleiss_kappa([*counts, [1, 0], [0, 0]]) == fleiss_kappa(counts)
    assert fleiss_kappa([[1, 0], [0, 1]]).value is None
    assert fleiss_kappa([[3, 0], [3, 0]]).value is None


def test_fleiss_of_perfect_repeats_is_not_certain() -> None:
    found = fleiss_kappa([[5, 0], [0, 5]] * 5)

    assert found.value == pytest.approx(1.0)
    assert 0.4 < found.interval[0] < 0.95


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_levels(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        cohen_kappa([[1, 0], [0, 1]], confidence=confidence)
    with pytest.raises(ValueError, match="confidence"):
        fleiss_kappa([[2, 0]], confidence=confidence)
