"""One dataset in every form, and what is none."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pandas as pd
import polars as pl
import pyarrow
import pyarrow.parquet
import pytest

from scouter.errors import ConfigError, DataError, FileFormatError
from scouter.formats.vertex.dataset import read_dataset
from scouter.formats.vertex.eval_task import EvalTask

pa: Any = pyarrow  # its types are not complete
pq: Any = pyarrow.parquet

ROWS: Final[list[dict[str, Any]]] = [
    {
        "prompt": "one",
        "predicted_trajectory": [{"tool_name": "a", "tool_input": {"x": 1, "on": None}}],
        "reference_trajectory": [{"tool_name": "a", "tool_input": {"on": None, "x": 1.0}}],
    },
    {
        "prompt": "zwei, \u00e9\n",
        "predicted_trajectory": [
            {"tool_name": "a", "tool_input": {"x": 1}},
            {"tool_name": "b", "tool_input": {"deep": {"list": [1, "2"]}}},
        ],
        "reference_trajectory": [{"tool_name": "b", "tool_input": {"deep": {"list": [1, "2"]}}}],
    },
]
METRICS: Final = ["trajectory_exact_match", "trajectory_precision", "trajectory_recall"]
TEXTS: Final = [
    {name: v if name == "prompt" else json.dumps(v) for name, v in row.items()} for row in ROWS
]


def _json(path: Path) -> Path:
    path = path / "rows.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return path


def _columns(path: Path) -> Path:
    path = path / "columns.json"
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    path.write_text(json.dumps(columns), encoding="utf-8")
    return path


def _jsonl(path: Path) -> Path:
    path = path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


def _csv(path: Path) -> Path:
    path = path / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(TEXTS)
    return path


def _pandas_csv(path: Path) -> Path:
    path = path / "pandas.csv"
    pd.DataFrame(TEXTS).to_csv(path, index=False)
    return path


def _parquet(path: Path) -> Path:
    path = path / "texts.parquet"
    pq.write_table(pa.Table.from_pylist(TEXTS), path)
    return path


def _table(_: Path) -> object:
    return pa.Table.from_pylist(TEXTS)


FORMS: Final[list[Callable[[Path], object]]] = [
    lambda _: ROWS,
    lambda _: tuple(ROWS),
    lambda _: {name: [row[name] for row in ROWS] for name in ROWS[0]},
    lambda _: pd.DataFrame(ROWS),
    lambda _: pd.DataFrame(TEXTS),
    lambda _: pl.DataFrame(TEXTS),
    _table,
    _json,
    _columns,
    _jsonl,
    lambda path: str(_jsonl(path)),
    _csv,
    _pandas_csv,
    _parquet,
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_rows(form: Callable[[Path], object], tmp_path: Path) -> None:
    source = form(tmp_path)
    assert read_dataset(source) == ROWS
    found = EvalTask(source, METRICS).evaluate()
    assert [found.rows[at]["trajectory_exact_match/score"] for at in (0, 1)] == [1.0, 0.0]
    assert found.summary_metrics["trajectory_precision/mean"] == 0.75


def test_structs_of_parquet(tmp_path: Path) -> None:
    """Their type gives every call the arguments of all, as null; these are left out."""
    path = tmp_path / "structs.parquet"
    calls = [{"tool_name": "a", "tool_input": {"x": 1, "on": None}}]
    others = [{"tool_name": "b", "tool_input": {"deep": {"list": [1, 2]}, "on": True}}]
    rows = [{"note": None, "predicted_trajectory": each} for each in (calls, others)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    first, second = read_dataset(path)
    assert first == {
        "note": None,
        "predicted_trajectory": [{"tool_name": "a", "tool_input": {"x": 1}}],
    }
    assert second == rows[1]


def test_long_cells_of_csv(tmp_path: Path) -> None:
    """Longer than Python's module takes by default; its limit is as it was afterwards."""
    before = csv.field_size_limit()
    path = tmp_path / "long.csv"
    calls = json.dumps([{"tool_name": "a", "tool_input": {"x": "y" * 200_000}}])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["predicted_trajectory", "empty"], [calls, ""]])
    (row,) = read_dataset(path)
    assert row == {"predicted_trajectory": json.loads(calls), "empty": None}
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("gs://bucket/eval.jsonl", "gcloud storage cp gs:"),
        ("bq://project.data.table", "bq extract"),
    ],
)
def test_other_places(as_path: Callable[[str], object], address: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        read_dataset(as_path(address))


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (7, ConfigError, "got int; expected rows, columns, a frame or a path"),
        ([7], ConfigError, r"dataset\[0\]: got int; expected an object"),
        ([{"a": object()}], DataError, r"dataset\[0\]: a: 'object' has no JSON form"),
        ({"a": 1}, ConfigError, "each key is a column"),
        ({"a": [1], "b": [1, 2]}, ConfigError, "different lengths"),
        ("missing.jsonl", FileFormatError, "cannot read the file"),
        ("rows.xlsx", FileFormatError, "Unsupported extension"),
    ],
)
def test_what_is_no_dataset(source: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_dataset(source)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", '"a"', "neither a list of rows nor an object of columns"),
        ("x.json", '{"a": 1}', "x.json.*each key is a column"),
        ("x.csv", "a,b\n1\n", "row 1 has not 2 cells"),
        ("x.csv", "a,b\n1,2,3\n", "row 1 has not 2 cells"),
        ("x.csv", 'a\n"1\n', "no CSV"),
        ("x.parquet", "text", "cannot read the file"),
    ],
)
def test_files_that_are_wrong(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        read_dataset(tmp_path / name)


def test_csv_of_a_frame_with_lists(tmp_path: Path) -> None:
    """`to_csv` writes lists with the quotes of Python; a cell that is neither stays a text."""
    calls = [{"tool_name": "x", "tool_input": {"q": "it's", "on": True, "no": None}}]
    pd.DataFrame({"predicted_trajectory": [calls, "[oops"]}).to_csv(tmp_path / "d.csv", index=False)
    first, second = read_dataset(tmp_path / "d.csv")
    assert first["predicted_trajectory"] == calls
    assert second["predicted_trajectory"] == "[oops"
