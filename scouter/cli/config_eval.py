"""`scouter eval --config FILE`: the config file of another system in the place of scenarios."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from scouter.errors import ConfigError
from scouter.model.visible import one_line

INTERRUPTED: Final = 130
"""Exit status that a shell reports for a program that Ctrl-C ended."""

if TYPE_CHECKING:
    from scouter.formats.nvidia.command import NvidiaRun


def evaluate_config(
    run: "NvidiaRun",
    unused: Mapping[str, object],
    *,
    allow_errors: bool,
    allow_unjudged: bool,
) -> None:
    """Run a config file, print the summary, and end with the exit code.

    The code is 0 where every item has its outcome, 1 where one has none, where an evaluator of the
    file was not run, and where nothing was judged.

    Args:
        run: The run of the config file.
        unused: By name, arguments of the command that belong to scenarios; one that is given is
            an error.
        allow_errors: Whether missing outcomes stop nothing.
        allow_unjudged: Whether evaluators that were not run stop nothing.

    Raises:
        ScouterError: A file, a name or an argument is wrong.
    """
    given = [name for name, value in unused.items() if value]
    if given:
        raise ConfigError(f"{given[0]} belongs to SCENARIOS, and --config has its own result files")
    from scouter.formats.nvidia.command import run_config  # the engine takes most of the start
    from scouter.replay.reports.decision import unjudged_reason

    try:
        results = run_config(run)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on where this one ended", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for line in results.lines:
        typer.echo(one_line(line))
    problems: list[str] = []
    if results.n_errored and not allow_errors:
        problems.append(f"{results.n_errored} without an outcome; see the files")
    if results.left_out and not allow_unjudged:
        problems.append(unjudged_reason(results.left_out))
    if not results.n_judged:
        problems.append("nothing was judged: no evaluator gave a score")
    for problem in problems:
        typer.echo(one_line(problem), err=True)
    if problems:
        raise typer.Exit(1)


def needed(scenarios: Path | None) -> Path:
    """The scenario file.

    Raises:
        ConfigError: Neither it nor a config file is given.
    """
    if scenarios is None:
        raise ConfigError("missing argument SCENARIOS, or --config FILE in its place")
    return scenarios


def needed_agent(agent: str | None) -> str:
    """The agent.

    Raises:
        ConfigError: None is given.
    """
    if agent is None:
        raise ConfigError("missing option --agent MODULE:NAME; only --format vertex needs none")
    return agent
