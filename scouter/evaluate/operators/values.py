"""Comparisons of whole values: equality, type, length, membership."""

from collections.abc import Callable, Collection, Hashable
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.files.json_text import weight
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import (
    MAX_CHARACTERS,
    MAX_INSIDE,
    MAX_ITEMS,
    MAX_SEARCHED,
    Check,
    Comparison,
    Number,
    each_item,
    expected_fault,
    is_number,
    too_large,
    type_fault,
    vacuous_fault,
    want_flag,
    whole,
)
from scouter.evaluate.operators.equality import (
    canonical,
    deep_equal,
    identity,
    is_this_number,
    number_in,
    text_is,
)
from scouter.evaluate.operators.show import kind_of, show
from scouter.evaluate.outcome import Reason, TaskFault

_GROUPS: Final = frozenset({dict, list})


def equals(expected: JsonValue) -> Comparison:
    """Build Equals: whole where a list is expected, else each item."""
    if isinstance(expected, list):
        return whole(lambda value: deep_equal(value, expected))
    return each_item(Op.Equals, _equal_to(expected))


def not_equal(expected: JsonValue) -> Comparison:
    """Build NotEqual: whole where a list is expected, else each item."""
    if isinstance(expected, list):
        return whole(lambda value: not deep_equal(value, expected))
    equal = _equal_to(expected)
    return each_item(Op.NotEqual, lambda value: not equal(value))


def _equal_to(expected: JsonValue) -> Check:
    """Deep equality, but that a number equals a text that is this number and nothing else."""
    if type(expected) is str:
        number = number_in(expected)
        if number is None:
            composed = canonical(expected)
            return lambda value: (
                value == composed
                or (type(value) is str and not value.isascii() and canonical(value) == composed)
            )
        return lambda value: (
            value == expected or (is_number(value) and is_this_number(number, cast(Number, value)))
        )
    if is_number(expected):
        wanted = cast(Number, expected)
        return lambda value: (
            text_is(value, wanted) if type(value) is str else deep_equal(value, expected)
        )
    return lambda value: deep_equal(value, expected)


def _contains(operator: str, expected: JsonValue) -> Check:
    if isinstance(expected, str):
        return _contains_text(operator, expected)

    def check(value: JsonValue) -> bool:
        if type(value) is list:
            _check_size(operator, len(value), MAX_ITEMS, "items")
            return any(deep_equal(item, expected) for item in value)
        if type(value) is str:
            raise expected_fault(operator, "a text, as the value is a text", expected)
        raise type_fault(operator, "a text or a list", value)

    return check


def _contains_text(operator: str, expected: str) -> Check:
    if not expected:
        raise vacuous_fault(
            operator, "a text that is not empty", "the empty one is part of every text"
        )
    part = canonical(expected)

    def check(value: JsonValue) -> bool:
        if type(value) is str:
            _check_size(operator, len(value), MAX_CHARACTERS, "characters")
            return part in (value if value.isascii() else canonical(value))
        if type(value) is list:
            _check_size(operator, len(value), MAX_ITEMS, "items")
            if part in value or any(
                type(item) is str and not item.isascii() and canonical(item) == part
                for item in value
            ):
                return True
            _check_no_groups(operator, value, (part,))
            return False
        raise type_fault(operator, "a text or a list", value)

    return check


def _check_no_groups(operator: str, items: list[JsonValue], missing: Collection[Hashable]) -> None:
    """Refuse to say that a text is nowhere in a list whose items may have it inside of them.

    Raises:
        TaskFault: A text is among what is missing, and an item is an object or a list
            (`Reason.TYPE`).

    Cost: linear, some nanoseconds for each item.
    """
    text = min((part for part in missing if isinstance(part, str)), default=None)
    if text is None or _GROUPS.isdisjoint(map(type, items)):
        return
    at = next(at for at, item in enumerate(items) if type(item) in _GROUPS)
    raise TaskFault(
        Reason.TYPE,
        f"{operator} looks for {show(text)} among texts, and item {at} of {len(items)} is "
        f"{kind_of(items[at])}, whose inside is not searched: name the field that holds the text "
        "in the path, as in 'items[*].text'",
    )


