"""Copies and exports of a data folder that no collector has open."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.care.data_folder import LOG_FOLDER, refuse_store
from collector.log.offline import segment_paths
from collector.store.conservation import ConservationReads
from collector.store.files import FIRST_FILE, sync_folder
from collector.store.offline import OfflineReads
from collector.store.schema import COLUMNS, NOT_COPIED
from collector.store.upkeep import UpkeepReads
from scouter.errors import ConfigError

# All SQL is put together from this package's own words.

FORMATS: Final = ("parquet", "csv")
"""Kinds of files that tables are exported to."""


class OfflineStore(OfflineReads, ConservationReads, UpkeepReads):
    """The store of a data folder, read without changing it; see `OfflineReads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Number of files and bytes in a copy."""

    files: int
    size_bytes: int


def copy_data(source: Path, target: Path) -> Copied:
    """Copy store and log of a folder; the name of the store is there only once all else is.

    Args:
        source: A data folder or a backup, which nobody has open.
        target: An empty folder, or one that is not there.

    Raises:
        ConfigError: There is no store in the source, it holds bytes of what was erased, or the
            target holds something or cannot be written.
    """
    with OfflineStore(source) as store:
        if store.has_rests():
            raise ConfigError(
                f"the files in {source} still hold bytes of what was erased, and a copy would, "
                "too; start the collector, which takes them out within ten minutes"
            )
        first = store.path
        log = f"{first.name}.wal"
        try:
            if target.exists() and any(target.iterdir()):
                raise ConfigError(f"{target} is not empty; give an empty folder")
            refuse_store(target)
            (target / LOG_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
            target.chmod(0o700)
            pairs = [(path, target / LOG_FOLDER / path.name)
                     for path in segment_paths(source / LOG_FOLDER)]  # fmt: skip
            pairs += [(source / log, target / f"{FIRST_FILE}.wal"), (first, target / FIRST_FILE)]
            size = files = 0
            for path, copy in pairs:
                if path.exists():
                    partial = copy.with_name(f"{copy.name}.partial")
                    partial.touch(mode=0o600)
                    shutil.copyfile(path, partial)
                    partial.replace(copy)
                    files, size = files + 1, size + path.stat().st_size
            sync_folder(target)
        except OSError as error:
            raise ConfigError(
                f"cannot copy {source} to {target}: {error.strerror or error}"
            ) from error
    return Copied(files=files, size_bytes=size)


def export_tables(
    source: Path,
    folder: Path,
    kind: str = "parquet",
    tell: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Write every table into a file, all as of one commit.

    The files are called `TABLE.parquet.partial` until all of them are complete.

    Args:
        source: A data folder that nobody has open.
        folder: Gets `TABLE.parquet`, or `TABLE.csv`, for each table; older ones are overwritten.
        kind: One of `FORMATS`.
        tell: Is told which table is written.

    Raises:
        ConfigError: There is no store, or the folder cannot be written; nothing is left.
        TransientError: The store cannot be read, for instance for want of memory; the same.
    """
    tables = [table for table in COLUMNS if table not in NOT_COPIED]
    partials = {table: folder / f"{table}.{kind}.partial" for table in tables}
    with OfflineStore(source) as store:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for table, partial in partials.items():
                tell(f"table {table}")
                partial.touch(mode=0o600)
                store.read(
                    f"COPY {table} TO '{_quoted(partial)}' ({_OPTIONS[kind]}, USE_TMP_FILE false)"
                )
            return [partial.replace(partial.with_suffix("")) for partial in partials.values()]
        except OSError as error:
            raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error
        finally:
            for partial in partials.values():
                partial.unlink(missing_ok=True)


_OPTIONS: Final = {
    "parquet": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048",
    "csv": "FORMAT csv, HEADER true",
}
"""DuckDB has a group of rows of a Parquet file in memory, so groups are small."""


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
