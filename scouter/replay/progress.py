"""A progress bar for people who watch; nothing for pipes and logs."""

import sys
from collections.abc import Iterator, Sequence

from scouter.evaluate.scenario import EvalScenario


def track(scenarios: Sequence[EvalScenario]) -> Iterator[EvalScenario]:
    """Go through the scenarios, with a bar on standard error if that is a terminal."""
    if not scenarios or not sys.stderr.isatty():
        yield from scenarios
        return
    from rich.console import Console  # rich loads when a person watches
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Scenarios", total=len(scenarios))
        for scenario in scenarios:
            progress.update(task, description=scenario.id)
            yield scenario
            progress.advance(task)
