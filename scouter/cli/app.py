"""The program `scouter`: every command is an entry point, loaded when it is called."""

import gc
import sys
import traceback
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from scouter.errors import ScouterError
from scouter.model.visible import did_you_mean, one_line

GROUP: Final = "scouter.commands"
"""Entry points of this group are commands: functions, or whole typer apps."""

OWN: Final = {
    "alerts": "scouter.cli.alerts:alerts",
    "canary": "scouter.cli.alerts:canary",
    "comment": "scouter.cli.comment:comment",
    "compare": "scouter.cli.compare:compare",
    "drift": "scouter.cli.drift.commands:drift",
    "erase": "scouter.cli.letters:erase",
    "eval": "scouter.cli.eval:evaluate",
    "export": "scouter.cli.export:export",
    "import": "scouter.cli.import_exports:import_exports",
    "judge": "scouter.cli.judge:judge",
    "letters": "scouter.cli.letters:letters",
    "mcp": "scouter.cli.mcp.command:mcp",
    "profile": "scouter.cli.profile:profile",
    "reevaluate": "scouter.cli.reevaluate:reevaluate",
    "results": "scouter.cli.results:results",
    "scenarios": "scouter.cli.scenarios:scenarios",
}
"""The commands of this package, which are there whoever else adds some."""

_EXTRAS: Final = {
    "collector": "collector",
    "demo": "demo",
    "mcp": "mcp",
    "store": "collector",
    "token": "collector",
}
"""The extra that installs what a command needs, where it is not the base."""

USAGE_ERROR: Final = 2
_UNAVAILABLE: Final = "unavailable"
_YOUNG: Final = 100_000
"""Objects that are made before the first search for cycles among them, instead of 700."""


class MissingExtraError(ScouterError):
    """A command's packages are not installed."""

    def __init__(self, command: str, missing: str) -> None:
        super().__init__(command, missing)
        self.command, self.missing = command, missing

    def __str__(self) -> str:
        extra = _EXTRAS.get(self.command)
        what = f"'scouter-agents[{extra}]'" if extra else self.missing
        return (
            f"the command {self.command!r} needs {self.missing}, which is not installed: "
            f"pip install {what}"
        )


class LazyGroup(TyperGroup):
    """Finds commands among entry points and imports one only when it is run or described."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 typer's private click
        """Names of all commands, sorted."""
        own = super().list_commands(ctx)
        return sorted({*own, *self._entries})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 typer's private click
        """Load a command; one that cannot be loaded says so when it is run."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = self._entries.get(cmd_name)
        return None if entry is None else _command(cmd_name, _load(entry))

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        """Commands by name. To look through what is installed takes 25 ms."""
        own = [EntryPoint(name, value, GROUP) for name, value in OWN.items()]
        return {entry.name: entry for entry in (*entry_points(group=GROUP), *own)}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 typer's private click
        """Find the command that is named; click itself suggests what is registered only."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            question = did_you_mean(name, self.list_commands(ctx))
            if question:
                ctx.fail(f"No such command {name!r}. {question.capitalize()}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 typer's private click
        """Run a command; a mistyped option is refused with the one that is nearest to it."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _suggest_option(error)
            raise


def _suggest_option(error: Any) -> None:  # noqa: ANN401 typer's private click
    known = getattr(error, "possibilities", None)
    question = did_you_mean(error.option_name, known) if known else ""
    if question:
        error.message, error.possibilities = f"{error.message}. {question.capitalize()}", None


def _load(entry: EntryPoint) -> Callable[..., object] | typer.Typer:
    try:
        return cast("Callable[..., object] | typer.Typer", entry.load())
    except ImportError as error:
        missing = MissingExtraError(entry.name, error.name or str(error))

    def unavailable() -> None:
        raise missing

    unavailable.__name__ = _UNAVAILABLE
    text = f"Not available: {missing}."
    unavailable.__doc__ = text.replace("[", "\\[")  # help is read as markup
    return unavailable


def _command(name: str, loaded: Callable[..., object] | typer.Typer) -> object:
    if isinstance(loaded, typer.Typer):
        return typer.main.get_command(loaded)
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    is_missing = getattr(loaded, "__name__", "") == _UNAVAILABLE  # takes whatever it is given
    single.command(name, context_settings=settings if is_missing else None)(loaded)
    return typer.main.get_command(single)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"scouter {version('scouter-agents')}")
        raise typer.Exit


def make_app() -> typer.Typer:
    """Build the program without running it."""
    app = typer.Typer(
        name="scouter",
        cls=LazyGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def scouter(
        _version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="Show the version."
            ),
        ] = False,
    ) -> None:
        """Tells you when an LLM agent gets worse."""

    del scouter  # registered; pyright would call it unused
    return app


def main() -> None:
    """Run the program; an error that a person can mend is one line and exit code 2.

    So does any other exception end it, after its traceback: 1 is the word of a release check.
    Searches for cycles of objects, most of them while modules are imported and one at the end,
    would be a quarter of a short command.
    """
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    try:
        make_app()(prog_name="scouter")
    except ScouterError as error:
        typer.echo(f"scouter: {one_line(error)}", err=True)
        sys.exit(USAGE_ERROR)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - shown whole, and no decision
        traceback.print_exc()
        sys.exit(USAGE_ERROR)
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
