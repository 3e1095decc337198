"""A text equals a number where both say the same number, exactly; Python's Decimal decides."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.table import compile_comparison

BIG = 9007199254740993  # 2**53 + 1, which no float holds


def equal(text: str, number: float) -> bool:
    """Whichever of both is expected."""
    there = compile_comparison(Op.Equals, text).check(number)
    back = compile_comparison(Op.Equals, number).check(text)
    assert there is back is not compile_comparison(Op.NotEqual, text).check(number)
    assert back is not compile_comparison(Op.NotEqual, number).check(text)
    return there


@pytest.mark.parametrize(
    ("text", "number", "is_equal"),
    [
        ("9007199254740993.0", BIG, True),
        ("9007199254740993.000", BIG, True),
        ("9007199254740993", BIG, True),
        ("9007199254740992.0", BIG, False),
        ("9007199254740993.0", BIG - 1, False),
        ("9007199254740993.5", BIG, False),
        ("-9007199254740993.0", -BIG, True),
        ("9.007199254740993e15", BIG, True),
        ("900719925474099300e-2", BIG, True),
        ("0.1", 0.1, True),
        ("0.10", 0.1, True),
        ("1e-1", 0.1, True),
        ("0.1000000000000000055511151231257827021181583404541015625", 0.1, True),
        ("0.1000000000000000001", 0.1, False),
        ("1e23", 1e23, True),
        ("1e23", 10**23, True),
        ("123456789012345678901234567890.0", 123456789012345678901234567890, True),
        ("123456789012345678901234567890.0", 123456789012345678901234567891, False),
        ("0.30000000000000004", 0.1 + 0.2, True),
        ("0.3", 0.1 + 0.2, False),
        ("1e400", 10**400, True),
        ("-0.0", 0, True),
        ("1e999999999", 1, False),
        ("1e-999999999", 0, False),
        ("1_0", 10, False),
        (" 1", 1, False),
        ("inf", 1.0, False),
        ("nan", 1.0, False),
    ],
)
def test_by_hand(text: str, number: float, is_equal: bool) -> None:
    assert equal(text, number) is is_equal


@given(
    st.integers(-(10**40), 10**40) | st.integers(2**53 - 3, 2**53 + 3),
    st.integers(-3, 3),
    st.sampled_from(["{}", "{}.0", "{}e0", "{}0e-1", "+{}.00"]),
)
def test_integers_of_any_size(number: int, off: int, form: str) -> None:
    text = form.format(number) if number >= 0 else form.replace("+", "").format(number)
    assert equal(text, number + off) is (Decimal(text) == number + off)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_equals_its_own_text(number: float) -> None:
    assert equal(repr(number), number)
    assert equal(json.dumps(number), number)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_other_floats_do_not(first: float, second: float) -> None:
    if second not in (first, float("inf"), float("-inf")):
        assert not equal(repr(first), second)


@pytest.mark.parametrize("value", [True, False, None, [], {}])
def test_what_is_no_number(value: Any) -> None:
    assert not compile_comparison(Op.Equals, "1").check(value)
