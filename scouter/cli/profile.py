"""The commands `scouter profile …`."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import TokenFile, Url, clock, connect, print_table
from scouter.errors import ScouterError
from scouter.model.visible import one_line, visible

if TYPE_CHECKING:
    from scouter.client.models import ProfileItem
    from scouter.drift.profile import AgentEvalProfile

profile = typer.Typer(
    name="profile",
    help="Look after profiles: files, and those of a collector.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@profile.callback()
def _group() -> None:
    """Look after profiles: files, and those of a collector."""


@profile.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME…", help="Profile files, or names of ready-made ones."),
    ],
) -> None:
    """Check profiles without running anything.

    Prints each one's alias, digest and tasks, and expected values that can never work. The exit
    code is 2 if one is wrong; all are looked at.

        scouter profile check geographer.yaml agent_health
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start
    from scouter.evaluate.tasks.expected_doubts import doubts

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
                f"{len(found.tasks)} tasks ({tasks}){_watched(found)}"
            )
            for task_id, doubt in doubts(found.tasks):
                said = f"{file}: task {task_id!r}: expected_value: {doubt}"
                typer.echo(f"scouter: {visible(said)}", err=True)
                broken += 1
    if broken:
        raise typer.Exit(2)


@profile.command()
def push(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME…", help="Profile files, or names of ready-made ones."),
    ],
    activate: Annotated[
        bool,
        typer.Option("--activate", help="Also make them the active versions of their aliases."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Register profiles with a collector; needs the scope profile.

    Registering does not activate: records that name only the alias are still evaluated by the
    active version. All files are checked before the first one is sent.

        scouter profile push geographer.yaml
        scouter profile push geographer.yaml --activate
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start

    found = [AgentEvalProfile.from_file(file) for file in files]
    with connect(url, token_file) as client:
        for each in found:
            _print_profiles([client.register_profile(each, set_active=activate)])


@profile.command("activate")
def activate_profile(
    uids: Annotated[
        list[str], typer.Argument(metavar="UID…", help="As `scouter profile list` shows them.")
    ],
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Make a registered profile the active version of its alias; needs the scope profile.

    It replaces the version that was active until then.

        scouter profile activate 0a1b2c3d4e5f60718293a4b5c6d7e8f9
    """
    with connect(url, token_file) as client:
        _print_profiles(client.activate_profile(uid) for uid in uids)


@profile.command("deactivate")
def deactivate_profile(
    uids: Annotated[
        list[str], typer.Argument(metavar="UID…", help="As `scouter profile list` shows them.")
    ],
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Leave an alias without an active version; needs the scope profile.

    scouter profile deactivate 0a1b2c3d4e5f60718293a4b5c6d7e8f9
    """
    with connect(url, token_file) as client:
        _print_profiles(client.deactivate_profile(uid) for uid in uids)


_COLUMNS: Final = (
    "alias", "name", "version", "active", "alert", "tasks", "registered", "digest", "uid",
)  # fmt: skip


@profile.command("list")
def list_profiles(
    alias: Annotated[str | None, typer.Option(metavar="ALIAS")] = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the profiles that a collector knows, in all their versions.

    scouter profile list --alias geographer
    """
    with connect(url, token_file) as client:
        known = list(client.profiles(alias=alias))
        print_table(
            _COLUMNS,
            (
                (
                    each.alias,
                    each.name,
                    each.version,
                    "unusable" if each.unusable else "yes" if each.is_active else "",
                    _alert_of(each),
                    len(each.tasks),
                    clock(each.registered_at),
                    each.profile_version[:12],
                    each.uid,
                )
                for each in known
            ),
        )
    for each in known:
        if each.unusable:
            typer.echo(visible(f"{each.alias} cannot be used any more: {each.unusable}"), err=True)


def _alert_of(known: "ProfileItem") -> str:
    """The condition of its alert, or that nothing is watched."""
    if known.alert is None or known.is_active:
        return known.alert or ""
    return f"watches nothing, not active ({known.alert})"


def _print_profiles(profiles: "Iterable[ProfileItem]") -> None:
    for each in profiles:
        typer.echo(line_of(each))


def line_of(known: "ProfileItem") -> str:
    """One line on a profile: its names, its digest, and its state."""
    state = "active" if known.is_active else "not active"
    if known.alert is not None and not known.is_active:
        state += ": its alert watches nothing"
    digest = known.profile_version[:12]
    return visible(f"{known.uid}: alias {known.alias!r}, digest {digest}, {state}")


def _watched(found: "AgentEvalProfile") -> str:
    """Say which traces a profile watches, if any."""
    watch = found.watch
    if watch is None:
        return ""
    said = [f"watches {watch.sample:.4g} of the traces that match"]
    if found.plan.asks:
        said.append(f"asks judges about {watch.judge_sample:.4g} of those")
    return ", " + ", ".join(said)
