"""Records and spans made in forked children: the parent never sees them, but can count them."""

import os
from typing import Final

RECORD: Final = b"r"
SPAN: Final = b"s"


class ForkedWork:
    """Count of what children of this process made since `begin`, in a file that they share."""

    def __init__(self) -> None:
        self._pid = 0
        self._fd = -1
        self._made = b""

    def begin(self) -> None:
        """Count from now on, from 0; where processes cannot fork there is nothing to count."""
        if not hasattr(os, "fork"):
            return
        import tempfile  # few processes replay

        with tempfile.TemporaryFile() as file:
            self._fd = os.dup(file.fileno())
        self._pid, self._made = os.getpid(), b""

    def end(self) -> None:
        """Count no further."""
        if self._fd < 0:
            return
        self._made = self._read()
        self._pid = 0
        os.close(self._fd)
        self._fd = -1

    def takes(self, kind: bytes) -> bool:
        """Count something that is made here and now, if this process is a child.

        Args:
            kind: `RECORD` or `SPAN`.

        Returns:
            False in the process that began to count.
        """
        if not self._pid or os.getpid() == self._pid:
            return False
        os.write(self._fd, kind)
        return True

    def count(self, kind: bytes) -> int:
        """Give the number of records or spans that children made."""
        return self._read().count(kind)

    def _read(self) -> bytes:
        if self._fd < 0:
            return self._made
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)


FORKED: Final = ForkedWork()
"""The process' own, as span capture belongs to the process."""
