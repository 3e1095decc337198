"""The commands `scouter collector backup`, `restore`, `export` and `check`."""

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from collector.settings.model import CollectorSettings
from collector.settings.values import parse_bytes
from scouter.cli.asking import status
from scouter.errors import ConfigError, TransientError
from scouter.model.visible import visible

DAMAGED: Final = 1
"""Exit code of `check` where something is wrong with a store; 2 is a wrong use."""
_LEAST_MEMORY: Final = 16 * 10**6
_TOKEN: Final = "SCOUTER_AUTH_TOKEN"  # noqa: S105 the variable's name
_DATA: Final[Path] = CollectorSettings.model_fields["data"].default
_FOLDER: Final = "FOLDER"

_Data = Annotated[
    Path,
    typer.Option(
        metavar="DIR", envvar="SCOUTER_COLLECTOR_DATA", help="The collector's data folder."
    ),
]


def backup(
    folder: Annotated[Path, typer.Argument(metavar=_FOLDER, help="An empty or new folder.")],
    data: _Data = _DATA,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask a running collector instead. FOLDER is a name below its setting `backups`; "
            f"a token with the scope `admin` is read from {_TOKEN}.",
        ),
    ] = None,
) -> None:
    """Copy a store, its tokens and what judges spent into a folder that `--data` can open.

    Without --server no collector may have the store open; nothing in it is changed.

    \b
        scouter collector backup /backups/monday --data /var/lib/scouter
        scouter collector backup monday --server http://127.0.0.1:4318
    """  # noqa: D301 the mark of lines that click leaves as they are
    if server is not None:
        made = _ask(server, str(folder))
        typer.echo(visible(f"{made['path']}, on the collector's machine"))
        return
    from collector.access.tokens import TokenFile
    from collector.care.check import copy_data
    from collector.care.data_folder import KnownBackup, known_backups, note_backup, pass_on
    from collector.store.ledger import copy_ledger

    with status("…") as tell:
        known_backups(data)
        tell("copying")
        copied = copy_data(data, folder)
        TokenFile(data).copy_to(folder)
        copy_ledger(data, folder)
        try:
            made = KnownBackup(path=str(folder.resolve()), made_ns=time.time_ns())
            note_backup(data, made)
            pass_on(data, folder)
        except OSError as error:
            typer.echo(f"scouter: {data} does not list this backup: {error}", err=True)
    typer.echo(f"{folder}: {copied.files} files, {_size(copied.size_bytes)}")


def restore(
    folder: Annotated[Path, typer.Argument(metavar=_FOLDER, help="A folder that `backup` made.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="An empty or new folder.")],
) -> None:
    """Make a data folder of a backup, with its tokens; the backup stays.

    \b
        scouter collector restore /backups/monday --data /var/lib/scouter
    """  # noqa: D301 the mark of lines that click leaves as they are
    from collector.access.tokens import TokenFile
    from collector.care.check import copy_data
    from collector.care.data_folder import known_backups, take_over
    from collector.store.files import store_files
    from collector.store.ledger import copy_ledger

    with status("…") as tell:
        known_backups(folder)
        tell("copying")
        copied = copy_data(folder, data)
        has_tokens = (folder / "access.db").exists()
        if has_tokens:
            TokenFile(folder).copy_to(data)
        copy_ledger(folder, data)
        try:
            take_over(folder, data, store_files(folder)[-1].stat().st_mtime_ns)
        except OSError as error:
            typer.echo(f"scouter: {data} does not list this backup: {error}", err=True)
    typer.echo(f"{data}: {copied.files} files, {_size(copied.size_bytes)}")
    typer.echo(f"verify it with: scouter collector check --data {data}", err=True)
    if has_tokens:
        typer.echo(
            "its tokens are those of the backup: one that was revoked since lets in again; see "
            f"`scouter token list --data {data}`",
            err=True,
        )


def export(
    folder: Annotated[Path, typer.Argument(metavar=_FOLDER, help="Gets one file for each table.")],
    data: _Data = _DATA,
    memory_limit: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Memory that DuckDB may use, at least 16MB; the command itself takes up to 300 MB "
            "more. Rows are read in parts that fit.",
        ),
    ] = "128MB",
) -> None:
    """Write every table of a store into a Parquet file; no collector may have it open.

    The files are called TABLE.parquet.partial until all are complete; one that fails leaves none.

    \b
        scouter collector export /exports/tables --data /var/lib/scouter
    """  # noqa: D301 the mark of lines that click leaves as they are
    from collector.care.table_export import export_tables

    limit = _memory(memory_limit)
    with status("…") as tell:
        files = export_tables(data, folder, tell, limit)
    for file in files:
        typer.echo(f"{file}  {_size(file.stat().st_size)}")


def check(data: _Data = _DATA) -> None:
    """Verify a store that no collector has open, and show what became of everything.

    Reads every item of the log and every row, and changes nothing. The exit code is 0 if all
    is well, 1 if something is damaged, 2 if the store cannot be looked at.

    \b
        scouter collector check --data /var/lib/scouter
    """  # noqa: D301 the mark of lines that click leaves as they are
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from collector.care.check import check_data
    from collector.items.times import format_time

    with status("…") as tell:
        report = check_data(data, tell)
    console = Console()
    for space, sheet in report.sheets.items():
        title = Text(visible(f"space {space}"))  # a text would be read as rich's markup
        table = Table(Column("", no_wrap=True), "records", "spans", "log events", title=title)
        for name in (
            "accepted", "stored", "waiting", "evaluated", "skipped", "expired", "dead_lettered",
            "erased", "lost", "duplicates", "late", "spanless",
        ):  # fmt: skip
            parts = (sheet.records, sheet.spans, sheet.events)
            cells = [str(getattr(each, name, "")) for each in parts]
            table.add_row(name, *cells)
        console.print(table, highlight=False)
    sizes = ", ".join(f"{name} {_size(size)}" for name, size in report.sizes.items())
    typer.echo(f"version {report.version}; {report.spans} spans, {report.items} items; {sizes}")
    oldest, newest = report.received_ns
    if oldest is not None and newest is not None:
        typer.echo(f"received from {format_time(oldest)} to {format_time(newest)}")
    for note in report.notes:
        typer.echo(visible(f"note: {note}"))
    for problem in report.problems:
        typer.echo(visible(f"damaged: {problem}"), err=True)
    if report.problems:
        typer.echo(
            f"{len(report.problems)} problems; restore a backup, or start the collector once with "
            "--accept-loss to go on with what is left",
            err=True,
        )
        raise typer.Exit(DAMAGED)
    typer.echo("all is well")


def _ask(server: str, name: str) -> dict[str, Any]:
    import httpx  # it takes most of the start

    from scouter.client.client import ScouterClient

    try:
        with ScouterClient(server) as client:
            return client.backup(name).model_dump(mode="json")
    except TransientError as error:
        cause = error.__cause__
        if not isinstance(cause, httpx.HTTPError):
            raise  # the collector answered
        raise TransientError(
            f"--server {server}: {type(cause).__name__}: {cause}; does a collector listen there?"
        ) from error


def _memory(text: str) -> int:
    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--memory-limit: {error}") from error
    if not isinstance(size, int) or size < _LEAST_MEMORY:
        raise ConfigError(f"--memory-limit {text}: DuckDB needs at least 16MB")
    return size


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
