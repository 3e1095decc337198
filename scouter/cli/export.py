"""The command `scouter export`."""

import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer

from scouter.cli.asking import Since, TokenFile, Until, Url, connect, moment
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError, TransientError
from scouter.model.visible import visible


class What(StrEnum):
    """Kinds of rows that can be exported."""

    RECORDS = "records"
    EVALUATIONS = "evaluations"
    TASK_RESULTS = "task_results"


class Format(StrEnum):
    """Forms of a file."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export(
    what: Annotated[What, typer.Argument(help="Kind of the rows to write.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Else the standard output."),
    ] = None,
    format: Annotated[Format, typer.Option(help="Form of the file.")] = Format.JSONL,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Write everything that is stored to a file, however much it is.

    A file is there when it is complete; until then it is called FILE.PROCESS.partial. A connection
    that breaks is taken up where it broke, for up to a minute. If it cannot be, the partial file is
    removed and the exit code is 2; what went to the standard output is not the whole then.

    Parquet needs pyarrow and a file; columns that are not plain hold JSON. On a terminal control
    characters are shown as escapes; a file, or another program, gets every byte as it is.

        scouter export evaluations -o evaluations.jsonl
        scouter export task_results --format csv --since 7d > results.csv
        scouter export records --format parquet -o records.parquet
    """
    if output is not None:
        check_writable("--output", output)
    with connect(url, token_file) as client:
        form = "csv" if format is Format.CSV else "jsonl"
        parts = client.export(
            what.value, form, since=moment(since, "--since"), until=moment(until, "--until")
        )
        if format is Format.PARQUET:
            if output is None:
                raise ConfigError("--format parquet needs --output FILE")
            from scouter.cli.parquet import write_parquet

            with _whole(output) as file:
                write_parquet(_shown(parts), file, output.parent)
        elif output is None:
            for part in _lines(parts) if sys.stdout.isatty() else parts:
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        else:
            with _whole(output) as file:
                file.writelines(_shown(parts))
    if output is not None:
        typer.echo(f"wrote {output}", err=True)


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines as a terminal may get them."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield visible(line.removesuffix(b"\r").decode()).encode() + b"\n"
    yield visible(rest.decode()).encode()


def _shown(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same parts; a person who looks on sees how much has come."""
    if not sys.stderr.isatty():
        yield from parts
        return
    from rich.console import Console  # it takes a while to load

    size, began = 0, time.monotonic()
    with Console(stderr=True).status("asking") as status:
        for part in parts:
            size += len(part)
            seconds = time.monotonic() - began
            status.update(f"{size / 1e6:,.1f} MB in {seconds:,.0f} s")
            yield part


@contextmanager
def _whole(path: Path) -> Generator[IO[bytes]]:
    """Open a file that gets its name when all of it is written.

    Raises:
        ConfigError: It cannot be written.
        TransientError: Its content could not be had; nothing is left of the file.
    """
    # Two processes that write the same file do not write into each other's.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        os.replace(partial, path)
    except OSError as error:
        raise ConfigError(f"--output {path}: {error.strerror or error}") from error
    except TransientError as error:
        raise TransientError(f"{error}; --output {path} is not written: run it again") from error
    finally:
        partial.unlink(missing_ok=True)
