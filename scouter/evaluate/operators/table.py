"""Comparisons by the name of their operator, with an expected value."""

from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.operators import formats, numbers, text, values
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.operators.compiled import Comparison

BUILDERS: Final[dict[ComparisonOperator, Callable[[JsonValue], Comparison]]] = {
    **values.BUILDERS,
    **numbers.BUILDERS,
    **text.BUILDERS,
    **formats.BUILDERS,
}


def compile_comparison(operator: ComparisonOperator, expected: JsonValue) -> Comparison:
    """Build a comparison once, to be called for every record.

    Args:
        operator: Any of them.
        expected: The expected value, templates resolved.

    Raises:
        TaskFault: The expected value does not fit the operator.
        ConfigError: A pattern or schema is none (`PATTERN_OPERATORS`); says what and where.
    """
    return BUILDERS[operator](expected)


EXPLAINED: Final = frozenset({ComparisonOperator.MatchesJsonSchema})
"""Operators that say themselves why a value fails."""


def explain(operator: ComparisonOperator, value: JsonValue, expected: JsonValue) -> str:
    """Say why a value fails one of the `EXPLAINED` operators."""
    reason = compile_comparison(operator, expected).explain
    return "" if reason is None else reason(value)
