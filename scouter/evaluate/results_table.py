"""Results as a table on the standard output."""

from rich.console import Console
from rich.table import Table

from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results import EvalResults

_COLOURS = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERRORED: "magenta",
    Outcome.SKIPPED: "yellow",
}


def print_table(results: EvalResults, show_tasks: bool) -> None:
    """Print one row per record, or per task result; ids are shown whole."""
    table = _tasks(results) if show_tasks else _records(results)
    Console(highlight=False, markup=False).print(table)


def _records(results: EvalResults) -> Table:
    table = Table(title="Workflow Summary")
    for name in ("Created At", "Record ID", "Record UID", "Outcome"):
        table.add_column(name, overflow="fold")
    for name in ("Total Tasks", "Passed", "Failed", "Pass Rate", "Duration (ms)"):
        table.add_column(name, justify="right")
    for aligned in results:
        counts = aligned.eval_set
        table.add_row(
            f"{counts.created_at:%Y-%m-%d %H:%M:%S}",
            aligned.record_id,
            aligned.record_uid,
            str(aligned.outcome),
            str(counts.total_tasks),
            str(counts.passed_tasks),
            str(counts.failed_tasks),
            f"{counts.pass_rate:.1%}",
            str(counts.duration_ms),
            style=_COLOURS[aligned.outcome],
        )
    return table


def _tasks(results: EvalResults) -> Table:
    table = Table(title="Task Details")
    for name in ("Record", "Task", "Type", "Outcome", "Operator", "Expected", "Actual", "Message"):
        table.add_column(name, overflow="fold")
    for aligned in results:
        for task in aligned.eval_set.records:
            table.add_row(
                aligned.record_id or aligned.record_uid,
                task.task_id,
                task.task_type,
                str(task.outcome),
                task.operator,
                show(task.expected),
                show(task.actual),
                task.message,
                style=_COLOURS[task.outcome],
            )
    return table
