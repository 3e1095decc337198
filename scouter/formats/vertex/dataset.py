"""Datasets: rows of prompts, answers and trajectories, from files and from memory."""

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError, FileFormatError
from scouter.evaluate.files.read import (
    check_extension,
    read_csv,
    read_document,
    read_json_lines,
)
from scouter.model.json_value import parse_if_json, to_json_value

Row: TypeAlias = dict[str, JsonValue]

TRAJECTORIES: Final = ("predicted_trajectory", "reference_trajectory")
"""Columns whose cells may be JSON text, as a cell of CSV is."""

_ELSEWHERE: Final = {
    "gs://": "copy it with `gcloud storage cp {} .` and give the local file",
    "bq://": "export the table to JSON lines or Parquet with `bq extract` and give the file ({})",
}


def read_dataset(source: object) -> list[Row]:
    """Read the rows of a dataset.

    Args:
        source: Rows (a list of objects), columns (an object of lists of one length), a frame of
            pandas or polars or a table of pyarrow, or the path of a `.jsonl`, `.json`, `.csv` or
            `.parquet` file. Trajectories may be JSON text in every cell.

    Returns:
        One object per row; what a frame has no value for is None.

    Raises:
        ConfigError: An address in Cloud Storage or BigQuery (says what to do), a file that cannot
            be read, or something that is no dataset.
        DataError: A value has no JSON form; names the row.

    Cost: linear in the dataset, which is in memory.
    """
    if isinstance(source, str | Path):
        return _read_file(str(source))
    if isinstance(source, Mapping):
        return _from_columns(cast("Mapping[object, object]", source))
    if not isinstance(source, list | tuple):
        kind, source = type(source).__name__, to_json_value(source)
    else:
        kind = "list"
    if not isinstance(source, list | tuple):
        raise ConfigError(f"dataset: got {kind}; expected rows, columns, a frame or a path")
    return [_row(row, at) for at, row in enumerate(cast("Sequence[object]", source))]


def _row(value: object, at: int) -> Row:
    try:
        row = to_json_value(value)
    except DataError as error:
        raise DataError(f"dataset[{at}]: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"dataset[{at}]: got {type(value).__name__}; expected an object")
    for name in TRAJECTORIES:
        if name in row:
            row[name] = parse_if_json(row[name])
    return row


def _from_columns(columns: Mapping[object, object]) -> list[Row]:
    plain = to_json_value(columns)
    lists = {name: cells for name, cells in cast("Row", plain).items() if isinstance(cells, list)}
    if not lists or len(lists) < len(columns):
        raise ConfigError("dataset: of an object each key is a column, and its value a list")
    lengths = {name: len(cells) for name, cells in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"dataset: its columns have different lengths: {lengths}")
    rows = (dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True))
    return [_row(row, at) for at, row in enumerate(rows)]


def _read_file(path: str) -> list[Row]:
    for scheme, advice in _ELSEWHERE.items():
        refuse_elsewhere(path, advice, scheme)
    return _READERS[check_extension(path, tuple(_READERS))](path)


def refuse_elsewhere(path: str, advice: str, scheme: str = "gs://") -> None:
    """Refuse an address that is no path of this machine.

    Args:
        path: A path, or an address.
        advice: What to do, with `{}` for the address.
        scheme: The beginning of such an address.

    Raises:
        ConfigError: It is one.
    """
    if path.startswith(start := scheme[:-1]):  # a Path has one slash of two
        address = scheme + path.removeprefix(start).lstrip("/")
        raise ConfigError(f"{address} is not on this machine: {advice.format(address)}")


def _read_json(path: str) -> list[Row]:
    value = read_document(path).value
    if not isinstance(value, list | dict):
        raise FileFormatError(path, "neither a list of rows nor an object of columns")
    try:
        return read_dataset(value)
    except (ConfigError, DataError) as error:
        raise FileFormatError(path, str(error)) from error


def _read_json_lines(path: str) -> list[Row]:
    return [_row(document.value, at) for at, document in enumerate(read_json_lines(path))]


def _read_csv(path: str) -> list[Row]:
    return [
        _row({name: _cell(name, cell) for name, cell in cells.items()}, at)
        for at, cells in enumerate(read_csv(path))
    ]


def _cell(name: str, cell: str) -> object:
    """A cell; a trajectory also with the quotes of Python, as a frame of lists writes it."""
    if name in TRAJECTORIES and parse_if_json(cell) is cell:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(cell)
    return cell or None


def _read_parquet(path: str) -> list[Row]:
    """Read Parquet; of a struct, fields that are null are left out.

    Its type gives every object the keys of all, so that an absent key is like one with null.
    """
    try:
        pa: Any = import_module("pyarrow")  # its types are not complete
        pq: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            f"{path}: Parquet needs pyarrow, which is not installed: pip install pyarrow"
        ) from error
    try:
        table: Any = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot read the file: {error}") from error
    rows = [_row(row, at) for at, row in enumerate(cast("list[object]", table.to_pylist()))]
    nested = [field.name for field in table.schema if "struct<" in str(field.type)]
    for row in rows:
        for name in nested:
            row[name] = _without_nulls(row[name])
    return rows


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return value


_READERS: Final[dict[str, Callable[[str], list[Row]]]] = {
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
