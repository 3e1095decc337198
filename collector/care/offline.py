"""Copies of a data folder that no collector has open."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from collector.care.data_folder import LOG_FOLDER, refuse_store
from collector.log.offline import segment_paths
from collector.store.conservation import ConservationReads
from collector.store.files import FIRST_FILE, sync_folder
from collector.store.offline import OfflineReads
from collector.store.retention import RestReads, UpkeepReads
from scouter.errors import ConfigError


class OfflineStore(OfflineReads, ConservationReads, UpkeepReads, RestReads):
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
