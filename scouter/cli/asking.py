"""The common part of commands that ask a collector: address, token, times, tables."""

import datetime
import json
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from scouter.errors import ConfigError
from scouter.model.visible import did_you_mean, visible

if TYPE_CHECKING:
    from pydantic import BaseModel

    from scouter.client.client import ScouterClient

_PANEL: Final = "The collector"
_LENGTH: Final = re.compile(r"(\d{1,9})([smhdw])")
_TIME: Final = re.compile(r"\d{4}-|[0-9]+(\.[0-9]+)?$")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TOKEN_FILE_BYTES: Final = 4096

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The collector's address; else SCOUTER_URL, else http://127.0.0.1:4318.",
        rich_help_panel=_PANEL,
    ),
]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the token; else SCOUTER_AUTH_TOKEN. There is no option for the token "
        "itself: every user of the machine sees the options of a program.",
        rich_help_panel=_PANEL,
    ),
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="From this time on: RFC 3339, 30m, 24h or 7d ago, or seconds since 1970.",
    ),
]
Until: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Before this time, in the same forms.")
]
RecordId: TypeAlias = Annotated[
    str | None, typer.Option(metavar="RECORD", help="A record's id, or its uid.")
]
ProfileName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PROFILE", help="Alias, name, uid or digest.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object a line, for programs.")
]
JsonOfOne: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object, for programs.")
]


NO_RESULT: Final = (
    "A record is evaluated once its trace is complete, some ten seconds after the last span. "
    "Options may leave out what there is"
)


def connect(url: str | None, token_file: Path | None) -> "ScouterClient":
    """Open a client.

    Raises:
        ConfigError: The address cannot be one, or the token's file cannot be read.
    """
    from scouter.client.client import ScouterClient  # HTTP and the models take most of the start

    return ScouterClient(url, None if token_file is None else read_token(token_file))


def read_token(path: Path) -> str:
    """Read the token that a file holds.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    try:
        with path.open("rb") as file:
            token = file.read(_TOKEN_FILE_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "this is no text"
        raise ConfigError(f"--token-file {path}: {problem}") from error
    if not token:
        raise ConfigError(f"--token-file {path}: the file is empty")
    return token


def length_s(text: str) -> int | None:
    """Read a length of time such as `30m`, in seconds; None for what is none."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS_S[found[2]]


def moment(text: str | None, option: str, now: datetime.datetime | None = None) -> str | None:
    """Read a time that may be an age, such as `24h`.

    Args:
        text: As it was typed.
        option: Name of the option, such as `--since`.
        now: By default the present time.

    Returns:
        The text for the API, which itself refuses impossible times.

    Raises:
        ConfigError: Neither an age nor something that begins like a time.
    """
    ago_s = None if text is None else length_s(text)
    if ago_s is None:
        if text and not _TIME.match(text):
            raise ConfigError(
                f"{option}: {text!r} is no time; expected RFC 3339, such as 2026-01-31T12:00:00Z, "
                "or an age, such as 30m, 24h or 7d"
            )
        return text
    now = datetime.datetime.now(datetime.UTC) if now is None else now
    try:
        return (now - datetime.timedelta(seconds=ago_s)).isoformat()
    except OverflowError:
        raise ConfigError(f"{option}: {text} is longer ago than there are times") from None


def moment_ns(text: str | None, option: str) -> int | None:
    """Read a time or an age as nanoseconds since 1970.

    Raises:
        ConfigError: It is neither.
    """
    given = moment(text, option)
    if given is None:
        return None
    try:
        return int(float(given) * 10**9)
    except ValueError:
        pass
    try:
        found = datetime.datetime.fromisoformat(given)
        if found.tzinfo is None:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"{option}: {text!r} is no time; expected RFC 3339 with its zone, such as "
            "2026-01-31T12:00:00Z, seconds since 1970, or an age, such as 30m, 24h or 7d"
        ) from None
    return int(found.timestamp() * 1e6) * 1_000


def clock(time: datetime.datetime) -> str:
    """Write a time for people, in UTC and to the second."""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}Z"


def for_output(line: str) -> str:
    """A line as the standard output gets it: `visible` on a terminal, else as it is."""
    return visible(line) if sys.stdout.isatty() else line


def print_lines(items: "Iterable[BaseModel | Mapping[str, object]]") -> None:
    """Print each item as one line of JSON."""
    for each in items:
        is_plain = isinstance(each, Mapping)
        line = json.dumps(each, ensure_ascii=False) if is_plain else each.model_dump_json()
        typer.echo(for_output(line))


@contextmanager
def status(text: str) -> Generator[Callable[[str], None]]:
    """Show people who watch how far the work is: a line on standard error, which they can renew.

    Args:
        text: At the beginning.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console  # it takes a while to load

    with Console(stderr=True).status(text) as shown:
        yield shown.update


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that a filter would find nothing for.

    Raises:
        ConfigError: It is none of the known names; asks whether a near one is meant.
    """
    names = list(dict.fromkeys(known))
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {', '.join(names) or 'none'}"
        raise ConfigError(f"{what} {name!r}; {hint}")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], none: str = NO_RESULT
) -> None:
    """Print a table to the standard output; one that is no terminal gets lines of any length.

    Text of records is printed `visible`.

    Args:
        columns: Headings.
        rows: Cells by row. Without any, one line on standard error says that there is nothing.
        none: Why that may be, or what to do.
    """
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    if not rows:
        typer.echo(f"scouter: there is none. {none}", err=True)
        return

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(visible(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 10_000
    Console(width=width, highlight=False, markup=False).print(table)
