"""The commands `scouter profile …`."""

from collections import Counter
from typing import Annotated

import typer

from scouter.errors import ScouterError
from scouter.model.visible import one_line

profile = typer.Typer(
    name="profile",
    help="Look after profile files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@profile.callback()
def _group() -> None:
    """Look after profile files."""


@profile.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME…", help="Profile files, or names of ready-made ones."),
    ],
) -> None:
    """Check profiles without running anything.

    Prints each one's alias, digest and tasks. The exit code is 2 if one is wrong; all are
    looked at.

        scouter profile check geographer.yaml agent_health
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start

    broken = 0
    for file in files:
        try:
            found = AgentEvalProfile.from_file(file)
        except ScouterError as error:
            typer.echo(f"scouter: {one_line(error)}", err=True)
            broken += 1
        else:
            kinds = Counter(task.task_type for task in found.tasks)
            tasks = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            typer.echo(
                f"{file}: alias {found.alias!r}, digest {found.digest[:12]}, "
                f"{len(found.tasks)} tasks ({tasks})"
            )
    if broken:
        raise typer.Exit(2)
