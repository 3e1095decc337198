"""The names of all comparisons that a task can ask for."""

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from scouter.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class ComparisonOperator(StrEnum):
    """Operators: comparisons of the found value with the expected one.

    Two words are used below. *Each item*: a list is compared item by item and every item must
    pass; an empty list fails, as there is nothing to compare. *Whole*: a list is one value. The
    `Is…` operators and `HasUniqueItems` assert the opposite where False is expected, and assert
    the property with any other value. A value of a type that the operator cannot compare makes the
    task errored, it does not fail quietly. Numbers are int and float; a boolean is never a number,
    and a text is one nowhere but in Equals and NotEqual. `docs/operators.md` has the cost of each
    operator, and the largest values that it compares.
    """

    Equals = "Equals"
    """Deep and typed, 1 equals 1.0; a number also equals a text that is this number and nothing
    else ("1.0"), though not inside of lists and objects. Whole where a list is expected, else each
    item."""
    NotEqual = "NotEqual"
    """The opposite of Equals; of a list compared item by item, no item may be equal."""
    GreaterThan = "GreaterThan"
    """Numbers, each item."""
    GreaterThanOrEqual = "GreaterThanOrEqual"
    """Numbers, each item."""
    LessThan = "LessThan"
    """Numbers, each item."""
    LessThanOrEqual = "LessThanOrEqual"
    """Numbers, each item."""
    Contains = "Contains"
    """Whole: a text contains a text, a list contains an equal item. A text that is not in a list
    with objects or lists in it is an error: it may be inside of them."""
    NotContains = "NotContains"
    """Whole: exactly where Contains fails."""
    StartsWith = "StartsWith"
    """Texts, each item."""
    EndsWith = "EndsWith"
    """Texts, each item."""
    Matches = "Matches"
    """Texts, each item: the pattern (RE2's syntax, see `scouter.evaluate.patterns`) is found
    somewhere. Anchor it with ^ and $ as needed."""
    HasLengthEqual = "HasLengthEqual"
    """Whole: characters, items or keys; the length is what results show as actual."""
    HasLengthGreaterThan = "HasLengthGreaterThan"
    """Whole, as HasLengthEqual."""
    HasLengthLessThan = "HasLengthLessThan"
    """Whole, as HasLengthEqual."""
    HasLengthGreaterThanOrEqual = "HasLengthGreaterThanOrEqual"
    """Whole, as HasLengthEqual."""
    HasLengthLessThanOrEqual = "HasLengthLessThanOrEqual"
    """Whole, as HasLengthEqual."""
    IsNumeric = "IsNumeric"
    """Whole: an int or a float, not a boolean."""
    IsString = "IsString"
    """Whole."""
    IsBoolean = "IsBoolean"
    """Whole."""
    IsNull = "IsNull"
    """Whole: JSON null. A path that leads nowhere is an error, not null."""
    IsArray = "IsArray"
    """Whole."""
    IsObject = "IsObject"
    """Whole."""
    IsEmail = "IsEmail"
    """Texts, each item: one @, a dotted domain, no spaces."""
    IsUrl = "IsUrl"
    """Texts, each item: http(s), ws(s) or ftp(s) with a host; port, path, query allowed."""
    IsUuid = "IsUuid"
    """Texts, each item: 8-4-4-4-12 hex digits."""
    IsIso8601 = "IsIso8601"
    """Texts, each item: a date that exists, or such a date and a time."""
    IsJson = "IsJson"
    """Texts, each item: parses as JSON (RFC 8259, so no NaN)."""
    MatchesRegex = "MatchesRegex"
    """Another name of Matches."""
    InRange = "InRange"
    """Numbers, each item; expects `[lowest, highest]`, both included."""
    NotInRange = "NotInRange"
    """Numbers, each item; the opposite of InRange for every item."""
    IsPositive = "IsPositive"
    """Numbers, each item: above zero."""
    IsNegative = "IsNegative"
    """Numbers, each item: below zero."""
    IsZero = "IsZero"
    """Numbers, each item."""
    SequenceMatches = "SequenceMatches"
    """Whole: two lists, deeply equal in the same order."""
    ContainsAll = "ContainsAll"
    """Whole: a list has every expected item, a text every expected text."""
    ContainsAny = "ContainsAny"
    """Whole: at least one of them."""
    ContainsNone = "ContainsNone"
    """Whole: exactly where ContainsAny fails."""
    IsEmpty = "IsEmpty"
    """Whole: text, list or object of length 0, or null."""
    IsNotEmpty = "IsNotEmpty"
    """Whole: exactly where IsEmpty fails."""
    HasUniqueItems = "HasUniqueItems"
    """Whole: no two items of a list are equal."""
    IsAlphabetic = "IsAlphabetic"
    """Texts, each item: at least one character, all letters of any script."""
    IsAlphanumeric = "IsAlphanumeric"
    """Texts, each item: at least one character, all letters or digits."""
    IsLowerCase = "IsLowerCase"
    """Texts, each item: no upper-case letter; a text without cased letters is an error."""
    IsUpperCase = "IsUpperCase"
    """Texts, each item: no lower-case letter; a text without cased letters is an error."""
    ContainsWord = "ContainsWord"
    """Texts, each item: the word with no letter, digit or underscore on either side."""
    ApproximatelyEquals = "ApproximatelyEquals"
    """Numbers, each item; expects `[value, tolerance]`, the tolerance included."""
    WithinAbsoluteTolerance = "WithinAbsoluteTolerance"
    """Another name of ApproximatelyEquals: |actual - value| <= tolerance."""
    WithinRelativeTolerance = "WithinRelativeTolerance"
    """Numbers, each item; expects `[value, tolerance]`: |actual - value| <= tolerance * |value|.
    Of the value 0 only 0 is within any tolerance."""
    DeepEquals = "DeepEquals"
    """Whole: deep and typed; a text never equals a number, a list is never compared item by
    item."""
    SetEquals = "SetEquals"
    """Whole: two lists with the same items, in whatever order and however often."""
    MatchesJsonSchema = "MatchesJsonSchema"
    """Whole: the value is valid under a JSON schema; see `scouter.evaluate.schema.schema`."""
    SimilarityAtLeast = "SimilarityAtLeast"
    """Texts, each item; expects `[text, ratio]`: twice the longest common subsequence, divided by
    the sum of both lengths, is at least the ratio."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Find an operator by its name.

        Raises:
            ConfigError: There is none of this name; says which names are near.
        """
        found = cls.__members__.get(name)
        if found is not None:
            return found
        near = _near(name, tuple(cls.__members__))
        hint = f"did you mean {near}?" if near else f"the operators are {', '.join(cls)}"
        raise ConfigError(f"no operator is named {name[:60]!r}; {hint}")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: "GetCoreSchemaHandler"
    ) -> "CoreSchema":
        """Let `named` word the error, wherever a model has an operator."""
        from pydantic_core import core_schema  # the enum alone needs no pydantic

        return core_schema.no_info_before_validator_function(_by_name, handler(cls))


def _by_name(value: object) -> object:
    if isinstance(value, ComparisonOperator) or not isinstance(value, str):
        return value
    return ComparisonOperator.named(value)


def _near(name: str, known: tuple[str, ...]) -> str:
    """The known names that a person may have meant, the nearest first."""
    folded = {"".join(filter(str.isalnum, word)).lower(): word for word in known}
    wanted = "".join(filter(str.isalnum, name[:60])).lower()
    inside = [word for word in folded if len(wanted) > 3 and wanted in word]
    import difflib  # only mistakes need it

    near = [*inside, *difflib.get_close_matches(wanted, folded, n=2)]
    return " or ".join(folded[word] for word in dict.fromkeys(near[:3]))


NEEDS_NO_EXPECTED: Final = frozenset(
    operator
    for operator in ComparisonOperator
    if operator.startswith("Is") or operator is ComparisonOperator.HasUniqueItems
)
"""Operators that assert a property; without an expected value they assert it."""
