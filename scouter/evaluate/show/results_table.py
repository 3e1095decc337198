"""Results as a table: on the standard output, and as HTML for notebooks."""

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias, cast

from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.evaluate.results.record_result import is_counted, rate_of
from scouter.evaluate.results.rows import ResultRow, ResultRows
from scouter.model.json_value import to_json_value
from scouter.model.visible import visible

_MANY: Final = (list, tuple, dict)
HTML_ROWS: Final = 100
"""Rows of a table in a notebook; what is beyond is counted, not shown."""

Cell: TypeAlias = str | int | float | Outcome | None
"""Value of a cell: an outcome is coloured, a number stands at the right."""

_COLOURS: Final = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERRORED: "magenta",
    Outcome.SKIPPED: "yellow",
    Outcome.PENDING: "dim",
}
_HTML_COLOURS: Final = {  # readable on a white and on a black ground
    Outcome.PASSED: "#2a9d4a",
    Outcome.FAILED: "#e0433a",
    Outcome.ERRORED: "#b455d6",
    Outcome.SKIPPED: "#b58900",
    Outcome.PENDING: "#888888",
}
_RECORD_COLUMNS: Final = (
    "Created At", "Record ID", "Record UID", "Outcome", "Total Tasks", "Passed", "Failed",
    "Pass Rate", "Duration (ms)",
)  # fmt: skip
_TASK_COLUMNS: Final = (
    "Record", "Task", "Type", "Outcome", "Operator", "Expected", "Actual", "Message",
)  # fmt: skip


def print_table(results: ResultRows, show_tasks: bool) -> None:
    """Print one row per record, or per task result; ids are shown whole.

    On a terminal the table fits its width, and what is long is folded; elsewhere lines are as
    long as they need to be.
    """
    from rich.table import Table  # rich loads when something is printed
    from rich.text import Text

    from scouter.evaluate.show.console import emit

    columns = _TASK_COLUMNS if show_tasks else _RECORD_COLUMNS
    table = Table(title="Task Details" if show_tasks else "Workflow Summary")
    numbers = () if show_tasks else _RECORD_COLUMNS[4:]
    for name in columns:
        table.add_column(
            name, overflow="fold", justify="right" if name in numbers else "left", min_width=4
        )
    for row in _task_rows(results) if show_tasks else _record_rows(results):
        outcome = row[3]
        style = _COLOURS[outcome] if isinstance(outcome, Outcome) else ""
        table.add_row(*(Text(visible(_text(cell))) for cell in row), style=style)
    emit(table)


def _record_rows(results: ResultRows) -> Iterable[Sequence[Cell]]:
    for aligned in results:
        about, tasks = aligned.eval_set, aligned.record.tasks
        # As everywhere but in the original's own fields: a gate is a task, too.
        outcomes = [task.outcome for task in tasks if is_counted(task)]
        yield (
            f"{about.created_at:%Y-%m-%d %H:%M:%S}",
            aligned.record_id,
            aligned.record_uid,
            aligned.outcome,
            len(outcomes),
            outcomes.count(Outcome.PASSED),
            outcomes.count(Outcome.FAILED) + outcomes.count(Outcome.ERRORED),
            f"{rate_of(tasks):.1%}",
            about.duration_ms,
        )


def _task_rows(results: ResultRows) -> Iterable[Sequence[Cell]]:
    names = _names(list(results))
    for aligned, name in zip(results, names, strict=True):
        for cells in _cells_of(aligned):
            yield (name, *cells)


def _cells_of(record: ResultRow) -> Iterable[Sequence[Cell]]:
    """The cells of each task, without the record's name."""
    for task in record.eval_set.records:
        compared = str(task.operator), show(task.expected), show(task.actual)
        yield (task.task_id, task.task_type, task.outcome, *compared, task.message)


def _names(records: Sequence[ResultRow]) -> list[str]:
    """Name each record by its id, and by its uid too where several have the id."""
    seen: dict[str, int] = {}
    for record in records:
        seen[record.record_id] = seen.get(record.record_id, 0) + 1
    return [
        record.record_uid
        if not record.record_id
        else record.record_id
        if seen[record.record_id] == 1
        else f"{record.record_id} ({record.record_uid})"
        for record in records
    ]


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return str(cell)


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, limit: int = HTML_ROWS
) -> str:
    """Write a table as HTML that stands alone; every text in it is escaped.

    Args:
        title: Above the table; may be empty.
        columns: The heads.
        rows: One cell per column.
        limit: Rows to show; what is beyond is counted.

    Returns:
        A `<div>` without scripts, links or style sheets.

    Cost: linear in rows, those that are only counted included.
    """
    iterator = iter(rows)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(iterator, limit))
    beyond = sum(1 for _ in iterator)
    head = "".join(f'<th style="text-align:left">{_safe(name)}</th>' for name in columns)
    caption = f"<p><b>{_safe(title)}</b></p>" if title else ""
    more = f"<p>… and {beyond:,} more</p>" if beyond else ""
    return (
        f'<div style="overflow-x:auto">{caption}<table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


def _cell(value: Cell) -> str:
    text = _safe(_text(value))
    if isinstance(value, Outcome):
        return f'<td style="text-align:left;color:{_HTML_COLOURS[value]}">{text}</td>'
    if isinstance(value, int | float):
        return f'<td style="text-align:right">{text}</td>'
    return f'<td style="text-align:left;white-space:pre-wrap">{text}</td>'


def _safe(text: str) -> str:
    return html.escape(visible(text), quote=True)


def fields_html(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Show rows with one set of fields in a notebook; one row alone has a line for each field."""
    if len(rows) == 1:
        return html_table(title, ("Field", "Value"), [(k, _plain(v)) for k, v in rows[0].items()])
    names = list(rows[0]) if rows else []
    cells = ([_plain(row[name]) for name in names] for row in rows)
    return html_table(f"{title}: {len(rows):,}", names, cells)


def _plain(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return show(to_json_value(cast("object", value))) if isinstance(value, _MANY) else str(value)


def results_html(results: ResultRows) -> str:
    """Show results in a notebook: the counts, and one row per record."""
    found = results.counts
    counts = ", ".join(f"{found[outcome]:,} {outcome}" for outcome in DECIDED)
    title = f"{results.size_text}, pass rate {results.pass_rate:.1%} ({counts} task results)"
    return html_table(title, _RECORD_COLUMNS, _record_rows(results))


def tasks_html(record: ResultRow) -> str:
    """Show one record in a notebook: one row per task."""
    name = record.record_id or record.record_uid
    return html_table(f"{name}: {record.outcome}", _TASK_COLUMNS[1:], _cells_of(record))
