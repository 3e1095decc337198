"""Arguments as version 1.6.9 of the original compares them."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.journey.arguments import ANY_ARGS, ANY_VALUE
from scouter.evaluate.journey.fuzzy import token_ratio
from scouter.evaluate.journey.paths import flatten, strategy_of
from scouter.evaluate.journey.result import ArgumentMatch

THRESHOLD: Final = 0.8
_EPSILON: Final = 0.001
"""Largest difference of two equal numbers among fuzzy arguments."""

IsLike: TypeAlias = Callable[[JsonValue, JsonValue], bool]
"""Compares two normalised values that are neither numbers nor dates."""


def normalised(value: JsonValue) -> JsonValue:
    """Reduce a value to what is compared: numbers and texts of numbers as one text, lower case.

    A boolean is a number in Python, and keeps its capital letter; lists are sorted.
    """
    if str(value) == ANY_VALUE:
        return ANY_VALUE
    if isinstance(value, dict):
        return {str(key): normalised(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(normalised, value), key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, int):
        return str(value)
    number = _float(value)
    if number is not None:
        # `int` of an infinity raises in the original, too; but `is_integer` keeps it away
        return str(int(number)) if number.is_integer() else str(number)
    return str(value).lower()


def _float(value: JsonValue) -> float | None:
    if not isinstance(value, float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def as_date_or_number(actual: JsonValue, expected: JsonValue) -> tuple[bool, bool]:
    """Compare two normalised values as numbers, else as dates.

    Returns:
        Whether both are of one of these kinds, and whether they are the same then.

    Raises:
        ConfigError: python-dateutil is not installed.
        OverflowError: A number is too large to be a date.
    """
    try:
        left, right = float(cast("str", actual)), float(cast("str", expected))
    except (ValueError, TypeError):
        pass
    else:
        return True, abs(left - right) <= _EPSILON
    try:
        from dateutil import parser
    except ImportError as error:
        raise ConfigError(
            "fuzzy arguments of wxo-1.6.9 are read as dates by python-dateutil: "
            "pip install 'scouter-agents[watsonx]'"
        ) from error
    try:
        dates = [parser.parse(cast("str", each)) for each in (actual, expected)]
    except (ValueError, TypeError):
        return False, False
    return True, dates[0] == dates[1]


def is_alike_by_tokens(actual: JsonValue, expected: JsonValue) -> bool:
    """Compare without a client: a ratio of 0 to 100 against 0.8, so that anything alike passes."""
    return 100 * token_ratio(str(actual), str(expected)) > THRESHOLD


def cosine(left: list[float], right: list[float]) -> float:
    """The cosine of two vectors; 0 where one has no direction."""
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    sizes = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return dot / sizes if sizes else 0.0


def matches(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> bool:
    """Tell whether a call's arguments fit; ends at the first that does not."""
    if expected is None:
        return not actual
    if expected == ANY_ARGS:
        return True
    there = flatten(actual)
    return all(
        _match(path, value, there, strategies, is_like).matched
        for path, value in flatten(expected).items()
    )


def compared(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> tuple[ArgumentMatch, ...]:
    """Compare every expected leaf."""
    if expected is None or expected == ANY_ARGS:
        return ()
    there = flatten(actual)
    return tuple(
        _match(path, value, there, strategies, is_like) for path, value in flatten(expected).items()
    )


def _match(
    path: str,
    value: JsonValue,
    there: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> ArgumentMatch:
    strategy = strategy_of(path, strategies)
    left, right = normalised(there.get(path)), normalised(value)
    if strategy == "ignore" or right == ANY_VALUE:
        matched = True
    elif path not in there:
        matched = strategy == "optional"
    elif strategy == "optional":
        matched = there[path] == value
    elif strategy == "fuzzy":
        is_read, is_same = as_date_or_number(left, right)
        matched = is_same if is_read else is_like(left, right)
    elif strategy == "strict":
        matched = left == right
    else:
        matched = True  # an unknown strategy checks nothing
    return ArgumentMatch(
        path=path, strategy=strategy, expected=value, actual=there.get(path),
        is_present=path in there, matched=matched,
    )  # fmt: skip


def f1(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> float | None:
    """Measure the arguments of one call against one goal, by top-level names.

    Returns:
        Rounded to four places; None where the original has NaN.

    Raises:
        AttributeError: The arguments are no object.
    """
    if not expected:
        return 0.0 if actual else None
    if expected == ANY_ARGS:
        return None
    names = set(actual.keys())
    checked = [
        name
        for name in expected
        if strategies.get(name) != "ignore"
        and (strategies.get(name) != "optional" or name in actual)
    ]
    right = 0
    for name in checked:
        wanted = normalised(expected[name])
        if name not in names or wanted == ANY_VALUE:
            continue
        found = normalised(actual[name])
        is_same = found == wanted
        if strategies.get(name) == "fuzzy":
            is_read, is_same = as_date_or_number(found, wanted)
            is_same = is_same if is_read else is_like(found, wanted)
        right += is_same
    total = 2 * right + len(names - set(expected)) + len(checked) - right
    return round(2 * right / total, 4) if total else None
