"""Locks between the processes that share a spool.

The copies of an open file in forked children keep its `flock` alive: until somebody releases it, or
the last copy is closed. So children close theirs, and the owner does not leave it at closing.
"""

import os
from pathlib import Path
from typing import Final

from scouter.errors import ConfigError
from scouter.transport.fork import watch

try:
    import fcntl
except ImportError as missing:  # Windows
    raise ConfigError("a spool needs a system with POSIX file locks") from missing

_FILE_MODE: Final = 0o600


class FileLock:
    """An exclusive lock, held from its making to `close`, or to the process' end.

    Args:
        path: The file; made if it is not there, and removed at closing.

    Raises:
        BlockingIOError: It has another owner.
        OSError: The file system refuses.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        watch(self)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._file), path.stat()):
                raise BlockingIOError(f"{path}: another owner has just removed it")
        except OSError:
            self._close_file()
            raise

    def after_fork_in_child(self) -> None:
        """Let go of the parent's lock without ending it."""
        self._close_file()

    def close(self) -> None:
        """Release it; again is harmless."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a fork may be about to copy it
            self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
