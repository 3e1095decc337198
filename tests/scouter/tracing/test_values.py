"""A captured value is read as far as it is stored, and no further."""

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pydantic import BaseModel, Field

from scouter.model.json_value import to_json_value
from scouter.model.span import CUT
from scouter.tracing.values import MAX_JSON_NODES, BoundedCopy, json_text

NODES = 50


class Colour(enum.Enum):
    RED = "red"


class Name(str):
    """A text with a class of its own."""

    __slots__ = ()


class Order(BaseModel):
    sku: str
    when: datetime.date
    secret: str = Field(default="s", exclude=True)


@dataclasses.dataclass
class Call:
    name: str
    orders: tuple[Order, ...]


def bounded(value: object, max_length: int = 1000, max_chars: int = 100_000) -> Any:
    return BoundedCopy(max_length, NODES, max_chars).of(value)


DAY = datetime.date(2025, 1, 2)


NUMBERS: Any = np.zeros(6_000_000)
ARROW: Any = pa  # whose types nobody knows


VALUES: list[Any] = [
    {"a": [1, 2.5, None, True, math.nan, -math.inf, 2**70, "x", Name("n"), Colour.RED]},
    {1: 1, Colour.RED: 2, 2.5: 3, DAY: 5, np.int64(7): 6},
    (DAY, datetime.timedelta(seconds=3), uuid.UUID(int=1), decimal.Decimal("1.50")),
    [b"raw", bytearray(b"ab"), memoryview(b"abc")],
    [{"b", "a"}, frozenset({3, 1}), deque([1]), range(3), MappingProxyType({"a": (1,)})],
    Call("c", (Order(sku="x", when=DAY),)),
    [np.arange(3), np.ones((2, 3)), np.float32(1.5), np.array("2025-01-02", "M8[D]")],
    np.array([["2025-01-02", "NaT"]], "M8[D]"),
    [pd.Series([1, 2], index=[5, 6]), pd.DataFrame({"a": [1, 2]}), pd.Index(["x"]), pd.NaT],
    [pl.Series([1, 2]), pl.DataFrame({"a": [1, 2]})],
    [
        ARROW.array([1, 2]),
        ARROW.table({"a": [1, 2]}),
        ARROW.scalar([1, 2]),
        ARROW.chunked_array([[1]]),
    ],
]


@pytest.mark.parametrize("value", VALUES)
def test_within_the_bounds_it_is_the_documented_rule(value: object) -> None:
    assert bounded(value) == to_json_value(value)


class Fields(Mapping[str, int]):
    """A million fields; counts how many are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 1_000_000

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self)))

    def __getitem__(self, key: str) -> int:
        self.reads += 1
        return int(key)


def test_only_what_is_stored_is_read() -> None:
    fields = Fields()
    assert len(bounded({"fields": fields})["fields"]) < NODES
    assert fields.reads < NODES
    json_text(fields, 1000)
    assert fields.reads < NODES + MAX_JSON_NODES


LONG: list[Any] = [
    range(10**12),
    np.broadcast_to(1.5, (10**12,)),
    np.broadcast_to(1.5, (10**6, 10**6)),
    np.broadcast_to(1.5, (2, 10**12)),
    pd.Series(NUMBERS),
    pl.Series(NUMBERS),
    ARROW.array(NUMBERS),
    pl.DataFrame({"a": NUMBERS}),
    set(range(1000)),
]


@pytest.mark.parametrize("value", LONG, ids=lambda value: type(value).__name__)
def test_of_what_is_too_long_the_start_is_stored(value: object) -> None:
    """Of 10**12 values nobody could read all; of 6 million `to_json_value` would refuse all."""
    found = bounded([value])
    assert str(found).count(CUT) in {1, 2, 3}
    assert 20 < str(found).count(", ") + str(found).count("[") <= NODES + 3
    assert found[0][0] in (0, 1.5, {"a": 0.0}) or found[0][0][0] == 1.5


def test_texts_are_cut_before_they_are_read() -> None:
    texts = [b"x" * 1000, Name("ab\ud800cd"), "y" * 9]
    assert bounded(texts, max_length=4) == ["eHh4", "ab\ufffdc", "yyyy"]
    assert bounded({"k" * 50: "x", "more": 1}, max_chars=10) == {"k" * 10: "", CUT: CUT}


class Unshowable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class Broken(Sequence[int]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        if index == 0:
            return 1
        raise ZeroDivisionError


class Mocked:
    """Has any method that is requested, and each gives the same again."""

    def __getattr__(self, name: str) -> Any:
        del name

        def given(**options: object) -> "Mocked":
            del options
            return self

        return given

    def __repr__(self) -> str:
        return "<mocked>"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, Unshowable(), len], [1, "<Unshowable>", repr(len)]),
        ([10**5000, 1], ["<int>", 1]),
        ({(1, 2): "x"}, {"(1, 2)": "x"}),
        ([1 + 2j, Colour], ["(1+2j)", repr(Colour)]),
        ([Broken()], [[1, CUT]]),
        ([Mocked()], ["<mocked>"]),
    ],
)
def test_what_cannot_be_read_costs_its_own_place_only(value: object, found: object) -> None:
    assert bounded(value) == found


def test_what_is_inside_itself_ends_there() -> None:
    parent: dict[str, Any] = {"name": "p"}
    parent["children"] = [{"name": "c", "parent": parent}]
    assert bounded(parent) == {"name": "p", "children": [{"name": "c", "parent": CUT}]}

    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert CUT in str(BoundedCopy(9, 10_000, 9).of(deep))
