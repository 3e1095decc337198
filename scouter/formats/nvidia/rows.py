"""The rows of a dataset file, as they stand there or as the toolkit's own reader makes them."""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.read import parse_json, read_csv, read_json_lines, read_text
from scouter.evaluate.report.field_metrics import Compat

Row: TypeAlias = dict[str, Any]
"""Values of a row, by column.

`Any`, as the toolkit's reader makes numbers and times of its own of the values.
"""

_NO_PACKAGE: Final = "needs the package {0}: pip install {0}"


def read_rows(path: Path, kind: str, compat: Compat = "sound") -> list[Row]:
    """Read the rows of a file.

    Args:
        path: The file.
        kind: `json`, `jsonl`, `csv`, `parquet` or `xls`.
        compat: In `sound` values are what the file says: `"001"` stays that text, and a column
            that a row does not have is not there. The others read as the toolkit does, with
            pandas, which makes numbers of such texts, and NaN of what is missing.

    Raises:
        FileFormatError: The file cannot be read; names line and field where they are known.
        ConfigError: A package is missing, or there is no such kind.
    """
    if kind == "custom":
        raise ConfigError(
            "dataset _type custom runs a function of the toolkit; write its rows into a .jsonl "
            "file and name that"
        )
    readers = _SOUND if compat == "sound" else _TOOLKIT
    if kind not in readers:
        raise ConfigError(f"dataset _type {kind!r}: save the sheet as CSV, and use _type csv")
    if not path.is_file():
        raise FileFormatError(str(path), "there is no such file")
    return readers[kind](path)


def _of_json(path: Path) -> list[Row]:
    value = parse_json(str(path), read_text(path)).value
    rows = cast("list[object]", value) if isinstance(value, list) else [None]
    if all(isinstance(row, dict) for row in rows):
        return cast("list[Row]", rows)
    raise FileFormatError(str(path), "this is no dataset", expected="a list of objects")


def _of_json_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    for document in read_json_lines(path):
        if not isinstance(document.value, dict):
            raise document.error("this line is no row", expected="an object")
        rows.append(document.value)
    return rows


def _of_csv(path: Path) -> list[Row]:
    """Cells are texts, but for lists and objects in JSON; an empty cell is not there."""
    return [{name: _cell(text) for name, text in row.items() if text} for row in read_csv(path)]


def _cell(text: str) -> JsonValue:
    if not text.startswith(("[", "{")):
        return text
    try:
        return cast("JsonValue", json.loads(text))
    except ValueError:
        return text


def _of_parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import parquet  # only who has such a file needs it
    except ImportError as error:
        raise ConfigError(f"{path}: {_NO_PACKAGE.format('pyarrow')}") from error
    try:
        rows = cast("list[Row]", parquet.read_table(path).to_pylist())
    except (OSError, ValueError) as error:
        raise FileFormatError(str(path), f"cannot read the file: {error}") from error
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _frame(read: Callable[[Any, Path], Any]) -> Callable[[Path], list[Row]]:
    """Read with pandas, whose coercions are those of the toolkit."""

    def rows(path: Path) -> list[Row]:
        try:
            import pandas  # only who wants the toolkit's own numbers needs it
        except ImportError as error:
            raise ConfigError(f"{path}: {_NO_PACKAGE.format('pandas')}") from error
        # The toolkit's pandas is 2: a null among texts is None there, and NaN since 3, which warns
        # that its way back ends with 4.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*future.infer_string")
            with pandas.option_context("future.infer_string", False):
                frame: Any = read(pandas, path)
                return [cast("Row", row.to_dict()) for _, row in frame.iterrows()]

    return rows


def _json_lines_frame(pandas: Any, path: Path) -> Any:  # noqa: ANN401 - pandas has no types
    lines = read_text(path).split("\n")
    return pandas.DataFrame([json.loads(line) for line in lines if line.strip()])


_SOUND: Final[Mapping[str, Callable[[Path], list[Row]]]] = {
    "json": _of_json, "jsonl": _of_json_lines, "csv": _of_csv, "parquet": _of_parquet,
}  # fmt: skip
_TOOLKIT: Final[Mapping[str, Callable[[Path], list[Row]]]] = {
    "json": _frame(lambda pandas, path: pandas.read_json(path)),
    "jsonl": _frame(_json_lines_frame),
    "csv": _frame(lambda pandas, path: pandas.read_csv(path)),
    "parquet": _frame(lambda pandas, path: pandas.read_parquet(path)),
    "xls": _frame(lambda pandas, path: pandas.read_excel(path, engine="openpyxl")),
}
