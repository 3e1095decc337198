"""One screen about a release check: the decision, what broke, and what to do next."""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.show.comparison_tables import (
    changes_texts,
    print_scenario_comparison,
)
from scouter.evaluate.show.console import emit, table_of
from scouter.replay.reports.confirmations import Reasked, flaky_table
from scouter.replay.reports.decision import Word
from scouter.replay.reports.report import FIELDS, SHOWN, Example, Report
from scouter.replay.reports.texts import clip, gate_cells

_REASONS = 5
_VALUE = 160
_MOST = 1_000
"""Lines of one kind that `-v` prints at most."""
_STYLES = {
    Word.INCONCLUSIVE: "bold yellow",
    Word.NO_REGRESSION: "bold green",
    Word.PASSED: "bold green",
    Word.RECORDED: "bold",
}


def print_check(report: Report, *, quiet: bool, verbose: bool, html: Path | None) -> None:
    """Print a release check to the standard output.

    Args:
        report: The check.
        quiet: Only the decision with its reasons.
        verbose: All tables before it, and nothing cut.
        html: File with the HTML report, if there is one.
    """
    if report.changes:
        emit(*changes_texts(report.changes))
    if quiet:
        emit(_decision(report, report.decision.reasons, _MOST))
        return
    if verbose:
        report.results.as_table()
        if report.comparison is not None:
            print_scenario_comparison(report.comparison, with_decision=False)
        emit(*_tables(report))
    found = report.examples
    most = len(found) if verbose else SHOWN if _is_news(report) else 1
    shown = found[:most]
    parts: list[RenderableType] = [
        _decision(report, report.why(shown), _MOST if verbose else _REASONS)
    ]
    parts += [Text(f"  {note}", style="dim") for note in report.notes]
    if found:
        parts.append(Text(f"\n{report.failures_title}", style="bold"))
        parts += [_example(example, _MOST if verbose else _VALUE) for example in shown]
        if rest := found[most:]:
            parts.append(_rest(rest))
    parts.append(_next(report, html, verbose=verbose))
    emit(*parts)


class ScoreLine(NamedTuple):
    """The scores of one metric or evaluator in a few numbers."""

    name: str
    mean: float
    """NaN where there is none."""
    std: float
    """NaN for fewer than two."""
    n: int
    errors: int | None
    """Rows without a score that should have one; None where there can be none."""


def print_scores(title: str, what: str, lines: Iterable[ScoreLine]) -> None:
    """Print the means of scores to the standard output.

    Args:
        title: The file that they are about.
        what: Word for what gives a score.
        lines: In their order.
    """
    table = table_of(title, what, "Mean", "Std", "n", "Errors")
    for each in lines:
        numbers = ("-" if isnan(number) else f"{number:.4f}" for number in (each.mean, each.std))
        errors = "" if each.errors is None else str(each.errors)
        table.add_row(Text(each.name), *numbers, str(each.n), errors)
    emit(table)


def _is_news(report: Report) -> bool:
    """Tell whether failures matter to the decision, or nobody has decided about them yet."""
    return report.decision.is_stopped or report.decision.word is Word.RECORDED


def _decision(report: Report, reasons: Sequence[str], most: int) -> Text:
    word = report.decision.word
    text = Text(f"{word.capitalize()}.", style=_STYLES.get(word, "bold red"))
    text.append(f" {report.decision.headline}", style="not bold default")
    for reason in reasons[:most]:
        text.append(f"\n  - {reason}", style="not bold default")
    if len(reasons) > most:
        more = f"\n  - and {len(reasons) - most} more: -v shows them"
        text.append(more, style="not bold default")
    return text


def _example(example: Example, limit: int) -> Text:
    """One failure: where, expected, got and trace."""
    text = Text(f"  {example.why or _names(example)}", style="bold")
    question = clip(example.asked, limit)
    text.append(f"\n    asked    {question}" if example.why else f"  {question}", "not bold dim")
    for name in FIELDS[1:]:
        if value := getattr(example, name):
            text.append(f"\n    {name:<9}", style="not bold dim")
            text.append(clip(value, limit), "not bold default")
    return text


def _names(example: Example) -> str:
    passed = f" ({example.passed})" if example.passed else ""
    if not example.others:
        return f"{example.scenario_id}{passed}"
    others = ", ".join(example.others[:SHOWN]) + (", …" if len(example.others) > SHOWN else "")
    return f"{example.scenario_id}{passed} and {len(example.others)} more like it ({others})"


def _rest(rest: Sequence[Example]) -> Text:
    names = ", ".join(example.scenario_id for example in rest[:SHOWN])
    more = ", …" if len(rest) > SHOWN else ""
    return Text(f"  and {len(rest)} more: -v shows them ({names}{more})")


def _next(report: Report, html: Path | None, *, verbose: bool) -> Text:
    """The last part: what to do, and where to look."""
    where = "add --html FILE" if html is None else f"open {html}"
    read = [f"read the conversations and traces: {where}"] if report.examples else []
    tables = [] if verbose else ["see all tables: add -v"]
    if not report.decision.advice:
        return Text("; ".join((*read, *tables)), style="dim")
    text = Text("\nNext", style="bold")
    for step in (*read, *report.decision.advice, *tables):
        text.append(f"\n  - {step}", style="not bold default")
    return text


def _tables(report: Report) -> Iterator[RenderableType]:
    yield from _flaky(report)
    if report.reasked is not None and report.reasked.rows:
        yield _again_table(report.reasked)
    if report.gate_checks:
        yield _gates(report)


def _again_table(found: Reasked) -> Table:
    table = table_of("Asked again", "Scenario", "Result")
    for row in found.rows[:_MOST]:
        table.add_row(Text(row.confirmation.scenario_id), Text(row.text))
    return table


def _flaky(report: Report) -> Iterator[RenderableType]:
    found = flaky_table(report.results, report.flips, _MOST)
    if found.rows:
        table = table_of("Flaky", "Scenario", "Task", "Passed", "Whose flip", *found.columns)
        for row in found.rows:
            table.add_row(Text(row.scenario_id), Text(row.task), row.passed, row.whose, *row.cells)
        yield table


def _gates(report: Report) -> Table:
    table = table_of("Gates", "Gate", "Wanted", "Found", "")
    for gate in report.gate_checks:
        table.add_row(
            Text(gate.name),
            *gate_cells(gate),
            Text("met", "green") if gate.met else Text("not met", "bold red"),
        )
    return table
