"""The store of a data folder that no collector has open: read, and never changed."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb

from collector.store.files import (
    DamagedStoreError,
    check_version,
    explain,
    is_damage,
    refuse_old_file,
    store_files,
)
from collector.store.reads import Change, Reads, Rows
from scouter.errors import ConfigError, TransientError

MEMORY_BYTES: Final = 256 * 10**6
"""Memory that DuckDB may use."""


class OfflineReads(Reads):
    """Opens the newest whole file of a folder for reading.

    Args:
        folder: The data folder.
        memory_bytes: Memory that DuckDB may use.

    Raises:
        ConfigError: There is no store, a collector has it open, or another version wrote it.
        DamagedStoreError: It cannot be opened, as it is damaged.
    """

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        refuse_old_file(folder)
        self.folder: Final = folder
        self._connection = duckdb.connect(config={"memory_limit": f"{memory_bytes}B", "threads": 2})
        try:
            self.path: Final = self._open(store_files(folder))
        except duckdb.Error as error:
            self._connection.close()
            kind = DamagedStoreError if is_damage(error) else ConfigError
            raise kind(f"cannot open the store in {folder}: {explain(error)}") from error
        except ConfigError:
            self._connection.close()
            raise

    def _open(self, files: Sequence[Path]) -> Path:
        for path in reversed(files):
            quoted = str(path).replace("'", "''")
            self._connection.execute(f"ATTACH '{quoted}' AS store (READ_ONLY)")
            self._connection.execute("USE store")
            check_version(self._connection, path)
            if self.read("SELECT 1 FROM whole"):
                return path
            self._connection.execute("USE memory")
            self._connection.execute("DETACH store")  # a copy that was never finished
        raise ConfigError(f"no store in {self.folder}: there is no store-1.duckdb; see --data")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a query and fetch everything.

        Raises:
            DamagedStoreError: Bytes are wrong or missing.
            TransientError: There is no memory or disk for it.
        """
        with self._reading():
            return self._connection.execute(sql, list(parameters)).fetchall()

    def arrow(self, sql: str, parameters: Sequence[object] = ()) -> Any:  # noqa: ANN401 no types
        """The same as an Arrow table; raises as `read` does."""
        with self._reading():
            return self._connection.sql(sql, params=list(parameters)).to_arrow_table()

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except duckdb.Error as error:
            if not isinstance(error, duckdb.OperationalError) and not is_damage(error):
                raise
            kind = DamagedStoreError if is_damage(error) else TransientError
            raise kind(f"the store in {self.folder} cannot be read: {explain(error)}") from error

    read_for_work = read

    def last_seq(self) -> int:
        """Number of the last commit; 0 of an empty store."""
        ((seq,),) = self.read("SELECT coalesce(max(seq), 0) FROM offsets")
        return seq

    def alone(self) -> AbstractContextManager[None]:
        """Nobody writes."""
        return nullcontext()

    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        """Refuse it.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{self.path} is open for reading alone: start a collector to write")
