"""From an operator's name and an expected value to a comparison."""

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

NEEDS_NO_EXPECTED: Final = frozenset(
    operator
    for operator in ComparisonOperator
    if operator.startswith("Is") or operator is ComparisonOperator.HasUniqueItems
)
"""Operators that assert a property; without an expected value they assert it."""


def compile_comparison(operator: ComparisonOperator, expected: JsonValue) -> Comparison:
    """Build a comparison once, to be called for every record.

    Args:
        operator: One of the 46.
        expected: The expected value, templates resolved.

    Raises:
        TaskFault: The expected value does not fit the operator.
    """
    return BUILDERS[operator](expected)
