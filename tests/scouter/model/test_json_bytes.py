"""JSON text of a value is what the rule of `to_json_value` says, whichever way it is written."""

import datetime
import enum
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.errors import DataError
from scouter.model import json_value
from scouter.model.json_value import MAX_DEPTH, to_json_bytes, to_json_value


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    """Shows itself as something else."""

    def __str__(self) -> str:
        return "shown"


@dataclass
class Point:
    x: int


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def twice(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value, value]
    return value


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(max_size=4),
    st.frozensets(st.integers(), max_size=3),
    st.datetimes(),
    st.just(Colour.RED),
    st.just(Text("real")),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(st.characters()), st.integers()), inner, max_size=4),
    ),
    max_leaves=20,
)


@given(trees)
def test_the_text_is_read_as_the_rules_tree(value: object) -> None:
    """Over trees of plain and of other values, half characters and numbers that JSON lacks."""
    try:
        expected = to_json_value(value)
    except DataError:
        with pytest.raises(DataError):
            to_json_bytes(value)
        return
    assert json.loads(to_json_bytes(value)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": (1, 2.5, None, True)}, '{"a":[1,2.5,null,true]}'),
        ({"é": "日本\n"}, '{"é":"日本\\n"}'),
        ([math.nan, -math.inf, -0.0], "[null,null,-0.0]"),
        ({2: "a"}, '{"2":"a"}'),
        ("half \ud800", '"half \ufffd"'),
        ({"half \ud800": 1}, '{"half \ufffd":1}'),
        ([10**30], "[1000000000000000000000000000000]"),
        ({"b", "a"}, '["a","b"]'),
        ([b"\xfb\xff"], '["+/8="]'),
        ([datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)], '["2025-01-02T00:00:00+00:00"]'),
        ([Point(1)], '[{"x":1}]'),
        (OrderedDict[str, object](a=Colour.RED), '{"a":"red"}'),
        ([Text("real")], '["real"]'),
        ("9" * 5000, '"' + "9" * 5000 + '"'),
    ],
)
def test_by_hand(value: Any, text: str) -> None:
    assert to_json_bytes(value).decode() == text


def loop() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: [object()],
        lambda: {None: 1},
        lambda: {1: "a", "1": "b"},
        lambda: [1j],
        lambda: [10**4200],
        lambda: [10**5000],
        lambda: nested(MAX_DEPTH + 1),
        lambda: nested(5000),
        lambda: twice(40),
        loop,
    ],
)
def test_what_the_rule_refuses_is_refused(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_value, "MAX_VALUES", 50_000)  # five million take seconds to count
    with pytest.raises(DataError):
        to_json_bytes(make())


def test_the_deepest_that_the_rule_takes_is_taken() -> None:
    value = nested(MAX_DEPTH)

    assert json.loads(to_json_bytes(value)) == value


def test_no_limit_of_the_interpreter_on_digits_holds() -> None:
    """It is there against slow conversions to text; these digits are not written by Python."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert to_json_bytes({"a": 10**700}) == b'{"a":1' + b"0" * 700 + b"}"
    finally:
        sys.set_int_max_str_digits(before)
