"""A dataset: rows of a file, filtered and repeated, as items for evaluators."""

import fnmatch
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.read import parse_json, read_csv, read_json_lines, read_text
from scouter.evaluate.report.evaluator import EvalItem, plain_json
from scouter.evaluate.report.field_metrics import Compat
from scouter.formats.nvidia.config import DatasetConfig, FilterEntry

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


CONVERSATION_KEY: Final = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Number of times that each row runs; `repeats` and `adjust` exclude each other."""

    repeats: int = 1
    """Runs of each row, each with an id of its own: `{id}_rep0`, `{id}_rep1` …"""
    adjust: bool = False
    """True if the number of rows is made to fit `concurrency`."""
    concurrency: int = 8
    passes: int = 0
    """Rows wanted, in multiples of `concurrency`; 0 for as many whole ones as there are."""


def read_dataset(
    path: str | Path,
    config: DatasetConfig,
    *,
    compat: Compat = "sound",
    sizing: Sizing | None = None,
    note: Callable[[str], None] | None = None,
    lost: Callable[[str], None] | None = None,
) -> list[EvalItem]:
    """Read the items of a dataset file.

    Args:
        path: The file.
        config: Names of its columns, and a filter of its rows.
        compat: In `sound` values stay as in the file, and missing values are absent. The others
            give the values of the toolkit, which uses pandas.
        sizing: Number of times that rows run.
        note: Is notified of rows that are left out.
        lost: Is notified of those of them whose id another row has, and that ask something else.

    Raises:
        FileFormatError: The file cannot be read.
        ConfigError: Both repeats and a size are wanted, or a row has no id.
        AttributeError: All questions are numbers, in `nat-1.9`.

    Cost: linear in the rows and patterns.
    """
    tell = note or _unheard
    rows = read_rows(Path(path), config.type, compat)
    rows = _filtered(rows, config.filter.allowlist, keep=True)
    rows = _filtered(rows, config.filter.denylist, keep=False)
    rows = _unique(rows, config.id_key, str(path), tell, lost or tell)
    rows = _sized(rows, config.id_key, sizing or Sizing())
    rows = _asking(rows, config, compat, tell)
    return [_item(row, config, compat) for row in rows]


def _unheard(text: str) -> None:
    """Nobody listens."""


def _filtered(rows: Sequence[Row], entry: FilterEntry | None, *, keep: bool) -> list[Row]:
    """Keep the rows that match an entry, or all others.

    A column that no row has is not looked at; an entry without any other lets all rows pass.
    """
    columns = {column for row in rows for column in row}
    patterns = {} if entry is None else entry.field
    patterns = {name: each for name, each in patterns.items() if name in columns}
    if not patterns:
        return list(rows)

    def matches(row: Row) -> bool:
        return all(
            any(fnmatch.fnmatch(str(row.get(name)), str(pattern)) for pattern in each)
            for name, each in patterns.items()
        )

    return [row for row in rows if matches(row) is keep]


def _unique(
    rows: Sequence[Row],
    id_key: str,
    path: str,
    tell: Callable[[str], None],
    lost: Callable[[str], None],
) -> list[Row]:
    found: dict[Any, Row] = {}
    for at, row in enumerate(rows):
        if id_key not in row:
            raise ConfigError(f"{path}: row {at} has no {id_key!r}; expected an id of its own")
        key = str(row[id_key])
        if key in found:
            is_same = plain_json(row) == plain_json(found[key])
            (tell if is_same else lost)(f"a second row with the id {key!r} is left out")
        else:
            found[key] = row
    return list(found.values())


def _sized(rows: Sequence[Row], id_key: str, sizing: Sizing) -> list[Row]:
    if sizing.repeats > 1 and sizing.adjust:
        raise ConfigError("reps and adjust_dataset_size are mutually exclusive")
    if sizing.repeats > 1:
        times = range(sizing.repeats)
        return [{**row, id_key: f"{row[id_key]}_rep{at}"} for at in times for row in rows]
    if not sizing.adjust or not rows:
        return list(rows)
    most = sizing.concurrency
    wanted = most * sizing.passes or len(rows) // most * most or most
    found: list[Row] = list(rows)
    for at in range(1, -(-wanted // len(rows))):
        found += [{**row, id_key: f"{row[id_key]}_rep{at}"} for row in rows]
    return found[:wanted]


def _asking(
    rows: Sequence[Row], config: DatasetConfig, compat: Compat, tell: Callable[[str], None]
) -> list[Row]:
    """Leave out rows that ask nothing."""
    if config.structure.disable:
        return list(rows)
    key = config.structure.question_key
    values = [row.get(key) for row in rows]
    if compat != "sound" and values and all(isinstance(each, int | float) for each in values):
        raise AttributeError("Can only use .str accessor with string values!")
    found = [row for row in rows if _is_asking(row.get(key)) or row.get(CONVERSATION_KEY)]
    if len(found) < len(rows):
        tell(f"{len(rows) - len(found)} rows without a question in {key!r} are left out")
    return found


def _is_asking(question: object) -> bool:
    if isinstance(question, str):
        return bool(question.strip())
    return question is not None and question == question


def _item(row: Row, config: DatasetConfig, compat: Compat) -> EvalItem:
    structure = config.structure
    item = EvalItem(id=row[config.id_key], entry=row, ground_truth="", answer="")
    if structure.disable:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=str)
        return replace(item, question=text)
    nothing = None if compat == "sound" else ""
    return replace(
        item,
        question=row.get(structure.question_key, ""),
        ground_truth=row.get(structure.answer_key, nothing),
        answer=row.get(structure.generated_answer_key, ""),
    )
