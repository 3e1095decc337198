"""Comparisons of texts: parts, patterns, words, letters, similarity."""

from collections.abc import Callable
from typing import Final, cast

from pydantic import JsonValue

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import (
    MAX_CHARACTERS,
    MAX_LIKENESS,
    MAX_SEARCHED,
    MAX_SIMILAR,
    Comparison,
    Number,
    each_text,
    expected_fault,
    is_number,
    too_large,
    vacuous_fault,
    want_flag,
)
from scouter.evaluate.operators.equality import canonical
from scouter.evaluate.operators.similarity import is_similar
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns import compile_pattern

PATTERN_OPERATORS: Final = frozenset({Op.Matches, Op.MatchesRegex, Op.MatchesJsonSchema})
"""Operators whose expected value steers the comparison itself: it is checked when a plan is built,
and never comes from a record."""
_PLACE: Final = 50
"""Characters that are searched in the time of a look at what stands beside a word."""


def _text(operator: str, expected: JsonValue) -> str:
    if isinstance(expected, str):
        return canonical(expected)
    raise expected_fault(operator, "a text", expected)


def _part(operator: str, expected: JsonValue) -> str:
    text = _text(operator, expected)
    if not text:
        raise vacuous_fault(
            operator, "a text that is not empty", "every text begins and ends with the empty one"
        )
    return text


def starts_with(expected: JsonValue) -> Comparison:
    """Build StartsWith."""
    prefix = _part(Op.StartsWith, expected)
    return each_text(Op.StartsWith, lambda value: value.startswith(prefix), None)


def ends_with(expected: JsonValue) -> Comparison:
    """Build EndsWith."""
    suffix = _part(Op.EndsWith, expected)
    return each_text(Op.EndsWith, lambda value: value.endswith(suffix), None)


def _matches(operator: Op) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        if expected == "":
            raise vacuous_fault(
                operator, "a pattern that is not empty", "the empty one is found in every text"
            )
        pattern = compile_pattern(_text(operator, expected), operator)
        return each_text(operator, pattern.found_in, None)

    return build


def contains_word(expected: JsonValue) -> Comparison:
    """Build ContainsWord; the word is taken literally."""
    word = _text(Op.ContainsWord, expected)
    if not word:
        raise expected_fault(Op.ContainsWord, "a text that is not empty", expected)
    return each_text(Op.ContainsWord, lambda value: stands_in(word, value), MAX_CHARACTERS)


def stands_in(word: str, text: str) -> bool:
    """Tell whether a word is in a text with no letter, digit or underscore on either side.

    Raises:
        TaskFault: It is found in so many places, and stands alone in none, that looking further
            takes as long as searching `MAX_SEARCHED` characters (`Reason.LIMIT`).
    """
    at, looked = text.find(word), 0
    while at >= 0:
        end = at + len(word)
        if not _in_word(text[at - 1 : at]) and not _in_word(text[end : end + 1]):
            return True
        looked += len(word) + _PLACE
        if looked > MAX_SEARCHED:
            raise too_large(Op.ContainsWord, looked, MAX_SEARCHED, "characters of such words")
        at = text.find(word, at + 1)
    return False


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def similarity_at_least(expected: JsonValue) -> Comparison:
    """Build SimilarityAtLeast; `scouter.evaluate.operators.similarity` defines the ratio."""
    wanted = f"[text, ratio], a text of at most {MAX_SIMILAR:,} characters and a number in [0, 1]"
    if not isinstance(expected, list) or len(expected) != 2:
        raise expected_fault(Op.SimilarityAtLeast, wanted, expected)
    text, ratio = expected
    if not isinstance(text, str) or len(text) > MAX_SIMILAR or not is_number(ratio):
        raise expected_fault(Op.SimilarityAtLeast, wanted, expected)
    text, least = canonical(text), cast(Number, ratio)
    if not 0 <= least <= 1:
        raise expected_fault(Op.SimilarityAtLeast, wanted, expected)

    each = each_text(
        Op.SimilarityAtLeast, lambda value: is_similar(value, text, least), MAX_SIMILAR
    )

    def check(value: JsonValue) -> bool:
        if type(value) is list:
            likeness = len(text) * sum(len(item) for item in value if type(item) is str)
            if likeness > MAX_LIKENESS:
                unit = "characters times expected characters"
                raise too_large(Op.SimilarityAtLeast, likeness, MAX_LIKENESS, unit)
        return each.check(value)

    return Comparison(check=check, item=each.item)


def _lower(value: str) -> bool:
    _require_cased(Op.IsLowerCase, value)
    return value.islower()


def _upper(value: str) -> bool:
    _require_cased(Op.IsUpperCase, value)
    return value.isupper()


def _require_cased(operator: str, value: str) -> None:
    if not any(char.islower() or char.isupper() or char.istitle() for char in value):
        raise TaskFault(
            Reason.TYPE, f"{operator}: the text has no letter with a case: {value!r:.80}"
        )


def property_of_text(
    operator: Op, test: Callable[[str], bool]
) -> Callable[[JsonValue], Comparison]:
    """Make the builder of an operator that asserts a property of a text."""

    def build(expected: JsonValue) -> Comparison:
        wanted = want_flag(expected)

        def found(value: str) -> bool:
            return test(value) is wanted

        return each_text(operator, found)

    return build


BUILDERS: Final[dict[Op, Callable[[JsonValue], Comparison]]] = {
    Op.StartsWith: starts_with,
    Op.EndsWith: ends_with,
    Op.Matches: _matches(Op.Matches),
    Op.MatchesRegex: _matches(Op.MatchesRegex),
    Op.ContainsWord: contains_word,
    Op.SimilarityAtLeast: similarity_at_least,
    Op.IsAlphabetic: property_of_text(Op.IsAlphabetic, str.isalpha),
    Op.IsAlphanumeric: property_of_text(Op.IsAlphanumeric, str.isalnum),
    Op.IsLowerCase: property_of_text(Op.IsLowerCase, _lower),
    Op.IsUpperCase: property_of_text(Op.IsUpperCase, _upper),
}
