"""The command `scouter token`."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from collector.access.caller import Scope
from collector.access.tokens import Token, TokenFile
from collector.settings.model import CollectorSettings
from collector.settings.values import parse_seconds
from scouter.cli.asking import Json, print_objects, print_table
from scouter.errors import ConfigError

token: Final = typer.Typer(
    name="token",
    no_args_is_help=True,
    add_completion=False,
    help="Make, list and revoke the tokens that a collector asks for.\n\n"
    "They are kept in its data folder, as hashes; a running collector follows within half a "
    "second. From the first one on, nothing but its probes is answered without a token.",
)

_Data = Annotated[
    Path,
    typer.Option(
        metavar="DIR", envvar="SCOUTER_COLLECTOR_DATA", help="The collector's data folder."
    ),
]
_DATA: Final[Path] = CollectorSettings.model_fields["data"].default
_SPACE: Final[str] = CollectorSettings.model_fields["space"].default


@token.command()
def create(
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
) -> None:
    """Make a token and print it; it cannot be shown again.

    Scopes: `ingest` sends spans and records, `read` asks for what is stored, `label` says of stored
    records whether they are good, `profile` registers and activates profiles, `admin` replays dead
    letters, evaluates again and erases. None of them includes another.

        scouter token create --scope ingest --name agents
        scouter token create --scope read --scope admin --space shop --expires 90d
    """
    expires_ns = None if expires is None else _end_ns(expires)
    made, text = TokenFile(data).create(name, scope, space, expires_ns)
    typer.echo(text)
    typer.echo(
        f"token {made.id} {_what(made)}; it is kept in the data folder {data.resolve()}, and is "
        "not shown again",
        err=True,
    )


@token.command("list")
def show(data: _Data = _DATA, *, json: Json = False) -> None:
    """Show every token that was ever made, without its secret."""
    rows: list[Sequence[str]] = []
    now_ns = time.time_ns()
    for each in _existing(data).all():
        state = "revoked" if each.revoked_ns else "valid" if each.is_valid(now_ns) else "expired"
        rows.append((
            each.id, each.name, " ".join(sorted(each.scopes)), each.space,
            _day(each.created_ns), _day(each.expires_ns), state,
        ))  # fmt: skip
    columns = ("id", "name", "scopes", "space", "made", "expires", "state")
    if json:
        print_objects(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, rows)


@token.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `scouter token list` shows.")],
    data: _Data = _DATA,
) -> None:
    """End a token.

    scouter token revoke 3f9c2ab04d11
    """
    if not _existing(data).revoke(token_id):
        raise ConfigError(f"no valid token {token_id!r} in {data}; see `scouter token list`")
    typer.echo(f"token {token_id} is revoked", err=True)


def _existing(data: Path) -> TokenFile:
    """Open the tokens of a folder that is there: looking for them makes none.

    Raises:
        ConfigError: There is no such folder.
    """
    if not data.is_dir():
        raise ConfigError(f"there is no data folder {data}; see --data")
    return TokenFile(data)


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
