"""Results as a data frame: one row per record and task, in order, one type per column.

`docs/results.md` says what each column holds. A missing text is None, or what the library shows for
it. Half characters (lone surrogates), which no frame can hold, are U+FFFD.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.results.record_result import collector_paused
from scouter.evaluate.results.rows import ResultRow, ResultRows
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.json_value import plain_text, to_json_value

TEXT, NUMBER, INTEGER, FLAG, TIME = "text", "number", "integer", "flag", "time"

Column = list[Any]

_encode: Final = JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_WORDS: Final = {True: "true", False: "false", None: "null"}
_NOTHING: Final = JudgeUsage()


def json_text(value: JsonValue) -> str:
    """Write a value as JSON text, quickly for what most values are."""
    kind = type(value)
    if kind is str:
        return encode_basestring(plain_text(cast(str, value)))
    if kind is int:
        return repr(value)
    if kind is bool or value is None:
        return _WORDS[cast("bool | None", value)]
    try:
        return plain_text(_encode(value))
    except ValueError:  # NaN in a result that was made by hand
        return _encode(to_json_value(value))


def _text(value: str | None) -> str | None:
    return None if value is None else plain_text(value)


def _numbers(found: Mapping[str, float]) -> str:
    return json_text(dict(found)) if found else "{}"


def _usage(task: EvalTaskResult) -> JudgeUsage:
    return task.usage or _NOTHING


@dataclass(frozen=True, slots=True)
class _OfRecord:
    """A column that has the same value for all tasks of a record."""

    kind: str
    read: Callable[[ResultRow], Any]


@dataclass(frozen=True, slots=True)
class _OfTask:
    """A column that is read from each task result."""

    kind: str
    read: Callable[[EvalTaskResult], Any]


_COLUMNS: Final[dict[str, _OfRecord | _OfTask]] = {
    "created_at": _OfRecord(TIME, lambda row: row.record.created_ns),
    "scope": _OfRecord(TEXT, lambda row: row.record.scope),
    "record_uid": _OfRecord(TEXT, lambda row: plain_text(row.record_uid)),
    "record_id": _OfRecord(TEXT, lambda row: plain_text(row.record_id)),
    "session_id": _OfRecord(TEXT, lambda row: plain_text(row.record.session_id)),
    "trace_id": _OfRecord(TEXT, lambda row: row.record.trace_id),
    "scenario_id": _OfRecord(TEXT, lambda row: _text(row.scenario_id)),
    "attempt": _OfRecord(INTEGER, lambda row: row.attempt),
    "success": _OfRecord(FLAG, lambda row: row.success),
    "record_outcome": _OfRecord(TEXT, lambda row: str(row.outcome)),
    "task_id": _OfTask(TEXT, lambda task: plain_text(task.task_id)),
    "task_type": _OfTask(TEXT, lambda task: task.task_type),
    "task_outcome": _OfTask(TEXT, lambda task: str(task.outcome)),
    "task_reason": _OfTask(TEXT, lambda task: None if task.reason is None else str(task.reason)),
    "task_passed": _OfTask(FLAG, lambda task: task.passed),
    "task_value": _OfTask(NUMBER, lambda task: float(task.passed)),
    "task_score": _OfTask(NUMBER, lambda task: task.score),
    "task_assertion": _OfTask(TEXT, lambda task: json_text(task.spec.assertion)),
    "task_operator": _OfTask(TEXT, lambda task: str(task.spec.operator)),
    "task_expected": _OfTask(TEXT, lambda task: json_text(task.expected)),
    "task_actual": _OfTask(TEXT, lambda task: json_text(task.actual)),
    "task_message": _OfTask(TEXT, lambda task: plain_text(task.message)),
    "task_judge_calls": _OfTask(INTEGER, lambda task: _usage(task).calls),
    "task_judge_cached": _OfTask(INTEGER, lambda task: _usage(task).cached),
    "task_input_tokens": _OfTask(NUMBER, lambda task: _usage(task).input_tokens),
    "task_output_tokens": _OfTask(NUMBER, lambda task: _usage(task).output_tokens),
    "task_cost_usd": _OfTask(NUMBER, lambda task: _usage(task).cost_usd),
    "task_unpriced_calls": _OfTask(INTEGER, lambda task: _usage(task).unpriced_calls),
    "task_condition": _OfTask(FLAG, lambda task: task.condition),
    "task_stage": _OfTask(INTEGER, lambda task: task.spec.stage),
    "workflow_total_tasks": _OfRecord(INTEGER, lambda row: row.eval_set.total_tasks),
    "workflow_passed_tasks": _OfRecord(INTEGER, lambda row: row.eval_set.passed_tasks),
    "workflow_failed_tasks": _OfRecord(INTEGER, lambda row: row.eval_set.failed_tasks),
    "workflow_pass_rate": _OfRecord(NUMBER, lambda row: row.eval_set.pass_rate),
    "workflow_duration_ms": _OfRecord(INTEGER, lambda row: row.eval_set.duration_ms),
    "workflow_error": _OfRecord(TEXT, lambda row: _text(row.error_message)),
    "embedding_means": _OfRecord(TEXT, lambda row: _numbers(row.mean_embeddings)),
    "similarity_scores": _OfRecord(TEXT, lambda row: _numbers(row.similarity_scores)),
    "context": _OfRecord(TEXT, lambda _: None),  # the original's; results hold no contexts
}
SCHEMA: Final = {name: column.kind for name, column in _COLUMNS.items()}
"""Name and type of every column, in order."""


def columns(results: ResultRows) -> dict[str, Column]:
    """Lay all task results out by column, as `SCHEMA` says; times are ns since the epoch.

    Cost: linear in task results.
    """
    with collector_paused():
        rows = list(results)
        tasks = [task for row in rows for task in row.record.tasks]
        counts = [len(row.record.tasks) for row in rows]
        laid: dict[str, Column] = {}
        for name, column in _COLUMNS.items():
            if isinstance(column, _OfTask):
                laid[name] = [*map(column.read, tasks)]
            else:
                laid[name] = [*chain.from_iterable(map(repeat, map(column.read, rows), counts))]
    if results.annotations is None or results.annotations.records is None:
        laid["embedding_means"] = laid["similarity_scores"] = laid["context"]
    return laid


def frame(results: ResultRows, polars: bool) -> Any:  # noqa: ANN401 — pandas or polars
    """Make a pandas or a polars frame of `columns`.

    Raises:
        TypeError: `polars` is neither True nor False; any other word would be true.
        ConfigError: The library is not installed; says how to install it.
    """
    _check(polars)
    return _polars(results) if polars else _pandas(results)


def frame_of_rows(rows: Sequence[Mapping[str, object]], polars: bool) -> Any:  # noqa: ANN401
    """Make a frame of rows with one set of columns; the library finds the types.

    Raises:
        TypeError: `polars` is neither True nor False.
        ConfigError: The library is not installed; says how to install it.
    """
    _check(polars)
    name, method = (
        ("polars", "to_dataframe(polars=True)") if polars else ("pandas", "to_dataframe()")
    )
    return _library(name, method).DataFrame(list(map(dict, rows)))


def _check(polars: bool) -> None:
    if not isinstance(polars, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"polars is {polars!r}; expected True for polars or False for pandas")


def _pandas(results: ResultRows) -> Any:  # noqa: ANN401 — pandas has no types of its own
    pandas = _library("pandas", "to_dataframe()")
    # Before version 3 "str" would turn None into the text 'None'.
    text = "str" if int(pandas.__version__.split(".")[0]) >= 3 else "object"
    dtypes = {TEXT: text, NUMBER: "float64", INTEGER: "int64", FLAG: "bool", TIME: "int64"}
    made = {
        name: pandas.Series(values, dtype=dtypes[SCHEMA[name]])
        for name, values in columns(results).items()
    }
    made["created_at"] = pandas.to_datetime(made["created_at"], unit="ns", utc=True)
    return pandas.DataFrame(made, copy=False)


def _polars(results: ResultRows) -> Any:  # noqa: ANN401 — polars is no dependency
    polars = _library("polars", "to_dataframe(polars=True)")
    dtypes = {
        TEXT: polars.String,
        NUMBER: polars.Float64,
        INTEGER: polars.Int64,
        FLAG: polars.Boolean,
        TIME: polars.Datetime("ns", "UTC"),
    }
    made: list[Any] = []
    for name, values in columns(results).items():
        kind = SCHEMA[name]
        series = polars.Series(name, values, polars.Int64 if kind is TIME else dtypes[kind])
        made.append(series.cast(dtypes[TIME]) if kind is TIME else series)
    return polars.DataFrame(made)


def arrow(results: ResultRows) -> Any:  # noqa: ANN401 — pyarrow has no types of its own
    """Make an Arrow table of `columns`.

    Raises:
        ConfigError: pyarrow is not installed; says how to install it.
    """
    arrow = _library("pyarrow", "to_arrow()")
    types = {
        TEXT: arrow.string(),
        NUMBER: arrow.float64(),
        INTEGER: arrow.int64(),
        FLAG: arrow.bool_(),
        TIME: arrow.timestamp("ns", "UTC"),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in SCHEMA.items()])
    made = [
        arrow.array(cast(Sequence[object], values), types[SCHEMA[name]])
        for name, values in columns(results).items()
    ]
    return arrow.Table.from_arrays(made, schema=schema)


def _library(name: str, method: str) -> Any:  # noqa: ANN401 — a module that may not be there
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"{method} needs {name}, which is not installed: pip install {name}"
        ) from error
