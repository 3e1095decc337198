"""The command `scouter export`, and JSON lines as a Parquet file."""

import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, cast

import typer
from pydantic_core import from_json, to_json

from scouter.cli.asking import Since, TokenFile, Until, Url, connect, moment, status
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError, TransientError
from scouter.model.visible import visible

_ROWS: Final = 5000
"""Rows in one row group, unless they are long."""
_GROUP_BYTES: Final = 8 * 2**20
"""Size in bytes of the JSON lines of one row group; their objects take several times as much."""
_PLAIN: Final = (bool, int, float, str)
_INT64: Final = range(-(2**63), 2**63)
_EXACT: Final = range(-(2**53), 2**53 + 1)
"""Integers that a 64-bit float holds, each of them."""
_ARROW: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64"}


def write_parquet(parts: Iterable[bytes], file: IO[bytes], folder: Path) -> None:
    """Write JSON lines as Parquet.

    A column of booleans, integers, numbers or texts keeps its type. Any other column is JSON text.
    A column with an integer that its type does not hold is JSON text, too: no integer is rounded.

    Args:
        parts: The lines' bytes, cut anywhere.
        file: The Parquet file.
        folder: Has room for the lines, in a file without a name.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        pa: Any = import_module("pyarrow")  # its types are not complete
        pq: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            "--format parquet needs pyarrow, which is not installed: pip install pyarrow"
        ) from error

    with tempfile.TemporaryFile(dir=folder) as lines:
        lines.writelines(parts)
        kinds = _kinds(row for group in _groups(lines) for row in group)
        schema = pa.schema([(name, _ARROW.get(kind, "string")) for name, kind in kinds.items()])
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in _groups(lines):
                columns = [
                    pa.array(
                        [_cell(row.get(name), kind) for row in group], _ARROW.get(kind, "string")
                    )
                    for name, kind in kinds.items()
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _groups(lines: IO[bytes]) -> Iterator[list[dict[str, object]]]:
    """The rows of the lines, so many together as make a row group."""
    lines.seek(0)
    rows: list[dict[str, object]] = []
    size = 0
    for line in lines:
        rows.append(cast("dict[str, object]", from_json(line)))
        size += len(line)
        if len(rows) == _ROWS or size >= _GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _kinds(rows: Iterable[dict[str, object]]) -> dict[str, type]:
    """Type of the values of each column; `object` where no plain type holds them all."""
    kinds: dict[str, type] = {}
    wide: set[str] = set()
    for row in rows:
        for name, value in row.items():
            kind = type(value)
            if kind is int and value not in _EXACT:
                wide.add(name)
                kind = int if value in _INT64 else object
            known = kinds.setdefault(name, kind)
            if known is type(None):
                kinds[name] = kind
            elif kind not in (known, type(None)):
                kinds[name] = float if {kind, known} == {int, float} else object
    return {
        name: object if kind not in _PLAIN or (kind is float and name in wide) else kind
        for name, kind in kinds.items()
    }


def _cell(value: object, kind: type) -> object:
    if value is None or kind is not object:
        return value
    return to_json(value).decode()


def export(
    what: Annotated[
        Literal["records", "evaluations", "task_results"],
        typer.Argument(help="Kind of the rows to write."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Else the standard output."),
    ] = None,
    format: Annotated[
        Literal["jsonl", "csv", "parquet"], typer.Option(help="Form of the file.")
    ] = "jsonl",
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
        form = "csv" if format == "csv" else "jsonl"
        parts = client.export(
            what, form, since=moment(since, "--since"), until=moment(until, "--until")
        )
        if format == "parquet":
            if output is None:
                raise ConfigError("--format parquet needs --output FILE")

            with whole_file("--output", output) as file:
                write_parquet(_shown(parts), file, output.parent)
        elif output is None:
            for part in _lines(parts) if sys.stdout.isatty() else parts:
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        else:
            with whole_file("--output", output) as file:
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
    size, began = 0, time.monotonic()
    with status("asking") as tell:
        for part in parts:
            size += len(part)
            seconds = time.monotonic() - began
            tell(f"{size / 1e6:,.1f} MB in {seconds:,.0f} s")
            yield part


@contextmanager
def whole_file(option: str, path: Path) -> Generator[IO[bytes]]:
    """Open a file that gets its name when all of it is written.

    Args:
        option: Names the file, for errors.
        path: The file.

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
        raise ConfigError(f"{option} {path}: {error.strerror or error}") from error
    except TransientError as error:
        raise TransientError(f"{error}; {option} {path} is not written: run it again") from error
    finally:
        partial.unlink(missing_ok=True)
