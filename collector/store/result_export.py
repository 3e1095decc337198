"""Task results as Arrow tables, with all that the texts of their evaluations say.

DuckDB could take the texts apart itself, but copies a text for each field of each result: a few
evaluations of 256 KiB took 250 MB.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from collector.store.evaluation_codec import TASK, USAGE, decode_evaluation
from collector.store.json_text import dump_json
from collector.store.rows import TaskRow

_OF_EVALUATION: Final = {
    "seq": pa.int64(), "space": pa.string(), "evaluation_id": pa.string(),
    "record_uid": pa.string(), "revision": pa.int32(), "profile_uid": pa.string(),
    "profile_digest": pa.string(), "profile_name": pa.string(), "alias": pa.string(),
    "session_id": pa.string(), "service_name": pa.string(), "service_version": pa.string(),
    "environment": pa.string(), "created_ns": pa.int64(), "evaluated_ns": pa.int64(),
}  # fmt: skip
"""Columns of the evaluation's row."""
_FIELDS: Final = (*(name for name in TASK if name not in ("usage", "stated_score")), "score")
_JSON: Final = frozenset(("expected", "actual", "answer"))
"""Fields that may be any value; their columns have JSON."""
_KINDS: Final = {
    "condition": pa.bool_(), "stage": pa.int32(), "calls": pa.int32(), "cached": pa.int32(),
    "input_tokens": pa.int64(), "output_tokens": pa.int64(), "cost_usd": pa.float64(),
    "unpriced_calls": pa.int32(), "span_ids": pa.list_(pa.string()), "score": pa.float64(),
}  # fmt: skip
_SCHEMA: Final = pa.schema(
    [
        *_OF_EVALUATION.items(),
        ("position", pa.int32()),
        *((name, _KINDS.get(name, pa.string())) for name in (*_FIELDS, *USAGE)),
    ]
)
EVALUATIONS: Final = (
    f"SELECT {', '.join(_OF_EVALUATION)}, body FROM evaluations"  # noqa: S608 our own words
    " WHERE rowid >= $1 AND rowid < $2"
)
"""SQL for some evaluations, as `result_table` takes them."""


def result_table(evaluations: pa.Table) -> pa.Table:
    """The results of some evaluations, a row for each.

    Args:
        evaluations: Rows that `EVALUATIONS` has read.
    """
    rows = list(_rows(evaluations))
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _rows(evaluations: pa.Table) -> Iterator[tuple[Any, ...]]:
    for *head, body in zip(*(column.to_pylist() for column in evaluations.columns), strict=True):
        for position, task in enumerate(decode_evaluation(body).tasks):
            yield (*head, position, *_values(task))


def _values(task: TaskRow) -> Iterator[object]:
    for name in _FIELDS:
        value = getattr(task, name)
        yield dump_json(value) if name in _JSON else value
    for name in USAGE:
        yield None if task.usage is None else getattr(task.usage, name)
