"""Costs of the comparisons, and the sizes beyond which a task is errored."""

from dataclasses import dataclass
from typing import Final

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns import MAX_TEXT

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
"""Values that are validated by a JSON schema times the keywords that may meet one of them; a
second or three at the very worst. See `scouter.evaluate.schema.load`."""
MAX_INSIDE: Final = 1_000_000
"""Values inside of the items of a list that is compared as a set, at any depth."""

CONSTANT: Final = "constant"
SMALLER: Final = "linear in the smaller of the two values"
LINEAR: Final = "linear"
SQUARE: Final = "product of both lengths, 64 characters at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One operator's cost for one value."""

    cost: str
    limits: tuple[tuple[int, str], ...] = ()
    """Numbers and what they count; beyond any of them the task is errored (`Reason.LIMIT`).
    Empty where the size of the expected value, or nothing at all, bounds the work."""


_EACH: Final = ((MAX_ITEMS, "items"),)
_SET: Final = ((MAX_ITEMS, "items"), (MAX_INSIDE, "values inside"))
_FORM: Final = ((MAX_FORMAT, "characters"), (MAX_ITEMS, "items"))
_FOUND: Final = ((MAX_CHARACTERS, "characters"), (MAX_ITEMS, "items"))
_ALL_FOUND: Final = ((MAX_SEARCHED, "characters times expected texts"), *_SET)

COSTS: Final[dict[Op, Cost]] = {
    **dict.fromkeys(
        (
            Op.GreaterThan, Op.GreaterThanOrEqual, Op.LessThan, Op.LessThanOrEqual, Op.InRange,
            Op.NotInRange, Op.IsPositive, Op.IsNegative, Op.IsZero, Op.ApproximatelyEquals,
            Op.WithinAbsoluteTolerance, Op.WithinRelativeTolerance,
        ),
        Cost(cost=CONSTANT, limits=_EACH),
    ),
    **dict.fromkeys((Op.Equals, Op.NotEqual), Cost(cost=SMALLER, limits=_EACH)),
    **dict.fromkeys((Op.DeepEquals, Op.SequenceMatches), Cost(cost=SMALLER)),
    **dict.fromkeys((Op.StartsWith, Op.EndsWith), Cost(cost=SMALLER, limits=_EACH)),
    **dict.fromkeys(
        (Op.Contains, Op.NotContains, Op.ContainsWord), Cost(cost=LINEAR, limits=_FOUND)
    ),
    **dict.fromkeys(
        (Op.ContainsAll, Op.ContainsAny, Op.ContainsNone), Cost(cost=LINEAR, limits=_ALL_FOUND)
    ),
    **dict.fromkeys((Op.SetEquals, Op.HasUniqueItems), Cost(cost=LINEAR, limits=_SET)),
    **dict.fromkeys(
        (Op.Matches, Op.MatchesRegex),
        Cost(cost=LINEAR, limits=((MAX_TEXT, "characters"), (MAX_ITEMS, "items"))),
    ),
    **dict.fromkeys(
        (
            Op.IsEmail, Op.IsUrl, Op.IsUuid, Op.IsIso8601, Op.IsJson, Op.IsAlphabetic,
            Op.IsAlphanumeric, Op.IsLowerCase, Op.IsUpperCase,
        ),
        Cost(cost=LINEAR, limits=_FORM),
    ),
    **dict.fromkeys(
        (
            Op.HasLengthEqual, Op.HasLengthGreaterThan, Op.HasLengthLessThan,
            Op.HasLengthGreaterThanOrEqual, Op.HasLengthLessThanOrEqual, Op.IsNumeric,
            Op.IsString, Op.IsBoolean, Op.IsNull, Op.IsArray, Op.IsObject, Op.IsEmpty,
            Op.IsNotEmpty,
        ),
        Cost(cost=CONSTANT),
    ),
    Op.MatchesJsonSchema: Cost(
        cost="schema times value", limits=((MAX_MEETINGS, "keywords times values"),)
    ),
    Op.SimilarityAtLeast: Cost(
        cost=SQUARE,
        limits=(
            (MAX_SIMILAR, "characters"),
            (MAX_ITEMS, "items"),
            (MAX_LIKENESS, "characters times expected characters"),
        ),
    ),
}  # fmt: skip


def too_large(operator: str, found: int, limit: int, unit: str) -> TaskFault:
    """Say that a value is larger than an operator compares."""
    return TaskFault(
        Reason.LIMIT, f"{operator}: the value has {found:,} {unit}, at most {limit:,} are compared"
    )
