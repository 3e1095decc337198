"""Results as a data frame: one row per record and task, in order, one type per column.

| column | type | holds |
|---|---|---|
| created_at | time, UTC | when the record was made |
| scope | text | `record`, or `session` for the result of a session-scoped task |
| record_uid, record_id, session_id, trace_id, scenario_id | text | whose result it is |
| attempt | integer | which repeat of the scenario, from 0 |
| success | flag | every task of the record could be decided |
| record_outcome | text | passed, failed, errored or skipped: the record as a whole |
| task_id, task_type, task_operator | text | the task |
| task_condition, task_stage | flag, integer | whether it is a gate; its stage in the plan |
| task_assertion | JSON text | what it looked at |
| task_outcome, task_reason | text | how it ended; why, where it errored or was skipped |
| task_passed, task_value | flag, number | whether it passed; the same as 1.0 and 0.0 |
| task_score | number | the number beside the outcome; missing where errored or skipped |
| task_expected, task_actual | JSON text | what was compared: any type, so as JSON |
| task_message | text | what happened |
| task_judge_calls, task_judge_cached | integer | questions put to a judge; answered from a cache |
| task_input_tokens, _output_tokens, task_cost_usd | number | what its answers took, where known |
| task_unpriced_calls | integer | questions put whose cost is not known, and not in the cost |
| workflow_total_tasks, _passed_tasks, _failed_tasks | integer | the record's counts |
| workflow_pass_rate | number | in [0, 1], as in `EvalSet.pass_rate` |
| workflow_duration_ms | integer | of the record's evaluation |
| workflow_error | text | message of the record's first errored task |
| embedding_means, similarity_scores | JSON text | objects, where an `EvaluationConfig` asked |
| context | text | always missing, here for the original's sake: results hold no contexts |

A missing text is None, or what the library shows for it. Half characters (lone surrogates), which
no frame can hold, are U+FFFD.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.model.json_value import plain_text, to_json_value

TEXT, NUMBER, INTEGER, FLAG, TIME = "text", "number", "integer", "flag", "time"

SCHEMA: Final[dict[str, str]] = {
    "created_at": TIME,
    "scope": TEXT,
    "record_uid": TEXT,
    "record_id": TEXT,
    "session_id": TEXT,
    "trace_id": TEXT,
    "scenario_id": TEXT,
    "attempt": INTEGER,
    "success": FLAG,
    "record_outcome": TEXT,
    "task_id": TEXT,
    "task_type": TEXT,
    "task_outcome": TEXT,
    "task_reason": TEXT,
    "task_passed": FLAG,
    "task_value": NUMBER,
    "task_score": NUMBER,
    "task_assertion": TEXT,
    "task_operator": TEXT,
    "task_expected": TEXT,
    "task_actual": TEXT,
    "task_message": TEXT,
    "task_judge_calls": INTEGER,
    "task_judge_cached": INTEGER,
    "task_input_tokens": NUMBER,
    "task_output_tokens": NUMBER,
    "task_cost_usd": NUMBER,
    "task_unpriced_calls": INTEGER,
    "task_condition": FLAG,
    "task_stage": INTEGER,
    "workflow_total_tasks": INTEGER,
    "workflow_passed_tasks": INTEGER,
    "workflow_failed_tasks": INTEGER,
    "workflow_pass_rate": NUMBER,
    "workflow_duration_ms": INTEGER,
    "workflow_error": TEXT,
    "embedding_means": TEXT,
    "similarity_scores": TEXT,
    "context": TEXT,
}
"""Name and type of every column, in order."""

Column = list[Any]

_encode: Final = JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_WORDS: Final = {True: "true", False: "false", None: "null"}


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


def columns(results: ResultRows) -> dict[str, Column]:
    """Lay all task results out by column, as `SCHEMA` says; times are ns since the epoch.

    Cost: linear in task results; reads `results.records` once.
    """
    seen = _Rows(results)
    by_row = seen.record_of_row
    laid = {name: [values[at] for at in by_row] for name, values in seen.by_record.items()}
    for name, read in _OF_SPEC.items():
        values = [read(spec) for spec in seen.specs]
        laid[name] = [values[at] for at in seen.spec_of_row]
    laid |= seen.by_row
    laid["context"] = list(repeat(None, len(by_row)))
    return {name: laid[name] for name in SCHEMA}


_OF_SPEC: Final[dict[str, Callable[[TaskSpec], Any]]] = {
    "task_id": lambda spec: plain_text(spec.task_id),
    "task_type": lambda spec: spec.task_type,
    "task_assertion": lambda spec: json_text(spec.assertion),
    "task_operator": lambda spec: str(spec.operator),
    "task_condition": lambda spec: spec.condition,
    "task_stage": lambda spec: spec.stage,
}


@dataclass(slots=True)
class _Counts:
    """Counts of one record's tasks, by the rules of `EvalSet`."""

    total: int = 0
    passed: int = 0
    error: str | None = None

    def add(self, task: EvalTaskResult, outcome: Outcome) -> None:
        if outcome is _ERRORED and self.error is None:
            self.error = plain_text(f"task {task.task_id!r}: {task.message}")
        if outcome is not _SKIPPED and not task.condition:
            self.total += 1
            self.passed += outcome is _PASSED


