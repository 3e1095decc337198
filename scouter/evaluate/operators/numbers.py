"""Comparisons of numbers."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import (
    Comparison,
    Number,
    each_item,
    expected_fault,
    is_number,
    type_fault,
    want_flag,
)


def _limit(operator: str, expected: JsonValue) -> Number:
    if is_number(expected):
        return cast(Number, expected)
    raise expected_fault(operator, "a number", expected)


def _pair(operator: str, expected: JsonValue, wanted: str) -> tuple[Number, Number]:
    if isinstance(expected, list) and len(expected) == 2 and all(map(is_number, expected)):
        return cast(Number, expected[0]), cast(Number, expected[1])
    raise expected_fault(operator, wanted, expected)


def _numbers(operator: str, test: Callable[[Number], bool]) -> Comparison:
    def item(value: JsonValue) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            return test(cast(Number, value))
        raise type_fault(operator, "numbers", value)

    return each_item(item)


# The four orderings are written out, without an inner call: they are the most used comparisons.


def greater_than(expected: JsonValue) -> Comparison:
    """Build GreaterThan."""
    limit = _limit(Op.GreaterThan, expected)
    rest = _numbers(Op.GreaterThan, lambda value: value > limit)
    slow = rest.check

    def check(value: JsonValue) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            return value > limit  # type: ignore[operator]  # both are numbers here
        return slow(value)

    return Comparison(check=check, item=rest.item)


def at_least(expected: JsonValue) -> Comparison:
    """Build GreaterThanOrEqual."""
    limit = _limit(Op.GreaterThanOrEqual, expected)
    rest = _numbers(Op.GreaterThanOrEqual, lambda value: value >= limit)
    slow = rest.check

    def check(value: JsonValue) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            return value >= limit  # type: ignore[operator]  # both are numbers here
        return slow(value)

    return Comparison(check=check, item=rest.item)


def less_than(expected: JsonValue) -> Comparison:
    """Build LessThan."""
    limit = _limit(Op.LessThan, expected)
    rest = _numbers(Op.LessThan, lambda value: value < limit)
    slow = rest.check

    def check(value: JsonValue) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            return value < limit  # type: ignore[operator]  # both are numbers here
        return slow(value)

    return Comparison(check=check, item=rest.item)


def at_most(expected: JsonValue) -> Comparison:
    """Build LessThanOrEqual."""
    limit = _limit(Op.LessThanOrEqual, expected)
    rest = _numbers(Op.LessThanOrEqual, lambda value: value <= limit)
    slow = rest.check

    def check(value: JsonValue) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            return value <= limit  # type: ignore[operator]  # both are numbers here
        return slow(value)

    return Comparison(check=check, item=rest.item)


def _range(operator: str, expected: JsonValue) -> tuple[Number, Number]:
    wanted = "[lowest, highest], two numbers in this order"
    low, high = _pair(operator, expected, wanted)
    if not low <= high:
        raise expected_fault(operator, wanted, expected)
    return low, high


def in_range(expected: JsonValue) -> Comparison:
    """Build InRange."""
    low, high = _range(Op.InRange, expected)
    return _numbers(Op.InRange, lambda value: low <= value <= high)


def not_in_range(expected: JsonValue) -> Comparison:
    """Build NotInRange."""
    low, high = _range(Op.NotInRange, expected)
    return _numbers(Op.NotInRange, lambda value: not low <= value <= high)


def _sign(operator: Op, test: Callable[[Number], bool]) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        wanted = want_flag(operator, expected)
        return _numbers(operator, lambda value: test(value) is wanted)

    return build


def approximately_equals(expected: JsonValue) -> Comparison:
    """Build ApproximatelyEquals: |actual - value| <= tolerance, exact also beyond 2**53."""
    wanted = "[value, tolerance], two finite numbers, the tolerance not negative"
    target, tolerance = _pair(Op.ApproximatelyEquals, expected, wanted)
    if not (math.isfinite(target) and math.isfinite(tolerance) and tolerance >= 0):
        raise expected_fault(Op.ApproximatelyEquals, wanted, expected)

    def near(value: Number) -> bool:
        if value != value or value in (math.inf, -math.inf):
            return False
        if isinstance(value, float) or isinstance(target, float):
            try:
                return abs(float(value) - float(target)) <= tolerance
            except OverflowError:  # an int beyond the range of float
                return abs(Fraction(value) - Fraction(target)) <= tolerance
        return abs(value - target) <= tolerance

    return _numbers(Op.ApproximatelyEquals, near)


BUILDERS: Final[dict[Op, Callable[[JsonValue], Comparison]]] = {
    Op.GreaterThan: greater_than,
    Op.GreaterThanOrEqual: at_least,
    Op.LessThan: less_than,
    Op.LessThanOrEqual: at_most,
    Op.InRange: in_range,
    Op.NotInRange: not_in_range,
    Op.IsPositive: _sign(Op.IsPositive, lambda value: value > 0),
    Op.IsNegative: _sign(Op.IsNegative, lambda value: value < 0),
    Op.IsZero: _sign(Op.IsZero, lambda value: value == 0),
    Op.ApproximatelyEquals: approximately_equals,
}
