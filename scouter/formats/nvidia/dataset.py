"""A dataset: rows of a file, filtered and repeated, as items for evaluators."""

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from scouter.errors import ConfigError
from scouter.evaluate.report.evaluator import EvalItem, plain_json
from scouter.evaluate.report.field_metrics import Compat
from scouter.formats.nvidia.config import DatasetConfig, FilterEntry
from scouter.formats.nvidia.rows import Row, read_rows

CONVERSATION_KEY: Final = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Number of times that each row is asked; `repeats` and `adjust` exclude each other."""

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
        sizing: Number of times that rows are asked.
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
    asked = [row.get(key) for row in rows]
    if compat != "sound" and asked and all(isinstance(each, int | float) for each in asked):
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


def entry_of(item: EvalItem) -> dict[str, Any]:
    """The row of an item, to be changed."""
    return dict(cast("Mapping[str, Any]", item.entry))
