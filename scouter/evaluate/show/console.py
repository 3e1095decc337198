"""Tables on whatever standard output is at the moment, and the words and colours in them."""

import io
import sys
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from scouter.evaluate.outcome import Outcome
from scouter.model.visible import visible

_STYLES: Final = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERRORED: "bold red",
    Outcome.SKIPPED: "dim",
    Outcome.PENDING: "dim",
}


def emit(*parts: RenderableType) -> None:
    """Print to the standard output of this moment, so that it can be redirected.

    On a terminal tables fit its width and long ids wrap; elsewhere lines are as long as they
    need to be, so that an id can be searched for. Letters that the output's encoding lacks are
    written as escapes, and so are those by which a text could act on the terminal.
    """
    stream = sys.stdout
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        widest = max(map(_width, parts), default=0)
        console = Console(file=stream, highlight=False, width=max(80, widest))
    with console.capture() as capture:
        console.print(_Visible(Group(*parts)))
    text = capture.get()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


class _Visible:
    """Part of the output without the control characters of its texts."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._part, options):
            text = segment.text if segment.text == "\n" else visible(segment.text)
            yield Segment(text, segment.style, segment.control)


def _width(part: RenderableType) -> int:
    wide = Console(file=io.StringIO(), width=100_000)
    return wide.measure(part).maximum


def percent(passed: int, total: int) -> Text:
    """Write a rate as `75.0% (3/4)`, green if all passed."""
    if not total:
        return Text("-", style="dim")
    style = "green" if passed == total else "red" if passed == 0 else "yellow"
    return Text(f"{passed / total:.1%} ({passed}/{total})", style=style)


def share(rate: float) -> str:
    """Write a rate as `75.0%`."""
    return f"{rate:.1%}"


def table_of(title: str, *columns: str) -> Table:
    """A table whose first column is a name and whose other columns are figures."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold", justify="left")
    return table


def outcome_text(outcome: Outcome) -> Text:
    """Write an outcome in its colour."""
    return Text(outcome.value, style=_STYLES[outcome])
