"""A comparison with its expected value built in, its limits, and the ways to make one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.operators.equality import canonical
from scouter.evaluate.operators.show import kind_of, show
from scouter.evaluate.outcome import Reason, TaskFault, VacuousFault

MAX_ITEMS: Final = 1_000_000
"""Items of a list that is compared item by item, or searched."""
MAX_CHARACTERS: Final = 10_000_000
"""Characters of a text in which another text is looked for."""
MAX_SEARCHED: Final = 100_000_000
"""Characters of a text times the texts that are looked for in it; of a word, its characters and 50
more times the places where it is found but does not stand alone."""
MAX_FORMAT: Final = 1_000_000
"""Characters of a text whose form or letters are looked at."""
MAX_SIMILAR: Final = 10_000
"""Characters of either of two texts whose similarity is measured; it costs their product."""
MAX_LIKENESS: Final = 1_000_000_000
"""Characters of all texts of a list times those of the text whose similarity to each is measured;
about half a second."""
MAX_MEETINGS: Final = 250_000
"""Checks that a JSON schema makes of one value: a keyword that meets a part of it, and what that
goes through. A second or three at the very worst; see `scouter.evaluate.schema.keywords`."""
MAX_INSIDE: Final = 1_000_000
"""Values inside of the items of a list that is compared as a set, at any depth."""


def too_large(operator: str, found: int, limit: int, unit: str) -> TaskFault:
    """Say that a value is larger than an operator compares."""
    return TaskFault(
        Reason.LIMIT, f"{operator}: the value has {found:,} {unit}, at most {limit:,} are compared"
    )


Check: TypeAlias = Callable[[JsonValue], bool]
"""Decides one value, or raises `TaskFault` where it cannot."""

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Compiled comparison of a task, which runs for every record."""

    check: Check
    """True where the value (or what `measure` made of it) passes; item by item over a list where
    the operator says so."""
    item: Check | None = None
    """The test of one item, where a list is compared item by item."""
    measure: Callable[[JsonValue], JsonValue] | None = None
    """Computes the number to compare, such as a length; results show it as `actual`."""
    explain: Callable[[JsonValue], str] | None = None
    """Says why a value fails, where there is more to say than the value and what was expected."""


def type_fault(operator: str, wanted: str, value: JsonValue) -> TaskFault:
    """Say that a value has a type that the operator cannot compare."""
    return TaskFault(
        Reason.TYPE, f"{operator} compares {wanted}, found {kind_of(value)}: {show(value)}"
    )


def expected_fault(operator: str, wanted: str, value: JsonValue) -> TaskFault:
    """Say that the expected value does not fit the operator."""
    return TaskFault(
        Reason.EXPECTED, f"{operator} expects {wanted}, got {kind_of(value)}: {show(value)}"
    )


def vacuous_fault(operator: str, wanted: str, why: str) -> VacuousFault:
    """Say that the expected value asks nothing."""
    return VacuousFault(Reason.EXPECTED, f"{operator} expects {wanted}: {why}")


def is_number(value: JsonValue) -> bool:
    """Tell whether a value is an int or a float; a boolean is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def want_flag(expected: JsonValue) -> bool:
    """Read the expected value of an operator that asserts a property.

    Only False asks for the opposite. Any other value (0 with IsZero, "" with IsEmpty) says no more
    than the operator's name: the original wants a value and never reads it.
    """
    return expected is not False


def whole(test: Check) -> Comparison:
    """Compare a list as one value."""
    return Comparison(check=test)


def each_item(operator: str, test: Check) -> Comparison:
    """Compare a list item by item: all must pass, and an empty list fails."""

    def check(value: JsonValue) -> bool:
        if type(value) is list:
            if len(value) > MAX_ITEMS:
                raise too_large(operator, len(value), MAX_ITEMS, "items")
            return bool(value) and all(map(test, value))
        return test(value)

    return Comparison(check=check, item=test)


def each_text(
    operator: str, test: Callable[[str], bool], longest: int | None = MAX_FORMAT
) -> Comparison:
    """Compare texts item by item; anything else is a fault.

    Args:
        operator: Name for messages.
        test: Decides one text, which it gets in the composed form.
        longest: Characters of a text beyond which it is a fault; None where `test` looks itself,
            or costs nothing.
    """

    def item(value: JsonValue) -> bool:
        if type(value) is not str:
            raise type_fault(operator, "texts", value)
        if longest is not None and len(value) > longest:
            raise too_large(operator, len(value), longest, "characters")
        return test(canonical(value))

    return each_item(operator, item)
