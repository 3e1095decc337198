"""The last lines of a release check on a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.tables import emit
from scouter.replay.reports.decision import Word
from scouter.replay.reports.report import Report
from scouter.replay.reports.texts import percent

_REASONS = 20
_STYLES = {
    Word.UNDERPOWERED: "bold yellow",
    Word.IMPROVED: "bold green",
    Word.PASSED: "bold green",
    Word.RECORDED: "bold",
}


def print_decision(report: Report, *, quiet: bool) -> None:
    """Print the gates and the verdict to standard output.

    Args:
        report: The check.
        quiet: Only the verdict.
    """
    parts: list[RenderableType] = []
    if report.gate_checks and not quiet:
        parts.append(_gates(report))
    told = () if quiet or report.comparison is None else report.comparison.reasons
    parts.append(_verdict(report, told))
    emit(*parts)


def _gates(report: Report) -> Table:
    title = Text("Gates")
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in ("Gate", "Wanted", "Found", ""):
        table.add_column(column, overflow="fold")
    for gate in report.gate_checks:
        table.add_row(
            Text(gate.name),
            percent(gate.wanted),
            f"{percent(gate.found)} ({gate.passed}/{gate.total})",
            Text("met", "green") if gate.met else Text("not met", "bold red"),
        )
    return table


def _verdict(report: Report, told: Sequence[str]) -> Text:
    """The last lines; reasons that the table of the comparison has just told are left out."""
    decision = report.decision
    text = Text(f"{decision.word.capitalize()}.", style=_STYLES.get(decision.word, "bold red"))
    text.append(f" {decision.headline}", style="not bold default")
    reasons = [reason for reason in decision.reasons if reason not in told]
    for reason in reasons[:_REASONS]:
        text.append(f"\n  - {reason}", style="not bold default")
    if len(reasons) > _REASONS:
        text.append(f"\n  - and {len(reasons) - _REASONS} more", style="not bold default")
    return text
