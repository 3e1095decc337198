"""Any value becomes plain JSON by the documented rule, or is refused with its place."""

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections import OrderedDict, deque
from http import HTTPStatus
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from scouter.errors import DataError
from scouter.model import json_value
from scouter.model.json_value import MAX_DEPTH, plain_text, to_json_value


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Answer(BaseModel):
    text: str
    when: datetime.date


@dataclasses.dataclass
class Call:
    name: str
    args: tuple[int, ...]


class Name(str):
    """A text with a class of its own."""

    __slots__ = ()


UTC = datetime.UTC


class Broken:
    """An object whose own code raises when it is read."""

    def model_dump(self, *, mode: str) -> object:
        raise RuntimeError("no luck")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (10**30, 10**30),
        (math.nan, None),
        (-math.inf, None),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({3, 1}), [1, 3]),
        (deque([1, 2]), [1, 2]),
        (OrderedDict([("a", 1)]), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        ({1: "x", Colour.RED: "y", 2.5: "z"}, {"1": "x", "red": "y", "2.5": "z"}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Name("n"), "n"),
        (Answer(text="t", when=datetime.date(2025, 1, 2)), {"text": "t", "when": "2025-01-02"}),
        (Call("c", (1, 2)), {"name": "c", "args": [1, 2]}),
        (datetime.datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), "2025-01-02T03:04:05+00:00"),
        (datetime.time(1, 2), "01:02:00"),
        (datetime.timedelta(minutes=1), 60.0),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.10"), "1.10"),
        (PurePosixPath("a/b"), "a/b"),
        (range(3), [0, 1, 2]),
    ],
)
def test_the_rule(value: object, plain: JsonValue) -> None:
    assert to_json_value(value) == plain


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), "the top level: 'object'"),
        ({"a": [1, {"b": object()}]}, "a.1.b: 'object'"),
        ({"a": {(1, 2): "x"}}, "a: a key of type tuple"),
        ({None: 1}, "the top level: a key of type NoneType"),
        ({"f": len}, "f: 'builtin_function_or_method'"),
        (Answer, "the top level"),
        ({"n": 10**5000}, "n: an integer of more than 13,000 bits"),
        ({"a": {1: "x", "1": "y"}}, "a: two keys are the same text"),
        (Broken(), "cannot be read: RuntimeError: no luck"),
    ],
)
def test_what_has_no_json_form_is_refused_with_its_place(value: object, place: str) -> None:
    with pytest.raises(DataError, match=place):
        to_json_value(value)


HALVES = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=30)


def test_half_a_character_becomes_a_replacement_character() -> None:
    assert to_json_value({"a\ud800": ["é\udfff"]}) == {"a\ufffd": ["é\ufffd"]}
    assert plain_text("\ude00\ud83d") == "\ufffd\ufffd"
    assert plain_text("\ud83d\ude00") == "\U0001f600", "two halves that make one"


@given(HALVES)
def test_plain_text_is_what_a_reader_of_utf_16_makes_of_it(text: str) -> None:
    """Brute force over code units: a half without its other half is U+FFFD, all else stays."""
    units = [ord(char) for char in text]
    wanted, at = "", 0
    while at < len(units):
        first, second = units[at], units[at + 1] if at + 1 < len(units) else 0
        if 0xD800 <= first < 0xDC00 <= second < 0xE000:
            wanted += chr(0x10000 + (first - 0xD800 << 10) + second - 0xDC00)
            at += 1
        else:
            wanted += "\ufffd" if 0xD800 <= first < 0xE000 else text[at]
        at += 1

    assert plain_text(text) == wanted
    assert plain_text(wanted) is wanted


def test_a_subclass_counts_as_what_it_is_not_as_what_it_shows() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "LOUD"

    assert to_json_value([Loud("a"), HTTPStatus.OK]) == ["a", 200]


def test_what_is_shared_counts_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty levels of twice the same list would be 2**40 values."""
    monkeypatch.setattr(json_value, "MAX_VALUES", 50_000)
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]

    with pytest.raises(DataError, match="50,000 values"):
        to_json_value(value)


def test_a_cycle_is_refused_not_followed() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(DataError, match="inside itself"):
        to_json_value({"a": loop})


def test_depth_is_bounded_and_the_bound_itself_passes() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]

    assert to_json_value(deep) == deep
    with pytest.raises(DataError, match="levels deep"):
        to_json_value([deep])


plain_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)  # fmt: skip


@given(plain_values)
def test_plain_json_stays_and_is_a_copy(value: Any) -> None:
    """Equal to the original, and to what JSON text brings back; shares no list or dict."""
    copy = to_json_value(value)

    assert copy == value == json.loads(json.dumps(copy))
    assert to_json_value(copy) == copy
    if isinstance(value, list | dict):
        assert copy is not value
        value.clear()
        assert copy == to_json_value(copy)
