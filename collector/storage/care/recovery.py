"""Recovery of a store that cannot write, usually because its disk is full."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

import duckdb

from collector.storage.duckdb.database import Database
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
_PAUSE_S: Final = 2.0
"""Between two attempts. With a log of 24 MB, to open the file again takes a few tenths of one."""
_REOPEN_WAIT_S: Final = 2.0
_PROBE: Final = "room.probe"
_PROBE_BYTES: Final = 2**20


class Recovery:
    """Lets nothing in after a write that failed, until a checkpoint was written.

    A checkpoint that DuckDB cannot write takes nothing back from what was committed, but the file
    has to be opened again; then it can be read. Were more committed meanwhile, its log would grow
    beyond what the memory holds of it.

    Args:
        database: The open file.
        clock: Monotonic seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._probe = database.path.with_name(_PROBE)
        self._probe.unlink(missing_ok=True)  # of a process that was killed
        self._next_at = 0.0
        self.fault = ""
        """Reason that nothing is let in; empty if everything is."""

    def suspect(self, error: Exception) -> None:
        """Tell of a write that failed; any thread, and `attempt` has to be called then."""
        if not self.fault:
            _log.warning("the store takes nothing until it can write again: %s", error)
        self.fault = f"the store cannot write: {error}"

    def attempt(self) -> None:
        """Try whether the store can write again, if it could not; in the thread that commits.

        Raises:
            TransientError: It cannot yet.
        """
        if self._database.unwritten:
            self._reopen()
        if not self.fault:
            return
        if self._clock() < self._next_at:
            raise TransientError(self.fault)
        try:
            self._take_room()
            self._database.checkpoint()
        except (OSError, duckdb.Error) as error:
            self.suspect(error)
            self._next_at = self._clock() + _PAUSE_S
            if self._database.unwritten:
                self._reopen()
            raise TransientError(self.fault) from error
        self.fault = ""
        _log.warning("the store can write again")

    def _reopen(self) -> None:
        if not self.fault:
            self.suspect(OSError(self._database.unwritten))
            self._next_at = self._clock() + _PAUSE_S
        if not self._database.reopen(_REOPEN_WAIT_S):
            raise TransientError(self.fault)

    def _take_room(self) -> None:
        """Write a file and remove it: a checkpoint of an empty log would need no room."""
        try:
            with self._probe.open("wb") as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            self._probe.unlink(missing_ok=True)
