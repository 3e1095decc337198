"""A progress bar for people who watch; nothing for pipes and logs."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class Progress:
    """Is notified how far a replay is; shows nothing."""

    def started(self, name: str) -> None:
        """An attempt begins.

        Args:
            name: The scenario's id.
        """

    def ended(self, passed: bool) -> None:
        """An attempt is over.

        Args:
            passed: False if it raised or took too long.
        """


def tell_resumed(journal: Path, total: int, left: int) -> None:
    """Say on standard error how much of a run comes from a journal.

    Args:
        journal: The file.
        total: Attempts of the whole run.
        left: Attempts that are still to be made.
    """
    sys.stderr.write(
        f"{total - left} of {total} attempts taken from {journal}; {left} to make now\n"
    )


def tell_asking_again(scenarios: int, *, of_all: bool) -> None:
    """Say on standard error what a run goes on with.

    Args:
        scenarios: Number of scenarios that are asked again.
        of_all: True if that is the whole suite.
    """
    noun, verb, do = ("scenario", "is", "does") if scenarios == 1 else ("scenarios", "are", "do")
    if of_all:
        text = f"fewer attempts pass than before: all {scenarios} {noun} {verb} asked again"
    else:
        text = (
            f"{scenarios} {noun} that passed before and never {do} now {verb} asked again, until "
            "an attempt passes or enough fail"
        )
    sys.stderr.write(f"{text}\n")


@contextmanager
def progress_bar(
    total: int, done: int = 0, is_wanted: bool | None = None, what: str = "Scenarios"
) -> Generator[Progress]:
    """Show attempts done, failures and the time left on standard error, if it is a terminal.

    Args:
        total: Attempts of the whole run.
        done: Attempts that an earlier run has done.
        is_wanted: False for silence; None and True show a bar to a terminal, and only there.
        what: Name of what is done, until an attempt begins.
    """
    if is_wanted is False or total <= done or not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console  # rich loads when a person watches
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    from scouter.model.visible import visible

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        task = bars.add_task(what, total=total, completed=done, failed="")
        failures = 0

        class _Bar(Progress):
            def started(self, name: str) -> None:
                bars.update(task, description=visible(name))

            def ended(self, passed: bool) -> None:
                nonlocal failures
                failures += not passed
                bars.update(task, advance=1, failed=f"{failures} failed" if failures else "")

        yield _Bar()
