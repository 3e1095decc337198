"""Results of an evaluation: rows, what they come to, and their files."""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult
from scouter.formats.turns import ALIAS, LOST, NOT_CALLED, turn_name
from scouter.formats.vertex.cases import FAULT, LATENCY, PREDICTED, Case, Cases
from scouter.formats.vertex.dataset import Row
from scouter.formats.vertex.metrics import RowMetric

Summary: TypeAlias = dict[str, float]

TABLE: Final = "metrics_table.jsonl"
SUMMARY: Final = "summary_metrics.json"

_FAILED: Row = {"response": None, LATENCY: None, "failure": 1, PREDICTED: None}
_Judged: TypeAlias = tuple[Row, RecordResult | None]
"""A row, and the results of its record; None where the agent failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Score of one metric for one row, or the reason why there is none."""

    score: float | None = None
    columns: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Further columns of the metric, such as an `explanation`."""
    error: str = ""
    """Empty where no score was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """Scores of each row and their means.

    `summary_metrics` has `row_count`, and for each metric `<metric>/mean` and `<metric>/std` (n−1)
    over the rows that have a score, how many these are (`<metric>/n`) and how many have an error
    instead (`<metric>/n_error`). The mean of no row, and the deviation of fewer than two, is NaN.
    """

    summary_metrics: Summary
    rows: list[Row]
    """The dataset's columns, what the agent gave, then the metrics' columns: `<metric>/score`,
    `<metric>/explanation` and others, and `<metric>/error` for a metric that has no score
    somewhere. Of several attempts each has its rows, and a column `attempt`."""
    run: ScenarioEvalResults
    """The run that all of it is read from; it can be saved and compared."""
    metadata: dict[str, str] | None = None
    """`experiment` and `experiment_run`, where they were given."""

    @property
    def metrics_table(self) -> Any:  # noqa: ANN401 — pandas loads on demand
        """The rows as a DataFrame of pandas.

        Raises:
            ConfigError: pandas is not installed; `rows` needs none.
        """
        try:
            pd: Any = import_module("pandas")
        except ImportError as error:
            raise ConfigError(
                "metrics_table needs pandas, which is not installed: pip install pandas; the same "
                "is in rows"
            ) from error
        return pd.DataFrame(self.rows)


def result_of(
    run: ScenarioEvalResults, cases: Cases, metrics: Sequence[RowMetric], *, has_agent: bool
) -> EvalResult:
    """Read rows and means from a run.

    Args:
        run: The run of the cases.
        cases: The cases, with the rows that came of them.
        metrics: In the order of their columns.
        has_agent: Whether an agent was called.
    """
    judged = list(_judged(run, cases, has_agent=has_agent))
    rows = [row for row, _ in judged]
    summary: Summary = {"row_count": len(rows)}
    for metric in metrics:
        cells = [_cells(metric, *each) for each in judged]
        scores = [each.score for each in cells]
        summary |= _mean(metric.name, scores)
        summary[f"{metric.name}/n"] = sum(score is not None for score in scores)
        summary[f"{metric.name}/n_error"] = sum(bool(each.error) for each in cells)
        _add(rows, metric.name, cells)
    for name in (LATENCY, "failure") if has_agent else ():
        summary |= _mean(name, [row[name] for row in rows])
    return EvalResult(summary_metrics=summary, rows=rows, run=run)


def _judged(run: ScenarioEvalResults, cases: Cases, *, has_agent: bool) -> Iterator[_Judged]:
    """The rows of all attempts, with what became of them."""
    found: dict[tuple[str | None, int], dict[str, RecordResult]] = {}
    for each in run.dataset_results.get(ALIAS, ()):
        found.setdefault((each.scenario_id, each.attempt), {})[each.record_id] = each.record
    errors = {(each.scenario_id, each.attempt): each.error for each in run.scenario_results}
    for case in cases.by_name.values():
        for attempt in range(run.repeats):
            key = case.name, attempt
            records, error = found.get(key, {}), errors.get(key) or ""
            is_lost = case.is_played and bool(error)
            said = sum(turn_name(at) in records for at in range(case.most_turns))
            for at in range(max(1, said) if case.is_played else len(case.rows)):
                record = records.get(turn_name(at))
                row = _row(case, at, record, run, cases)
                before = row.pop(FAULT, None)  # the dataset may be the table of an earlier run
                if run.repeats > 1:
                    row["attempt"] = attempt
                if record is None or is_lost:
                    record = None
                    fault = (error or LOST) if is_lost or at == said else NOT_CALLED
                    row |= {**_FAILED, FAULT: fault} if has_agent else {FAULT: before or fault}
                elif any(errors.values()):
                    row[FAULT] = None
                yield row, record


def _row(
    case: Case, at: int, record: RecordResult | None, run: ScenarioEvalResults, cases: Cases
) -> Row:
    """A row as its record has it, in the order of the dataset's columns."""
    row = dict(case.rows[0 if case.is_played else at])
    if record is None:
        return row
    whole = cases.stored.get(record.record_uid) or run.whole_context(record.record_uid)
    return {**row, **whole} if isinstance(whole, dict) else row


def _cells(metric: RowMetric, row: Row, record: RecordResult | None) -> _Cells:
    """The cells of a metric in a row."""
    if record is None:
        return _Cells(error=f"the agent failed: {row[FAULT]}")
    result = record[metric.task.id]
    if result.outcome in (Outcome.PASSED, Outcome.FAILED):
        return _Cells(score=result.score, columns=metric.columns(result, row))
    missing = [name for name in metric.needs if row.get(name) is None]
    if missing and metric.measure is not None:
        return _Cells(error=f"the row has no {', '.join(missing)}")
    return _Cells(error="" if result.reason is Reason.NOT_APPLICABLE else result.message)


def _add(rows: Sequence[Row], name: str, cells: Sequence[_Cells]) -> None:
    """Write a metric's columns, the same ones for every row."""
    names = dict.fromkeys(key for each in cells for key in each.columns)
    has_errors = any(each.error for each in cells)
    for row, each in zip(rows, cells, strict=True):
        row.pop(f"{name}/error", None)  # of an earlier run, whose table is this dataset
        row[f"{name}/score"] = each.score
        row |= {f"{name}/{key}": each.columns.get(key) for key in names}
        if has_errors:
            row[f"{name}/error"] = each.error or None


def _mean(name: str, scores: Sequence[JsonValue]) -> Summary:
    """Mean and deviation of the scores that there are; NaN where there are too few."""
    known = [float(score) for score in scores if isinstance(score, int | float)]
    return {
        f"{name}/mean": statistics.fmean(known) if known else math.nan,
        f"{name}/std": statistics.stdev(known) if len(known) > 1 else math.nan,
    }


def write_results(folder: Path, result: EvalResult) -> None:
    """Write `metrics_table.jsonl`, a row on each line, and `summary_metrics.json`.

    Args:
        folder: The folder; it is made if it is not there.
        result: Result of `EvalTask.evaluate`. NaN, which JSON lacks, is written as null.

    Raises:
        ConfigError: The folder or a file cannot be written.
    """
    rows = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in result.rows]
    summary = {
        name: None if math.isnan(value) else value for name, value in result.summary_metrics.items()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TABLE).write_text("".join(rows), encoding="utf-8")
        text = json.dumps(summary, ensure_ascii=False, indent=2, allow_nan=False)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror or error}") from error
