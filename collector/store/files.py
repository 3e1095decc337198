"""The files of a store: their names, their version, and what DuckDB says of them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb

from collector.store.schema import COLUMNS, VERSION
from scouter.errors import ConfigError

_DAMAGE: Final = re.compile(
    r"(IO Error: )?(Corrupt |Could not read enough bytes|Failed to deserialize"
    r"|Failure while replaying WAL file|The file .* exists, but it is not a valid DuckDB)"
)
"""Beginnings of its errors about damage; they have no type of their own."""
_NO_DAMAGE: Final = ("Out of Memory", "No space left", "Permission denied")
"""May hinder reading its log, too."""
_HOLDER: Final = re.compile(r"PID (\d+)")
FIRST_FILE: Final = "store-1.duckdb"
OLD_FILE: Final = "scouter.duckdb"
"""Store of the versions before the first that had one like this."""

_OTHER_VERSION: Final = (
    "{path} was written by another version of the collector ({version}; this one writes "
    f"{VERSION}): start that one on this folder, as before, or have its `scouter collector export` "
    "write the tables, and give this one another --data"
)


class DamagedStoreError(ConfigError):
    """A file of the store cannot be opened, as bytes of it are wrong or missing."""


def number_of(file: Path) -> int:
    """The number in the name of a file."""
    return int(file.stem.partition("-")[2])


def store_files(folder: Path) -> list[Path]:
    """The files of a store, without their logs; more than one where a copy was interrupted."""
    return sorted(folder.glob("store-*[0-9].duckdb"), key=number_of)


def check_version(connection: duckdb.DuckDBPyConnection, path: Path) -> set[str]:
    """Refuse a file that another version has written; one without a table is new.

    Returns:
        The names of its tables.

    Raises:
        ConfigError: It has.
    """
    tables = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    found = (
        connection.execute("SELECT version FROM identity").fetchall()
        if "identity" in tables
        else [("another",)]
        if tables
        else []
    )
    for (version,) in found:
        if version != VERSION:
            raise ConfigError(_OTHER_VERSION.format(path=path, version=version))
    return tables


def missing_columns(connection: duckdb.DuckDBPyConnection, path: Path) -> Iterator[tuple[str, str]]:
    """Columns that were added to the schema since a file was made, behind all others."""
    for table, columns in COLUMNS.items():
        found = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
        if found != [name for name, _ in columns[: len(found)]]:
            raise ConfigError(_OTHER_VERSION.format(path=path, version=f"with another {table}"))
        for name, kind in columns[len(found) :]:
            yield table, f"{name} {kind}"


def refuse_old_file(folder: Path) -> None:
    """Refuse a folder with a store of the versions before the first.

    Raises:
        ConfigError: There is one, and none of this version.
    """
    old = folder / OLD_FILE
    if old.exists() and not store_files(folder):
        raise ConfigError(_OTHER_VERSION.format(path=old, version="an earlier one"))


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_damage(error: BaseException) -> bool:
    """Say whether an error of DuckDB's is about bytes that are wrong or missing."""
    text = str(error)
    return (
        isinstance(error, duckdb.Error)
        and _DAMAGE.match(text) is not None
        and not any(each in text for each in _NO_DAMAGE)
    )


def explain(error: BaseException) -> str:
    """Say in our words what DuckDB says at length."""
    if "Conflicting lock" in str(error):
        holder = _HOLDER.search(str(error))
        by = f" (process {holder[1]})" if holder else ""
        return f"another collector{by} has it open; end that one, or give this one another --data"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "the path is a file and no folder"
    return first_line(error)


def first_line(error: BaseException) -> str:
    """The first line of an error's text; DuckDB adds pages of help."""
    return str(error).partition("\n")[0] or type(error).__name__
