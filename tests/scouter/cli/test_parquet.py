"""JSON lines as Parquet: the type of each column, and that no value becomes another one."""

import io
import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from scouter.cli.export import write_parquet

LEAST, MOST = -(2**63), 2**63 - 1


def column(*values: object) -> tuple[str, list[Any]]:
    """Type and values of a column that was read."""
    lines = [json.dumps({"a": each}).encode() + b"\n" for each in values]
    pq: Any = import_module("pyarrow.parquet")  # its types are not complete
    file = io.BytesIO()
    write_parquet(lines, file, Path(tempfile.gettempdir()))
    table = pq.read_table(file)
    return str(table.schema.field("a").type), table.column("a").to_pylist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], "bool"),
        ([3, None, LEAST, MOST], "int64"),
        ([3, 0.5, 2**53, -(2**53)], "double"),
        (["x", None, "é"], "string"),
    ],
)
def test_a_plain_column_keeps_its_type(values: list[object], kind: str) -> None:
    assert column(*values) == (kind, values)


@pytest.mark.parametrize(
    "values",
    [
        [3, MOST + 1, None],
        [MOST + 1, 3],
        [None, LEAST - 1],
        [10**30, -(10**30)],
        [0.5, 2**53 + 1],
        [-(2**53) - 1, 0.5],
        [0.5, 10**30],
        [True, 1],
        [None, None],
        [{"b": 10**30}, [1, "é"], "x", 1e300],
    ],
)
def test_any_other_column_is_json_text(values: list[object]) -> None:
    """Also where a column of that type would round an integer, or not take it at all."""
    kind, found = column(*values)
    assert kind == "string"
    assert [None if each is None else json.loads(each) for each in found] == values