def _check_size(operator: str, found: int, limit: int, unit: str) -> None:
    if found > limit:
        raise too_large(operator, found, limit, unit)


def contains(expected: JsonValue) -> Comparison:
    """Build Contains."""
    return whole(_contains(Op.Contains, expected))


def not_contains(expected: JsonValue) -> Comparison:
    """Build NotContains."""
    check = _contains(Op.NotContains, expected)
    return whole(lambda value: not check(value))


def _sought(operator: str, expected: JsonValue) -> frozenset[Hashable]:
    """The expected items as keys: what is equal is one."""
    if not isinstance(expected, list):
        raise expected_fault(operator, "a list of items to look for", expected)
    if not expected:
        raise vacuous_fault(operator, "at least one item to look for", "the list is empty")
    return frozenset(_keys(operator, expected))


def _missing(operator: str, sought: frozenset[Hashable], value: JsonValue) -> frozenset[Hashable]:
    """The sought items that a value does not have.

    Cost: linear in value and sought items for lists, their product for texts.
    """
    if type(value) is list:
        return sought.difference(_keys(operator, value))
    if type(value) is str:
        searched = len(value) * len(sought)
        _check_size(operator, searched, MAX_SEARCHED, "characters times expected texts")
        composed = canonical(value)
        return frozenset(item for item in sought if cast(str, item) not in composed)
    raise type_fault(operator, "a list or a text", value)


def _check_texts(operator: str, expected: JsonValue, value: JsonValue) -> None:
    """Refuse to look in a text for anything but texts of at least one character."""
    for item in cast("list[JsonValue]", expected) if type(value) is str else ():
        if not isinstance(item, str) or not item:
            raise expected_fault(operator, "texts that are not empty, as the value is a text", item)


def _keys(operator: str, items: list[JsonValue]) -> set[Hashable]:
    """The items as keys: what is equal is one."""
    _check_size(operator, len(items), MAX_ITEMS, "items")
    inside = weight(items, MAX_INSIDE)  # each becomes a part of a key, of about 100 bytes
    _check_size(operator, inside, MAX_INSIDE, "values inside")
    return set(map(identity, items))


def contains_all(expected: JsonValue) -> Comparison:
    """Build ContainsAll."""
    sought = _sought(Op.ContainsAll, expected)

    def check(value: JsonValue) -> bool:
        _check_texts(Op.ContainsAll, expected, value)
        missing = _missing(Op.ContainsAll, sought, value)
        # One that is no text is missing for certain.
        if type(value) is list and all(type(item) is str for item in missing):
            _check_no_groups(Op.ContainsAll, value, missing)
        return not missing

    return whole(check)


def contains_all_of_none() -> Comparison:
    """Build ContainsAll for a record that requires nothing, which every list and text has."""

    def check(value: JsonValue) -> bool:
        if type(value) is not list and type(value) is not str:
            raise type_fault(Op.ContainsAll, "a list or a text", value)
        return True

    return whole(check)


def _contains_any(operator: str, expected: JsonValue) -> Check:
    sought = _sought(operator, expected)

    def check(value: JsonValue) -> bool:
        _check_texts(operator, expected, value)
        missing = _missing(operator, sought, value)
        if len(missing) < len(sought):
            return True
        if type(value) is list:
            _check_no_groups(operator, value, missing)
        return False

    return check


def contains_any(expected: JsonValue) -> Comparison:
    """Build ContainsAny."""
    return whole(_contains_any(Op.ContainsAny, expected))


def contains_none(expected: JsonValue) -> Comparison:
    """Build ContainsNone."""
    check = _contains_any(Op.ContainsNone, expected)
    return whole(lambda value: not check(value))


def sequence_matches(expected: JsonValue) -> Comparison:
    """Build SequenceMatches."""
    if not isinstance(expected, list):
        raise expected_fault(Op.SequenceMatches, "a list", expected)

    def check(value: JsonValue) -> bool:
        if type(value) is not list:
            raise type_fault(Op.SequenceMatches, "lists", value)
        return deep_equal(value, expected)

    return whole(check)


def deep_equals(expected: JsonValue) -> Comparison:
    """Build DeepEquals."""
    return whole(lambda value: deep_equal(value, expected))


