"""Bytes that the system keeps in memory only as long as it has room for them."""

import mmap
import tempfile
from pathlib import Path
from typing import IO, Final

_SEGMENT: Final = 16 * 2**20
"""Size of a file; what of it is not written takes no room. Each one is held open."""


class PagedBytes:
    """Keeps bytes in files without a name, mapped into memory to be read; one thread adds.

    What is never read takes no memory of the process, and what was read can be taken from it again
    without being written. A file ends with the last view into it, or with the process.

    Args:
        folder: Whose disk has the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._view = memoryview(b"")
        self._size = 0

    def keep(self, data: bytes | bytearray) -> memoryview:
        """Keep some bytes for as long as the view that is returned is held.

        Raises:
            OSError: There is no room on the disk; nothing was kept.
        """
        if self._file is None or self._size + len(data) > len(self._view):
            self._file = self._begin(max(_SEGMENT, len(data)))
        self._file.seek(self._size)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        begin, self._size = self._size, self._size + len(data)
        return self._view[begin : self._size]

    def close(self) -> None:
        """Close the file; the views stay."""
        if self._file is not None:
            self._file.close()
        self._file, self._view, self._size = None, memoryview(b""), 0

    def _begin(self, size: int) -> IO[bytes]:
        self.close()
        file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 it stays open
        try:
            file.truncate(size)
            self._view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        except BaseException:
            file.close()
            raise
        return file
