"""Results as a data frame."""

import importlib
import json
from typing import Any

from scouter.errors import ConfigError
from scouter.evaluate.results import EvalResults


def columns(results: EvalResults) -> dict[str, list[Any]]:
    """Lay all task results out by column: one row per record and task, in order.

    `task_expected`, `task_actual` and `task_assertion` are JSON texts, so that each column has one
    type; times are UTC.
    """
    rows = [
        {
            "created_at": aligned.eval_set.created_at,
            "record_uid": aligned.record_uid,
            "record_id": aligned.record_id,
            "session_id": aligned.record.session_id,
            "trace_id": aligned.record.trace_id,
            "scenario_id": aligned.scenario_id,
            "success": aligned.success,
            "record_outcome": str(aligned.outcome),
            "task_id": task.task_id,
            "task_type": task.task_type,
            "task_outcome": str(task.outcome),
            "task_reason": None if task.reason is None else str(task.reason),
            "task_passed": task.passed,
            "task_value": task.value,
            "task_assertion": json.dumps(task.assertion, ensure_ascii=False),
            "task_operator": task.operator,
            "task_expected": json.dumps(task.expected, ensure_ascii=False),
            "task_actual": json.dumps(task.actual, ensure_ascii=False),
            "task_message": task.message,
            "task_condition": task.condition,
            "task_stage": task.stage,
            **_workflow(aligned.eval_set.total_tasks, aligned.eval_set.passed_tasks),
            "workflow_pass_rate": aligned.eval_set.pass_rate,
            "workflow_duration_ms": aligned.eval_set.duration_ms,
            "workflow_error": aligned.error_message,
        }
        for aligned in results
        for task in aligned.eval_set.records
    ]
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}


def _workflow(total: int, passed: int) -> dict[str, int]:
    return {
        "workflow_total_tasks": total,
        "workflow_passed_tasks": passed,
        "workflow_failed_tasks": total - passed,
    }


def frame(results: EvalResults, polars: bool) -> Any:  # noqa: ANN401 — pandas or polars
    """Make a pandas or a polars frame of `columns`.

    Raises:
        ConfigError: The library is not installed; says how to install it.
    """
    name = "polars" if polars else "pandas"
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"to_dataframe needs {name}, which is not installed: pip install {name}"
        ) from error
    return library.DataFrame(columns(results))