def set_equals(expected: JsonValue) -> Comparison:
    """Build SetEquals."""
    if not isinstance(expected, list):
        raise expected_fault(Op.SetEquals, "a list", expected)
    wanted = _keys(Op.SetEquals, expected)

    def check(value: JsonValue) -> bool:
        if type(value) is not list:
            raise type_fault(Op.SetEquals, "lists", value)
        return _keys(Op.SetEquals, value) == wanted

    return whole(check)


def matches_json_schema(expected: JsonValue) -> Comparison:
    """Build MatchesJsonSchema."""
    from scouter.evaluate.schema.schema import compile_schema  # slow to load, and rarely needed

    schema = compile_schema(expected, Op.MatchesJsonSchema)
    return Comparison(check=schema.is_valid, explain=schema.explain)


def _length(operator: str) -> Callable[[JsonValue], int]:
    def length(value: JsonValue) -> int:
        if isinstance(value, str):
            return len(canonical(value))
        if isinstance(value, list | dict):
            return len(value)
        raise type_fault(operator, "the length of a text, list or object", value)

    return length


def _has_length(
    operator: Op, test: Callable[[Number, Number], bool]
) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        if not is_number(expected):
            raise expected_fault(operator, "a number", expected)
        limit = cast(Number, expected)
        length = _length(operator)
        return Comparison(check=lambda n: test(cast(int, n), limit), measure=length)

    return build


def _is_kind(operator: Op, test: Check) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        if want_flag(expected):
            return whole(test)
        return whole(lambda value: not test(value))

    return build


def _is_empty(operator: Op) -> Check:
    def check(value: JsonValue) -> bool:
        if value is None:
            return True
        if isinstance(value, str | list | dict):
            return not value
        raise type_fault(operator, "a text, list, object or null", value)

    return check


def _not_empty(value: JsonValue) -> bool:
    return not _is_empty(Op.IsNotEmpty)(value)


def _has_unique_items(value: JsonValue) -> bool:
    if not isinstance(value, list):
        raise type_fault(Op.HasUniqueItems, "the items of a list", value)
    return len(_keys(Op.HasUniqueItems, value)) == len(value)


BUILDERS: Final[dict[Op, Callable[[JsonValue], Comparison]]] = {
    Op.Equals: equals,
    Op.NotEqual: not_equal,
    Op.Contains: contains,
    Op.NotContains: not_contains,
    Op.ContainsAll: contains_all,
    Op.ContainsAny: contains_any,
    Op.ContainsNone: contains_none,
    Op.SequenceMatches: sequence_matches,
    Op.DeepEquals: deep_equals,
    Op.SetEquals: set_equals,
    Op.MatchesJsonSchema: matches_json_schema,
    Op.HasLengthEqual: _has_length(Op.HasLengthEqual, lambda n, limit: n == limit),
    Op.HasLengthGreaterThan: _has_length(Op.HasLengthGreaterThan, lambda n, limit: n > limit),
    Op.HasLengthLessThan: _has_length(Op.HasLengthLessThan, lambda n, limit: n < limit),
    Op.HasLengthGreaterThanOrEqual: _has_length(
        Op.HasLengthGreaterThanOrEqual, lambda n, limit: n >= limit
    ),
    Op.HasLengthLessThanOrEqual: _has_length(
        Op.HasLengthLessThanOrEqual, lambda n, limit: n <= limit
    ),
    Op.IsNumeric: _is_kind(Op.IsNumeric, is_number),
    Op.IsString: _is_kind(Op.IsString, lambda value: isinstance(value, str)),
    Op.IsBoolean: _is_kind(Op.IsBoolean, lambda value: isinstance(value, bool)),
    Op.IsNull: _is_kind(Op.IsNull, lambda value: value is None),
    Op.IsArray: _is_kind(Op.IsArray, lambda value: isinstance(value, list)),
    Op.IsObject: _is_kind(Op.IsObject, lambda value: isinstance(value, dict)),
    Op.IsEmpty: _is_kind(Op.IsEmpty, _is_empty(Op.IsEmpty)),
    Op.IsNotEmpty: _is_kind(Op.IsNotEmpty, _not_empty),
    Op.HasUniqueItems: _is_kind(Op.HasUniqueItems, _has_unique_items),
}
