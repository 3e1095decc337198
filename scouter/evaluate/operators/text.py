"""Comparisons of texts: parts, patterns, words, letters."""

import re
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.fault import TaskFault
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import Comparison, each_text, expected_fault, want_flag
from scouter.evaluate.outcome import Reason

PATTERN_LIMIT: Final = 512
"""Characters of a regular expression."""
SUBJECT_LIMIT: Final = 262_144
"""Characters of a text that a regular expression is run on; longer ones make the task errored."""
PATTERN_OPERATORS: Final = frozenset({Op.Matches, Op.MatchesRegex})


def _text(operator: str, expected: JsonValue) -> str:
    if isinstance(expected, str):
        return expected
    raise expected_fault(operator, "a text", expected)


def starts_with(expected: JsonValue) -> Comparison:
    """Build StartsWith."""
    prefix = _text(Op.StartsWith, expected)
    return each_text(Op.StartsWith, lambda value: value.startswith(prefix))


def ends_with(expected: JsonValue) -> Comparison:
    """Build EndsWith."""
    suffix = _text(Op.EndsWith, expected)
    return each_text(Op.EndsWith, lambda value: value.endswith(suffix))


def compile_pattern(operator: str, pattern: JsonValue) -> re.Pattern[str]:
    """Compile a regular expression of Python's `re`.

    Args:
        operator: Name for messages.
        pattern: At most `PATTERN_LIMIT` characters.

    Raises:
        TaskFault: Not a text, too long, or not a regular expression; says where.

    Cost: `re` backtracks, so a pattern with nested repetition can take exponential time on a text
        that almost matches; `SUBJECT_LIMIT` bounds the text, not that.
    """
    text = _text(operator, pattern)
    if len(text) > PATTERN_LIMIT:
        raise TaskFault(
            Reason.EXPECTED, f"{operator}: the pattern has {len(text)} characters, at most "
            f"{PATTERN_LIMIT} are allowed"
        )  # fmt: skip
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as fault:
        raise TaskFault(
            Reason.EXPECTED, f"{operator}: {text!r} is not a regular expression: {fault}"
        ) from fault


def _matches(operator: Op) -> Callable[[JsonValue], Comparison]:
    def build(expected: JsonValue) -> Comparison:
        search = compile_pattern(operator, expected).search

        def found(value: str) -> bool:
            if len(value) > SUBJECT_LIMIT:
                raise TaskFault(
                    Reason.LIMIT,
                    f"{operator}: the text has {len(value)} characters, at most "
                    f"{SUBJECT_LIMIT} are searched",
                )
            return search(value) is not None

        return each_text(operator, found)

    return build


def contains_word(expected: JsonValue) -> Comparison:
    """Build ContainsWord; the word is taken literally."""
    word = _text(Op.ContainsWord, expected)
    if not word:
        raise expected_fault(Op.ContainsWord, "a text that is not empty", expected)
    search = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search
    return each_text(Op.ContainsWord, lambda value: search(value) is not None)


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
        wanted = want_flag(operator, expected)
        return each_text(operator, lambda value: test(value) is wanted)

    return build


BUILDERS: Final[dict[Op, Callable[[JsonValue], Comparison]]] = {
    Op.StartsWith: starts_with,
    Op.EndsWith: ends_with,
    Op.Matches: _matches(Op.Matches),
    Op.MatchesRegex: _matches(Op.MatchesRegex),
    Op.ContainsWord: contains_word,
    Op.IsAlphabetic: property_of_text(Op.IsAlphabetic, str.isalpha),
    Op.IsAlphanumeric: property_of_text(Op.IsAlphanumeric, str.isalnum),
    Op.IsLowerCase: property_of_text(Op.IsLowerCase, _lower),
    Op.IsUpperCase: property_of_text(Op.IsUpperCase, _upper),
}
