"""Every row of docs/contexts.md is what happens."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import http
import ipaddress
import json
import math
import pathlib
import re
import subprocess
import sys
import types
import uuid
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
import pytest

from scouter.errors import DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model import json_value
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "contexts.md"


class Colour(enum.Enum):
    RED = "red"


class Answer(pydantic.BaseModel):
    text: str
    when: datetime.date


@dataclasses.dataclass
class Call:
    name: str
    args: tuple[str, ...]


class Broken:
    def model_dump(self, *, mode: str) -> object:
        raise RuntimeError("no luck")


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def shared_widely() -> list[Any]:
    value: list[Any] = [0]
    for _ in range(40):
        value = [value, value]
    return value


NAMES: dict[str, Any] = {
    "Answer": Answer, "Broken": Broken, "Call": Call, "Colour": Colour, "HALF": chr(0xD800),
    "UTC": datetime.UTC, "array": array, "collections": collections, "cycle": cyclic(),
    "datetime": datetime, "decimal": decimal, "deep": deep, "fractions": fractions, "http": http,
    "ipaddress": ipaddress, "math": math, "np": np, "pa": pa, "pathlib": pathlib, "pd": pd,
    "pl": pl, "pydantic": pydantic, "re": re, "shared": {"x": 1}, "types": types, "uuid": uuid,
    "wide": shared_widely(),
}  # fmt: skip


def rows() -> list[tuple[str, str, bool]]:
    """Expression, what the page says of it, and whether it is refused."""
    found: list[tuple[str, str, bool]] = []
    refused = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        refused = refused or line == "## Refused contexts"
        cells = re.match(r"\| `(.+?)` \| `(.+?)` \| .*\|$", line)
        if cells:
            found.append((cells[1], cells[2], refused))
        assert cells or not line.startswith("| `"), f"a row that no test reads: {line}"
    return found


ROWS = rows()


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 80
    assert sum(refused for _, _, refused in ROWS) > 15


@pytest.mark.parametrize(
    ("expression", "said"), [pytest.param(a, b, id=a) for a, b, refused in ROWS if not refused]
)
def test_values(expression: str, said: str) -> None:
    value = eval(expression, dict(NAMES))  # noqa: S307 — the page is ours
    found = to_json_value(value)
    wanted = json.loads(said)
    assert json.dumps(found, ensure_ascii=False) == json.dumps(wanted, ensure_ascii=False)


@pytest.mark.parametrize(
    ("expression", "said"), [pytest.param(a, b, id=a) for a, b, refused in ROWS if refused]
)
def test_refusals(expression: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = eval(expression, dict(NAMES))  # noqa: S307 — the page is ours
    said = said.replace(f"{json_value.MAX_VALUES:,}", "50,000")  # five million take seconds
    monkeypatch.setattr(json_value, "MAX_VALUES", 50_000)
    with pytest.raises(DataError, match=re.escape(said)):
        to_json_value(value)
    record = EvalRecord({"x": value})
    task = AssertionTask(id="t", context_path="y", operator=ComparisonOperator.IsNull)
    judged, other = EvalDataset([record, EvalRecord({"y": None})], [task]).evaluate().records
    assert (str(judged.outcome), str(other.outcome)) == ("errored", "passed")
    assert "x" in judged.tasks[0].message


@pytest.mark.parametrize(
    "expression", [pytest.param(a, id=a) for a, _, refused in ROWS if not refused]
)
def test_evaluation_reads_what_the_page_says(expression: str) -> None:
    """Read in place or copied: the actual value is the same."""
    value = eval(expression, dict(NAMES))  # noqa: S307 — the page is ours
    task = AssertionTask(id="t", context_path="x", operator=ComparisonOperator.IsNull)
    [judged] = EvalDataset([EvalRecord({"x": value})], [task]).evaluate().records
    assert json.dumps(judged.tasks[0].actual) == json.dumps(to_json_value(value))


def test_the_limits_are_reached_and_not_passed() -> None:
    assert to_json_value(deep(100)) == deep(100)


def test_nothing_is_imported_to_read_them() -> None:
    code = (
        "import sys, scouter.model.json_value as j\n"
        "j.to_json_value({'a': [1, (2,)]})\n"
        "assert not {'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
