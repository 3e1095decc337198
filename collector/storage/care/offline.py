"""A store that no collector has open: read without changing it, copied, put back."""

import contextlib
import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb

from collector.storage.duckdb.database import (
    FILE_NAME,
    DamagedStoreError,
    explain,
    is_damage,
    quoted,
    run,
)
from collector.storage.duckdb.schema import MIGRATIONS, TABLES
from collector.storage.log.span_log import LOG_FOLDER, sync_folder
from scouter.errors import ConfigError

_MEMORY: Final = "256MB"


class OfflineStore:
    """The database of a data folder, opened for reading; nobody writes to it meanwhile.

    Args:
        folder: The data folder.

    Raises:
        ConfigError: There is no store, or a collector has it open.
        DamagedStoreError: It cannot be opened, as it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE_NAME
        if not self.path.is_file():
            raise ConfigError(f"no store in {folder}: there is no {FILE_NAME}; see --data")
        try:
            self._connection = duckdb.connect(config={"memory_limit": _MEMORY, "threads": 2})
            self.read(f"ATTACH '{quoted(self.path)}' AS store (READ_ONLY)")
            self.read("USE store")
        except duckdb.Error as error:
            kind = DamagedStoreError if is_damage(error) else ConfigError
            raise kind(f"cannot open the store {self.path}: {explain(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query and fetch everything."""
        return run(self._connection, sql, parameters)

    def parts(
        self, sql: str, parameters: Sequence[object], rows: int
    ) -> Generator[list[tuple[Any, ...]]]:
        """Run a query and fetch some rows at a time; no other query may run meanwhile."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute("USE store")
            cursor.execute(sql, list(parameters))
            while part := cursor.fetchmany(rows):
                yield part

    def version(self) -> int:
        """The last migration that it has had."""
        try:
            return self.read("SELECT coalesce(max(version), 0) FROM migrations")[0][0]
        except duckdb.Error as error:
            if is_damage(error):
                raise DamagedStoreError(f"{self.path}: {explain(error)}") from error
            raise ConfigError(f"{self.path} is no store of a collector") from error

    def tables(self) -> list[str]:
        """The tables that this version has, in the order of `TABLES`."""
        found = {row[0] for row in self.read("SHOW TABLES")}
        return [table for table in TABLES if table in found]

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be in the files."""
        return "erasures" in self.tables() and bool(self.read("SELECT 1 FROM erasures LIMIT 1"))


KNOWN_VERSION: Final = len(MIGRATIONS)
"""Version of the stores that this program writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Number of files and bytes in a copy."""

    files: int
    size_bytes: int


def copy_store(source: Path, target: Path) -> Copied:
    """Copy the files of a store; the name of the database is there only once all else is.

    Args:
        source: A data folder or a backup; nobody writes to it.
        target: An empty folder, or one that is not there.

    Raises:
        ConfigError: The target holds something, or cannot be written.
    """
    try:
        if target.exists() and any(target.iterdir()):
            raise ConfigError(f"{target} is not empty; give an empty folder")
        (target / LOG_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        target.chmod(0o700)
        size = files = 0
        log = sorted((source / LOG_FOLDER).glob("*.spans"))
        for file in (*log, source / f"{FILE_NAME}.wal", source / FILE_NAME):
            if file.exists():
                copy = target / file.relative_to(source)
                partial = copy.with_name(f"{copy.name}.partial")
                partial.touch(mode=0o600)
                shutil.copyfile(file, partial)
                partial.replace(copy)
                files, size = files + 1, size + file.stat().st_size
        sync_folder(target)
    except OSError as error:
        raise ConfigError(f"cannot copy {source} to {target}: {error.strerror or error}") from error
    return Copied(files=files, size_bytes=size)
