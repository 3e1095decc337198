"""The commands `scouter scenarios …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.asking import Json, print_objects
from scouter.cli.check_options import Checks
from scouter.cli.generate import generate
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
scenarios.command()(generate)


@scenarios.command()
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES…", help="Scenario files: .yaml, .json, .jsonl.")
    ],
    *,
    checks: Checks = None,
    json: Json = False,
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
        told: dict[str, object] = {"file": str(file), "error": None, "warning": None}
        try:
            found = EvalScenarios.from_path(file)
            if found.gates is not None:
                check_tags(found.gates, [tag for scenario in found for tag in scenario.tags])
        except ScouterError as error:
            name = "" if isinstance(error, FileFormatError) else f"{file}: "
            typer.echo(f"scouter: {one_line(f'{name}{error}')}", err=True)
            told["error"] = str(error)
            broken += 1
        else:
            told |= _counts(found)
            if not json:
                typer.echo(f"{file}: {_summary(found)}")
            if warning := unread_warning(found):
                typer.echo(f"scouter: warning: {one_line(f'{file}: {warning}')}", err=True)
                told["warning"] = warning
        if json:
            print_objects([told])
    if broken:
        raise typer.Exit(2)


def _counts(found: "EvalScenarios") -> dict[str, object]:
    return {
        "scenarios": len(found),
        "with_tasks": sum(scenario.has_tasks() for scenario in found),
        "tasks": sum(len(scenario.tasks) for scenario in found),
        "multi_turn": sum(scenario.is_multi_turn() for scenario in found),
        "interactive": sum(scenario.is_interactive() for scenario in found),
        "required": sum(scenario.required for scenario in found),
        "unreviewed": sum(scenario.unreviewed for scenario in found),
        "tags": sorted({tag for scenario in found for tag in scenario.tags}),
        "has_gates": found.gates is not None,
    }


def _summary(found: "EvalScenarios") -> str:
    counts = _counts(found)
    parts = [
        f"{counts['scenarios']} scenarios",
        f"{counts['with_tasks']} with tasks ({counts['tasks']} in all)",
    ]
    for name in ("multi_turn", "interactive", "required", "unreviewed"):
        parts += [f"{counts[name]} {name.replace('_', '-')}"] if counts[name] else []
    tags = {tag for scenario in found for tag in scenario.tags}
    parts += [f"tags {', '.join(sorted(tags))}"] if tags else []
    parts += ["gates"] if counts["has_gates"] else []
    return ", ".join(parts)
