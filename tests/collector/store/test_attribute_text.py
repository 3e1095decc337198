"""Attributes in one text: those that are short, each found by its key and value alone."""

import json
import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store.reads import Values
from collector.store.span_rows import LONGEST, attribute_text, has_attribute, is_searched
from scouter.model.span import AttributeValue

_WORDS: Final = st.sampled_from(
    ["", "a", "b", '"', "\\", "\n", ",", ":", "{", '"a": "b"', '\n  "a": "b"', "é", "1", "12"]
)
_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from([0.5, 12.0, 1e16]) | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=2).map(tuple) | st.dictionaries(_WORDS, inner, max_size=2)
    ),
    max_leaves=4,
)


def finds(text: str, key: str, value: str) -> bool:
    """What the SQL says, read by hand: one of its forms is in the text."""
    forms = Values()
    has_attribute(key, value, forms)
    return any(str(form) in text for form in forms)


@given(attributes=st.dictionaries(_WORDS, _VALUES, max_size=4), key=_WORDS, value=_WORDS)
def test_attributes_are_found_by_their_own_key_and_value(
    attributes: dict[str, AttributeValue], key: str, value: str
) -> None:
    found = attributes.get(key)
    if isinstance(found, str):
        wanted = found == value
    elif isinstance(found, tuple):
        wanted = value in found
    else:
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        wanted = is_number and value in ("1", "12") and found == int(value)
    assert finds(attribute_text(attributes), key, value) == wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "nan"), (math.inf, "inf"), (None, "null"), (("a",), "b"), ((1,), "1")],
)
def test_what_nobody_can_write_is_not_found(value: AttributeValue, text: str) -> None:
    assert not finds(attribute_text({"k": value, "b": 1}), "k", text)


def test_long_keys_and_values_are_in_the_body_alone() -> None:
    long, short = "x" * (LONGEST + 1), "x" * LONGEST
    text = attribute_text({"long": long, "short": short, long: 1, "none": None, "list": ("a", 1)})
    assert json.loads(text) == {"short": short, "none": None, "list": ["a", 1]}
    assert is_searched(short, short)
    assert not is_searched("k", long)
    assert not is_searched(long, "v")


def test_half_a_character_and_bytes_leave_the_rest_to_be_found() -> None:
    text = attribute_text({"half": "\ud800", "bytes": b"\xff", "é": "ü", "n": 2})
    assert finds(text, "half", "�")
    assert finds(text, "é", "ü")
    assert finds(text, "n", "2")