# Looking a member of an enum up is a call of Python code, and this runs for every task result.
_PASSED: Final = Outcome.PASSED
_ERRORED: Final = Outcome.ERRORED
_SKIPPED: Final = Outcome.SKIPPED
_NAMES: Final = {outcome: str(outcome) for outcome in Outcome}
_JUDGES: Final = frozenset({"LLMJudge", "QA", "Accuracy", "Report", "Trajectory"})
"""Types of tasks that ask a model."""


class _Rows:
    """One walk over the results: values by record, by task, and by row."""

    def __init__(self, results: ResultRows) -> None:
        self.record_of_row: list[int] = []
        self.spec_of_row: list[int] = []
        self.specs: list[TaskSpec] = []
        self._spec_ids: dict[int, int] = {}
        self.by_record: dict[str, Column] = {
            name: []
            for name in (
                "created_at", "scope", "record_uid", "record_id", "session_id", "trace_id",
                "success", "record_outcome", "workflow_total_tasks", "workflow_passed_tasks",
                "workflow_failed_tasks", "workflow_pass_rate", "workflow_duration_ms",
                "workflow_error",
            )
        }  # fmt: skip
        self.by_row: dict[str, Column] = {
            name: []
            for name in (
                "task_outcome", "task_reason", "task_passed", "task_value", "task_score",
                "task_expected", "task_actual", "task_message",
            )
        }  # fmt: skip
        self._expected: list[tuple[object, str]] = []
        self._usages: dict[int, JudgeUsage] = {}
        """Usage of the judge by row; most tasks ask none."""
        self._walk(results)
        self.by_row |= self._usage_columns()
        self._walk_beside(results)

    def _walk(self, results: ResultRows) -> None:
        into = self.by_record
        for at, record in enumerate(results.records):
            counts = _Counts()
            for task in record.tasks:
                self._add(at, task, counts)
            into["created_at"].append(record.created_ns)
            into["scope"].append(record.scope)
            into["record_uid"].append(plain_text(record.record_uid))
            into["record_id"].append(plain_text(record.record_id))
            into["session_id"].append(plain_text(record.session_id))
            into["trace_id"].append(record.trace_id)
            into["success"].append(counts.error is None)
            into["record_outcome"].append(_NAMES[record.outcome])
            into["workflow_total_tasks"].append(counts.total)
            into["workflow_passed_tasks"].append(counts.passed)
            into["workflow_failed_tasks"].append(counts.total - counts.passed)
            rate = counts.passed / counts.total if counts.total else 0.0
            into["workflow_pass_rate"].append(rate)
            into["workflow_duration_ms"].append(record.duration_ns // 1_000_000)
            into["workflow_error"].append(counts.error)

    def _add(self, at: int, task: EvalTaskResult, counts: _Counts) -> None:
        outcome, spec, reason, into = task.outcome, task.spec, task.reason, self.by_row
        known = self._spec_ids.get(id(spec))
        if known is None:
            known = self._spec_ids[id(spec)] = len(self.specs)
            self.specs.append(spec)  # kept, so that its id stays its own
            self._expected.append((None, "null"))
        expected, expected_text = self._expected[known]
        if task.expected is not expected:  # mostly the very object of the row before
            expected_text = json_text(task.expected)
            self._expected[known] = (task.expected, expected_text)
        passed = outcome is _PASSED
        self.record_of_row.append(at)
        self.spec_of_row.append(known)
        if spec.task_type in _JUDGES and (usage := task.usage) is not None:
            self._usages[len(self.record_of_row) - 1] = usage
        into["task_outcome"].append(_NAMES[outcome])
        into["task_reason"].append(None if reason is None else str(reason))
        into["task_passed"].append(passed)
        into["task_value"].append(1.0 if passed else 0.0)
        into["task_score"].append(task.score)
        into["task_expected"].append(expected_text)
        into["task_actual"].append(json_text(task.actual))
        into["task_message"].append(plain_text(task.message))
        counts.add(task, outcome)

    def _usage_columns(self) -> dict[str, Column]:
        rows = len(self.record_of_row)
        found: dict[str, Column] = {
            "task_judge_calls": [0] * rows,
            "task_judge_cached": [0] * rows,
            "task_unpriced_calls": [0] * rows,
        }
        for name in ("task_input_tokens", "task_output_tokens", "task_cost_usd"):
            found[name] = [None] * rows
        for row, usage in self._usages.items():
            found["task_judge_calls"][row] = usage.calls
            found["task_judge_cached"][row] = usage.cached
            found["task_input_tokens"][row] = usage.input_tokens
            found["task_output_tokens"][row] = usage.output_tokens
            found["task_cost_usd"][row] = usage.cost_usd
            found["task_unpriced_calls"][row] = usage.unpriced_calls
        return found

    def _walk_beside(self, results: ResultRows) -> None:
        """Add what results keep beside the records: scenarios, attempts, annotations."""
        count, into = len(results), self.by_record
        ids: Iterable[str | None] = results.scenario_ids or repeat(None, count)
        into["scenario_id"] = [None if name is None else plain_text(name) for name in ids]
        into["attempt"] = list(results.attempts or repeat(0, count))
        annotations = getattr(results, "annotations", None)
        notes = None if annotations is None else annotations.records
        for name, field in (
            ("embedding_means", "mean_embeddings"),
            ("similarity_scores", "similarity_scores"),
        ):
            into[name] = (
                list(repeat(None, count))
                if notes is None
                else [json_text(dict(getattr(note, field))) for note in notes]
            )


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
