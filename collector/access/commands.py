"""The command `scouter token`."""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from collector.access.caller import Scope
from collector.access.tokens import Token, TokenFile, Tokens
from collector.settings.model import CollectorSettings
from collector.settings.values import parse_seconds
from scouter.cli.asking import Json, print_lines, print_table
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from collector.fleet.tokens import FleetTokens

token: Final = typer.Typer(
    name="token",
    no_args_is_help=True,
    add_completion=False,
    help="Make, list and revoke the tokens that a collector requires.\n\n"
    "They are stored in its data folder, or in a fleet's database, as hashes; a running collector "
    "follows within half a second. From the first one on, nothing but its probes is answered "
    "without a token.",
)

_Data = Annotated[
    Path,
    typer.Option(
        metavar="DIR", envvar="SCOUTER_COLLECTOR_DATA", help="The collector's data folder."
    ),
]
_PASSWORD: Final = "SCOUTER_COLLECTOR_POSTGRESQL_PASSWORD"  # noqa: S105 of a variable
_Postgresql = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="SCOUTER_COLLECTOR_POSTGRESQL",
        help="The database of a fleet, in place of a data folder: "
        "postgresql://USER@HOST:PORT/DATABASE. Its password is in the environment: "
        f"{_PASSWORD}.",
    ),
]
_DATA: Final[Path] = CollectorSettings.model_fields["data"].default
_SPACE: Final[str] = CollectorSettings.model_fields["space"].default


@token.command()
def create(
    context: typer.Context,
    scope: Annotated[
        list[Scope],
        typer.Option(help="A right of the bearer; can be given again."),
    ],
    name: Annotated[str, typer.Option(help="Name of the person or program that gets it.")] = "",
    space: Annotated[str, typer.Option(help="The only space that it opens.")] = _SPACE,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Its age at the end, such as 90d or 12h; a bare number is seconds."
        ),
    ] = None,
    data: _Data = _DATA,
    postgresql: _Postgresql = None,
) -> None:
    """Make a token and print it; it cannot be shown again.

    Scopes: `ingest` sends spans and records, `read` reads what is stored, `label` says of stored
    records whether they are good, `profile` registers and activates profiles, `admin` replays dead
    letters, evaluates again and erases. None of them includes another.

        scouter token create --scope ingest --name agents
        scouter token create --scope read --scope admin --space shop --expires 90d
    """
    expires_ns = None if expires is None else _end_ns(expires)
    with _opened(context, data, postgresql, is_to_make=True) as (tokens, where):
        made, text = tokens.create(name, scope, space, expires_ns)
        is_first = len(tokens.all()) == 1
    typer.echo(text)
    typer.echo(
        f"token {made.id} {_what(made)}; it is stored in {where}, and is not shown again", err=True
    )
    if is_first:
        typer.echo(
            "it is the first one: from now on the collector asks every caller for a token, also on "
            "this machine; `--scope ingest` is for agents, `--scope read` for page and commands",
            err=True,
        )


@token.command("list")
def show(
    context: typer.Context,
    data: _Data = _DATA,
    postgresql: _Postgresql = None,
    *,
    json: Json = False,
) -> None:
    """Show every token that was ever made, without its secret."""
    rows: list[Sequence[str]] = []
    now_ns = time.time_ns()
    with _opened(context, data, postgresql) as (tokens, _):
        found = tokens.all()
    for each in found:
        state = "revoked" if each.revoked_ns else "valid" if each.is_valid(now_ns) else "expired"
        rows.append((
            each.id, each.name, " ".join(sorted(each.scopes)), each.space,
            _day(each.created_ns), _day(each.expires_ns), state,
        ))  # fmt: skip
    columns = ("id", "name", "scopes", "space", "made", "expires", "state")
    if json:
        print_lines(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, rows)


@token.command()
def revoke(
    context: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `scouter token list` shows.")],
    data: _Data = _DATA,
    postgresql: _Postgresql = None,
) -> None:
    """End a token.

    scouter token revoke 3f9c2ab04d11
    """
    with _opened(context, data, postgresql) as (tokens, where):
        is_revoked = tokens.revoke(token_id)
    if not is_revoked:
        raise ConfigError(f"no valid token {token_id!r} in {where}; see `scouter token list`")
    typer.echo(f"token {token_id} is revoked", err=True)


@contextmanager
def _opened(
    context: typer.Context, data: Path, postgresql: str | None, *, is_to_make: bool = False
) -> Generator[tuple[Tokens, str]]:
    """Open the tokens that the options name.

    Args:
        context: Tells what is on the command line, and not from the environment.
        data: The data folder.
        postgresql: The database of a fleet.
        is_to_make: Make the folder if it is not there; looking for tokens makes none.

    Returns:
        The tokens, and their place in words.

    Raises:
        ConfigError: There is no such folder, or both are named on the command line.
    """
    if postgresql is not None and _is_named(context, "data"):
        if _is_named(context, "postgresql"):
            raise ConfigError("--data and --postgresql name two places; give one of them")
        postgresql = None  # of the environment
    if postgresql is not None:
        tokens = _of_fleet(postgresql)
        try:
            yield tokens, tokens.where
        finally:
            tokens.close()
        return
    if not is_to_make and not data.is_dir():
        raise ConfigError(f"there is no data folder {data}; see --data")
    yield TokenFile(data), f"the data folder {data.resolve()}"


def _of_fleet(url: str) -> "FleetTokens":
    try:
        from collector.fleet.tokens import open_tokens  # only a fleet has psycopg
    except ImportError as error:
        raise ConfigError(
            f"--postgresql needs {error.name}: pip install 'scouter-agents[fleet]'"
        ) from error
    return open_tokens(url, os.environ.get(_PASSWORD) or None)


def _is_named(context: typer.Context, option: str) -> bool:
    found = context.get_parameter_source(option)
    return found is not None and found.name == "COMMANDLINE"


def _end_ns(age: str) -> int:
    """Compute the end of a token that is made now, in nanoseconds since the epoch.

    An end that is too far off is refused where the token is made.
    """
    try:
        found = parse_seconds(age)
    except ValueError as error:
        raise ConfigError(f"--expires: {error}") from error
    assert isinstance(found, float)  # noqa: S101 of a text
    return time.time_ns() + int(min(found * 1e9, 2.0**63))


def _what(made: Token) -> str:
    until = "never expires" if made.expires_ns is None else f"expires {_day(made.expires_ns)}"
    return f"has the scopes {', '.join(sorted(made.scopes))} in the space {made.space!r}, {until}"


def _day(at_ns: int | None) -> str:
    return "" if at_ns is None else datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%F %R")
