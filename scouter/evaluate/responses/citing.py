"""Citing: an answer has a value that a tool gave back, in whatever form it is written.

Numbers are compared as numbers (`1,200`, `1.200,00`, `85 %` and 0.85), dates as dates (`20 May`,
`May 20th, 2024`, 2024-05-20), and texts as words in a row, without regard to case and punctuation.
Values that many answers have by chance cite nothing: numbers of one digit, flags, single letters.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

from pydantic import JsonValue

Date: TypeAlias = tuple[int | None, int, int]
"""Year, where it is given, month and day."""

_MONTHS: Final = {
    name[:length]: at
    for at, name in enumerate(
        (
            "january", "february", "march", "april", "may", "june", "july", "august", "september",
            "october", "november", "december",
        ),
        1,
    )
    for length in (3, 4, len(name))
}  # fmt: skip
_MONTH: Final = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?(?![a-z])"
_YEAR: Final = r"(?:,?\s+(?P<year>\d{4})(?!\d))?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES: Final = (
    re.compile(r"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)"),
    re.compile(rf"(?<![\d.,]){_DAY}\.?\s+(?:of\s+)?{_MONTH}{_YEAR}", re.IGNORECASE),
    re.compile(rf"(?<!\w){_MONTH}\s+{_DAY}(?![\d:]){_YEAR}", re.IGNORECASE),
    re.compile(r"(?<![\d.])(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})(?!\d)"),
    re.compile(r"(?<![\d/])(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4})(?!\d)"),
    re.compile(r"(?<![\d/])(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})(?!\d)"),
)
"""Two forms of one place, as people write day and month in either order, are both meant."""
_GROUPED: Final = r"\d{1,3}(?:[ ,.'\u00a0\u202f]\d{3})+(?:[.,]\d+)?"
_UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Letters of scripts whose words have no space between them: Thai, Japanese, Chinese, Korean."""
_LETTER: Final = re.compile(f"[{_UNSPACED}]")
_NUMBER: Final = re.compile(
    rf"(?<![^\W{_UNSPACED}])(?<![:.,])({_GROUPED}|\d+(?:[.,]\d+)?)(?![\d:]|[.,]\d)(\s?%)?"
)
_SPACES: Final = re.compile(r"[ '\u00a0\u202f]")
_NO_WORD: Final = re.compile(r"[\W_]+")
_SHORTEST: Final = 3
"""Characters of a text that cites, spaces among them."""
_REMEMBERED: Final = 10_000
"""Characters of a text that is remembered; 256 of them take a few megabytes."""
_LONGEST: Final = 1_000
"""Characters of a text that is looked for as a whole."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, taken apart to look for values in it."""

    words: str
    """Words with one space around each."""
    numbers: frozenset[Decimal]
    dates: frozenset[Date]

    @property
    def is_empty(self) -> bool:
        """It has no value that can be looked for elsewhere."""
        is_text = len(self.words) - 2 >= _SHORTEST and any(map(str.isalpha, self.words))
        return not (self.numbers or self.dates or is_text)

    @staticmethod
    def of(text: str) -> "Answer":
        """Take a text apart; one that is not long is remembered, as traces repeat prompts.

        Cost: linear.
        """
        return _remembered(text) if len(text) <= _REMEMBERED else _taken_apart(text)

    def cites(self, result: JsonValue) -> bool:
        """Tell whether it has a value of a tool's result, at whatever depth.

        Cost: linear in the result; of each text in it, in the answer.
        """
        return any(map(self.has, _leaves(result)))

    def has(self, value: JsonValue) -> bool:
        """Tell whether it has one value, which holds no others."""
        if isinstance(value, bool):
            return False
        if isinstance(value, int | float):
            return math.isfinite(value) and not self.numbers.isdisjoint(
                _telling(abs(Decimal(repr(value))))
            )
        if not isinstance(value, str):
            return False
        dates, rest = _dates_of(value)
        if any(_is_same_day(one, other) for one in dates for other in self.dates):
            return True
        if not self.numbers.isdisjoint(_numbers_in(rest)):
            return True
        words = _words(value[: _LONGEST + 1])
        has_letter = any(map(str.isalpha, words))
        is_fit = has_letter and len(words) - 2 >= _SHORTEST and len(value) <= _LONGEST
        return is_fit and words in self.words


def _taken_apart(text: str) -> Answer:
    dates, rest = _dates_of(text)
    return Answer(_words(text), frozenset(_numbers_in(rest)), frozenset(dates))


_remembered: Final = lru_cache(maxsize=256)(_taken_apart)


def unsourced_numbers(text: str, sources: Sequence[Answer]) -> int:
    """Count the numbers and dates of a text that no source has.

    Numbers that stand in many texts by chance are not counted.
    """
    dates, rest = _dates_of(text)
    days: dict[object, list[Date]] = {}
    for date in dates:  # 05/06/2024 is one date of two readings
        days.setdefault((date[0], frozenset(date[1:])), []).append(date)
    known = {date for each in sources for date in each.dates}
    found = sum(
        not any(_is_same_day(one, other) for one in readings for other in known)
        for readings in days.values()
    )
    for match in _NUMBER.finditer(rest):
        readings = set(_numbers_in(match[0]))
        found += bool(readings) and all(each.numbers.isdisjoint(readings) for each in sources)
    return found


def _leaves(value: JsonValue) -> Iterator[JsonValue]:
    """Values without those that hold others; a text that is an object or list is opened."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and each.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                each = json.loads(each)
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            yield each


def _words(text: str) -> str:
    apart = text if text.isascii() else _LETTER.sub(r" \g<0> ", text)
    return f" {_NO_WORD.sub(' ', apart.casefold()).strip()} "


def _is_same_day(one: Date, other: Date) -> bool:
    years = {one[0], other[0]} - {None}
    return one[1:] == other[1:] and len(years) < 2


def _dates_of(text: str) -> tuple[set[Date], str]:
    """Find the dates in a text; gives the rest of it, too."""
    matches = [match for form in _DATES for match in form.finditer(text)]
    rest = text
    for form in _DATES if matches else ():
        rest = form.sub(" ", rest)
    return {date for match in matches if (date := _date(match)) is not None}, rest


def _date(match: re.Match[str]) -> Date | None:
    word, year = match["month"].lower(), match["year"]
    month, day = _MONTHS.get(word) or int(word), int(match["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return (None if year is None else int(year)), month, day


def _numbers_in(text: str) -> Iterator[Decimal]:
    for match in _NUMBER.finditer(text):
        for number in _readings(match[1]):
            if match[2]:
                yield number / 100
            yield from _telling(number)


def _telling(number: Decimal) -> Iterator[Decimal]:
    """A number, unless it stands in many answers by chance."""
    if number >= 10 or number != number.to_integral_value():
        yield number


def _readings(text: str) -> set[Decimal]:
    """Numbers that a text may mean: `1,200` is 1200 here and 1.2 there."""
    plain = _SPACES.sub("", text)
    marks = [each for each in plain if each in ".,"]
    if not marks:
        return {Decimal(plain)}
    whole, (_, _, tail) = re.sub("[.,]", "", plain), plain.rpartition(marks[-1])
    decimal = Decimal(f"{whole[: len(whole) - len(tail)]}.{tail}")
    if len(set(marks)) > 1:
        return {decimal}
    if len(marks) > 1:
        return {Decimal(whole)}
    return {decimal, Decimal(whole)} if len(tail) == 3 else {decimal}
