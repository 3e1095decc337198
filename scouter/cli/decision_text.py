"""The last lines of a release check on a terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.show.console import emit, table_of
from scouter.replay.reports.confirmations import Reasked
from scouter.replay.reports.decision import Word
from scouter.replay.reports.examples import Example
from scouter.replay.reports.flaky import flaky_table
from scouter.replay.reports.not_passed import not_passed
from scouter.replay.reports.report import Report
from scouter.replay.reports.texts import clip, counted, percent

_REASONS = 20
_ROWS = 10
_MESSAGE = 200
_STYLES = {
    Word.INCONCLUSIVE: "bold yellow",
    Word.NO_REGRESSION: "bold green",
    Word.PASSED: "bold green",
    Word.RECORDED: "bold",
}


def print_decision(report: Report, *, quiet: bool) -> None:
    """Print what did not pass, what is flaky, gates, examples and the decision to standard output.

    Args:
        report: The check.
        quiet: Only the decision.
    """
    parts: list[RenderableType] = []
    if not quiet:
        parts += [*_not_passed(report), *_flaky(report)]
    if report.reasked is not None and not quiet:
        parts += _asked_again(report.reasked)
    if report.gate_checks and not quiet:
        parts.append(_gates(report))
    if report.judges is not None and not quiet:
        parts += [Text(report.judges.text), Text("")]
    if not quiet:
        parts += [_example(example) for example in report.examples]
    parts.append(_decision(report))
    emit(*parts)


def _not_passed(report: Report) -> Iterator[RenderableType]:
    found = not_passed(report.view)
    if found:
        table = table_of("Failures", "Task", "Times", "First in", "Message")
        for row in found[:_ROWS]:
            message = clip(" ".join(row.message.split()), _MESSAGE)
            table.add_row(
                Text(f"{row.alias} · {row.task_id}" if row.alias else row.task_id),
                f"{row.count} of {row.total}", Text(row.place), Text(message),
            )  # fmt: skip
        yield table
        yield from _more(len(found), "task")


def _asked_again(found: Reasked) -> Iterator[RenderableType]:
    table = table_of("Asked again", "Scenario", "Result")
    for row in found.rows[:_ROWS]:
        table.add_row(Text(row.confirmation.scenario_id), Text(clip(row.text, 2 * _MESSAGE)))
    yield table
    yield from _more(len(found.rows), "scenario")
    yield from (Text(found.cost), Text(""))


def _flaky(report: Report) -> Iterator[RenderableType]:
    found = flaky_table(report.results, _ROWS)
    if found.rows:
        table = table_of("Flaky", "Scenario", "Task", "Passed", *found.columns)
        for row in found.rows:
            table.add_row(Text(row.scenario_id), Text(row.task), row.passed, *row.cells)
        yield table
        yield from _more(len(found.rows) + found.left_out, "flaky check")


def _more(count: int, noun: str) -> Iterator[Text]:
    if count > _ROWS:
        yield Text(f"and {counted(count - _ROWS, f'more {noun}')}")
        yield Text("")


def _gates(report: Report) -> Table:
    table = table_of("Gates", "Gate", "Wanted", "Found", "")
    for gate in report.gate_checks:
        table.add_row(
            Text(gate.name),
            percent(gate.wanted),
            f"{percent(gate.found)} ({gate.counts_text})",
            Text("met", "green") if gate.met else Text("not met", "bold red"),
        )
    return table


def _example(example: Example) -> Text:
    """Question, expected, got and trace of one scenario that explains the decision."""
    text = Text(example.scenario_id, style="bold")
    if example.passed:
        text.append(f"  {example.passed}", style="not bold dim")
    for name, value in (
        ("asked", example.question),
        ("check", example.check),
        ("expected", example.expected),
        ("got", example.got),
        ("trace", example.trace),
    ):
        if value:
            text.append(f"\n  {name:<9}", style="not bold dim").append(value, "not bold default")
    return text.append("\n")


def _decision(report: Report) -> Text:
    """The last lines."""
    decision = report.decision
    text = Text(f"{decision.word.capitalize()}.", style=_STYLES.get(decision.word, "bold red"))
    text.append(f" {decision.headline}", style="not bold default")
    reasons = decision.reasons
    for reason in reasons[:_REASONS]:
        text.append(f"\n  - {reason}", style="not bold default")
    if len(reasons) > _REASONS:
        text.append(f"\n  - and {len(reasons) - _REASONS} more", style="not bold default")
    return text
