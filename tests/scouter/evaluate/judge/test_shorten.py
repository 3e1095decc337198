"""Long values: both ends stay, and the middle is counted."""

import json

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scouter.evaluate.judge.prompt import MAX_VALUE_CHARACTERS, Prompt
from scouter.evaluate.judge.render import compile_prompt
from scouter.evaluate.judge.shorten import shorten


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("", 4, ""),
        ("abcd", 4, "abcd"),
        ("abcde", 4, "ab [… 1 characters left out …] de"),
        ("abcdefg", 5, "abc [… 2 characters left out …] fg"),
        ("abcde", 1, "a [… 4 characters left out …] "),
        ("x" * 5_000, 4, "xx [… 4,996 characters left out …] xx"),
    ],
)  # fmt: skip
def test_both_ends_stay(text: str, most: int, shown: str) -> None:
    assert shorten(text, most) == shown


@given(st.text(), st.integers(1, 50))
def test_what_stays_is_the_texts_own(text: str, most: int) -> None:
    """Nothing is lost silently: both ends and the number of the rest make the length."""
    shown = shorten(text, most)
    if len(text) <= most:
        assert shown == text
        return
    found = regex.fullmatch(r"(?s)(.*) \[… ([\d,]+) characters left out …\] (.*)", shown)
    assert found is not None
    head, left_out, tail = found.groups()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(left_out.replace(",", "")) + len(tail) == len(text)
    assert len(head) + len(tail) <= most


def value_of(value: object, **fields: int) -> str:
    prompt = Prompt("${v}", "m", "openai", fence=False, **fields)  # pyright: ignore[reportArgumentType] — of one kind
    return compile_prompt(prompt)({"v": value})[0]["content"]  # pyright: ignore[reportArgumentType] — plain JSON


@pytest.mark.parametrize("length", [99, 100])
def test_a_value_up_to_the_bound_is_whole(length: int) -> None:
    assert value_of("x" * length, max_value_characters=100) == "x" * length


def test_a_value_beyond_it_says_what_is_missing() -> None:
    assert value_of("a" * 51 + "b" * 50, max_value_characters=100) == (
        "a" * 50 + " [… 1 characters left out …] " + "b" * 50
    )
    long = "a" * MAX_VALUE_CHARACTERS
    assert value_of(long) == long
    assert "[… 1 characters left out …]" in value_of(long + "a")


def test_cut_json_says_that_it_is_none() -> None:
    """`[1, 1, …]` of 40 items is 120 characters long."""
    whole = json.dumps([1] * 40)
    assert value_of([1] * 40, max_value_characters=120) == whole
    assert value_of([1] * 40, max_value_characters=100) == (
        f"{whole[:50]} [… 20 characters of JSON, so that this is no whole JSON value, left out …] "
        f"{whole[-50:]}"
    )


@pytest.mark.parametrize("most", [99, 10_000_001, 0])
def test_the_bound_has_bounds(most: int) -> None:
    with pytest.raises(ValidationError, match="max_value_characters"):
        Prompt("x", "m", "openai", max_value_characters=most)


def test_the_bound_is_stored_with_the_prompt() -> None:
    prompt = Prompt("x", "m", "openai", max_value_characters=500)
    assert Prompt.model_validate_json(prompt.model_dump_json()) == prompt
    assert "max_value_characters" not in Prompt("x", "m", "openai").model_dump(mode="json")
