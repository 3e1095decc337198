"""The commands `scouter scenarios …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.harvest import harvest
from scouter.errors import FileFormatError, ScouterError
from scouter.model.visible import one_line

if TYPE_CHECKING:
    from scouter.evaluate.scenario import EvalScenarios

scenarios = typer.Typer(
    name="scenarios",
    help="Look after scenario files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@scenarios.callback()
def _group() -> None:
    """Look after scenario files."""


scenarios.command()(harvest)


@scenarios.command()
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES…", help="Scenario files: .yaml, .json, .jsonl.")
    ],
) -> None:
    """Check scenario files without running anything.

    Prints what each file holds, and warns of an `expected_outcome` that no task compares. The exit
    code is 2 if one of them is wrong; all are looked at.

        scouter scenarios validate scenarios.yaml more/*.jsonl
    """
    from scouter.evaluate.compare.gate_checks import check_tags
    from scouter.evaluate.scenario import EvalScenarios  # the engine takes most of the start
    from scouter.replay.unread import unread_warning

    broken = 0
    for file in files:
        try:
            found = EvalScenarios.from_path(file)
            if found.gates is not None:
                check_tags(found.gates, [tag for scenario in found for tag in scenario.tags])
        except ScouterError as error:
            name = "" if isinstance(error, FileFormatError) else f"{file}: "
            typer.echo(f"scouter: {one_line(f'{name}{error}')}", err=True)
            broken += 1
        else:
            typer.echo(f"{file}: {_summary(found)}")
            if warning := unread_warning(found):
                typer.echo(f"scouter: warning: {one_line(f'{file}: {warning}')}", err=True)
    if broken:
        raise typer.Exit(2)


def _summary(found: "EvalScenarios") -> str:
    judged = sum(scenario.has_tasks() for scenario in found)
    tasks = sum(len(scenario.tasks) for scenario in found)
    parts = [f"{len(found)} scenarios", f"{judged} with tasks ({tasks} in all)"]
    multi = sum(scenario.is_multi_turn() for scenario in found)
    interactive = sum(scenario.is_interactive() for scenario in found)
    parts += [f"{multi} multi-turn"] if multi else []
    parts += [f"{interactive} interactive"] if interactive else []
    required = sum(scenario.required for scenario in found)
    tags = {tag for scenario in found for tag in scenario.tags}
    parts += [f"{required} required"] if required else []
    parts += [f"tags {', '.join(sorted(tags))}"] if tags else []
    parts += ["gates"] if found.gates is not None else []
    return ", ".join(parts)
