"""Composed and decomposed texts are one text to every operator."""

import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.equality import canonical
from scouter.evaluate.operators.table import compile_comparison

NFC, NFD = "Café Zoë", "Cafe\u0301 Zoe\u0308"
assert (unicodedata.normalize("NFC", NFD), unicodedata.normalize("NFD", NFC)) == (NFC, NFD)


def decomposed(value: Any) -> Any:
    """The same value with all texts and keys taken apart."""
    if isinstance(value, str):
        return unicodedata.normalize("NFD", value)
    if isinstance(value, list):
        return [decomposed(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {decomposed(key): decomposed(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


CASES: list[tuple[str, Any, Any, bool]] = [
    ("Equals", NFC, NFC, True),
    ("NotEqual", NFC, NFC, False),
    ("Equals", {"naïve": ["é"]}, {"naïve": ["é"]}, True),
    ("DeepEquals", NFC, NFC, True),
    ("DeepEquals", {"é": {"ü": "ö"}}, {"é": {"ü": "ö"}}, True),
    ("DeepEquals", {"é": 1}, {"e": 1}, False),
    ("SequenceMatches", ["é", "a"], ["é", "a"], True),
    ("SetEquals", ["é", "a"], ["a", "é", "é"], True),
    ("Contains", NFC, "fé", True),
    ("Contains", NFC, "fe", False),
    ("Contains", ["x", "é"], "é", True),
    ("Contains", [{"é": 1}], {"é": 1}, True),
    ("NotContains", NFC, "fé", False),
    ("NotContains", NFC, "fe", True),
    ("ContainsAll", NFC, ["é", "ë"], True),
    ("ContainsAll", ["é", "ë"], ["é", "ë"], True),
    ("ContainsAny", NFC, ["x", "ë"], True),
    ("ContainsAny", NFC, ["e"], False),
    ("ContainsNone", NFC, ["é"], False),
    ("ContainsNone", ["é"], ["é"], False),
    ("ContainsWord", NFC, "Café", True),
    ("ContainsWord", NFC, "Cafe", False),
    ("StartsWith", NFC, "Café", True),
    ("StartsWith", NFC, "Cafe", False),
    ("EndsWith", NFC, "oë", True),
    ("Matches", NFC, "^Caf. Zo[ë]$", True),
    ("MatchesRegex", NFC, "é", True),
    ("SimilarityAtLeast", NFC, [NFC, 1], True),
    ("HasLengthEqual", NFC, 8, True),
    ("HasLengthGreaterThan", NFC, 8, False),
    ("HasLengthLessThanOrEqual", NFC, 8, True),
    ("HasUniqueItems", ["é", "e"], True, True),
    ("IsAlphabetic", "Café", True, True),
    ("IsAlphanumeric", "Café1", True, True),
    ("IsLowerCase", "é", True, True),
    ("IsUpperCase", "É", True, True),
    ("IsEmail", "zoë@café.fr", True, True),
    ("IsString", NFC, True, True),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "value", "expected", "passes"), CASES)
def test_every_operator_sees_one_text(
    operator: str, value: Any, expected: Any, passes: bool
) -> None:
    for actual in (value, decomposed(value)):
        for wanted in (expected, decomposed(expected)):
            comparison = compile_comparison(Op[operator], wanted)
            seen = actual if comparison.measure is None else comparison.measure(actual)
            assert comparison.check(seen) is passes, (actual, wanted)


def test_every_operator_on_texts_is_tried() -> None:
    tried = {operator for operator, *_ in CASES}
    no_texts = {op.value for op in Op if "Tolerance" in op or "Range" in op}
    no_texts |= {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}
    no_texts |= {"IsPositive", "IsNegative", "IsZero", "ApproximatelyEquals"}
    blind = {"IsNumeric", "IsBoolean", "IsNull", "IsArray", "IsObject", "IsEmpty", "IsNotEmpty"}
    ascii_only = {"IsUrl", "IsUuid", "IsIso8601", "IsJson"}
    alike = {"HasLengthLessThan", "HasLengthGreaterThanOrEqual"}
    as_sent = {"MatchesJsonSchema"}
    assert {op.value for op in Op} - no_texts - blind - ascii_only - alike - as_sent == tried


def test_twins_are_no_unique_items() -> None:
    assert compile_comparison(Op.HasUniqueItems, True).check(["é", "e\u0301"]) is False
    assert compile_comparison(Op.HasUniqueItems, False).check(["é", "e\u0301"]) is True


def test_what_stays_apart() -> None:
    for left, right in (("ﬁ", "fi"), ("①", "1"), ("É", "é"), ("ß", "ss")):
        assert not compile_comparison(Op.Equals, left).check(right)
    assert compile_comparison(Op.Equals, "K").check("\u212a")  # Unicode's one letter twice: Kelvin
    assert compile_comparison(Op.Equals, {"é": 1, "e\u0301": 2}).check({"e\u0301": 2, "é": 1})


@given(st.text())
def test_it_is_what_unicode_says(text: str) -> None:
    assert canonical(text) == unicodedata.normalize("NFC", text)


@given(
    st.text(
        st.sampled_from("e\u0301\u0323\u0308\u09c7\u09be\u1100\u1161\u11a8\uac00é "), max_size=28
    ),
    st.integers(0, 300),
)
def test_places_in_long_texts(part: str, before: int) -> None:
    """Wherever the marks stand in a text; fewer than 31 of them."""
    text = "é" * before + part + "é" * 200
    assert canonical(text) == unicodedata.normalize("NFC", text)


@pytest.mark.pace
def test_many_marks_cost_no_square() -> None:
    """Unicode's own ordering of 2,000,000 marks would take hours."""
    text = "a" + "\u0301\u0323" * 1_000_000
    started = time.process_time()
    assert canonical(text) is text
    assert canonical("a" + "\u0301\u0323" * 15) != "a" + "\u0301\u0323" * 15
    assert time.process_time() - started < 5
