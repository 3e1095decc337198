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

    return each_item(operator, item)


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
        wanted = want_flag(expected)
        return _numbers(operator, lambda value: test(value) is wanted)

    return build


def _tolerance(operator: str, expected: JsonValue) -> tuple[Number, Number]:
    wanted = "[value, tolerance], two finite numbers, the tolerance not negative"
    target, tolerance = _pair(operator, expected, wanted)
    if not (_is_finite(target) and _is_finite(tolerance) and tolerance >= 0):
        raise expected_fault(operator, wanted, expected)
    return target, tolerance


def _is_finite(number: Number) -> bool:
    return isinstance(number, int) or math.isfinite(number)  # an int may be too large for a float


def _absolute(operator: Op) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        target, tolerance = _tolerance(operator, expected)
        return _numbers(operator, lambda value: is_within(value, target, tolerance, 1))

    return build


def within_relative(expected: JsonValue) -> Comparison:
    """Build WithinRelativeTolerance: |actual - value| <= tolerance * |value|."""
    target, tolerance = _tolerance(Op.WithinRelativeTolerance, expected)
    scale = abs(target)
    return _numbers(
        Op.WithinRelativeTolerance, lambda value: is_within(value, target, tolerance, scale)
    )


def is_within(value: Number, target: Number, tolerance: Number, scale: Number) -> bool:
    """Tell whether |value - target| <= tolerance * scale.

    Exact: integers of any size count in full, and a fraction counts as the decimal that it is
    written as, so that 1.1 is within 0.1 of 1.

    Args:
        value: Any number; one that is not finite is within nothing.
        target: Finite.
        tolerance: Finite, not negative.
        scale: Finite, not negative.

    Cost: constant; some microseconds where floating-point numbers cannot decide.
    """
    if value == target:
        return True
    if not _is_finite(value):
        return False
    try:
        gap, bound = abs(float(value) - float(target)), float(tolerance) * float(scale)
        doubt = (abs(float(value)) + abs(float(target)) + bound) * 1e-12
    except OverflowError:  # an int beyond the range of float
        pass
    else:
        if abs(gap - bound) > doubt:
            return gap < bound
    gap_exact = abs(_exact(value) - _exact(target))
    return gap_exact <= _exact(tolerance) * _exact(scale)


def _exact(number: Number) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


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
    Op.ApproximatelyEquals: _absolute(Op.ApproximatelyEquals),
    Op.WithinAbsoluteTolerance: _absolute(Op.WithinAbsoluteTolerance),
    Op.WithinRelativeTolerance: within_relative,
}
