"""A thread that keeps the store within its age and size, and removes the bytes of what was erased.

An erased thing is gone from every answer at once. Its bytes are in files of the log, which go once
the worker has read beyond them, and in free parts of the store's file, which go as the rows that
stay are written into a new one. That needs as much disk again as they take.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from collector.care.retention_clock import FILE_NAME, FileNote, RetentionClock
from collector.log.port import Log
from collector.store.file_store import FileStore
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_DAY_NS: Final = 86_400 * 10**9
_RETRY_S: Final = 10.0
"""Between two tries to remove what was erased."""
_ROLL_S: Final = 60.0
_POLL_S: Final = 0.1


class Housekeeping:
    """Takes out what is too old or too much, gives room back, and removes what was erased.

    Args:
        store: The store.
        log: The log in front of it.
        folder: The data folder.
        retention_days: Age at which things go; 0 has everything stay.
        max_store_bytes: Size above which the oldest go; None for no bound.
        every_s: Seconds between two rounds.
        now_ns: Wall clock.
        monotonic: Seconds that run, whatever becomes of the date.
    """

    def __init__(
        self,
        store: FileStore,
        log: Log,
        folder: Path,
        *,
        retention_days: float,
        max_store_bytes: int | None,
        every_s: float = 600.0,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._files, self._every_s = store, log, every_s
        self._monotonic = monotonic
        note = FileNote(folder / FILE_NAME)
        self._clock = RetentionClock(note, retention_days * 86_400, now_ns, monotonic)
        self._retention_ns = int(retention_days * _DAY_NS)
        self._max_bytes = max_store_bytes
        self.fault = ""
        """Reason that the last round failed, such as want of disk room; empty if it did not."""
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-housekeeping")

    def start(self) -> None:
        """Begin; the first round comes after one interval, what was erased before goes at once."""
        self._wanted.set()
        self._thread.start()

    def stop(self) -> None:
        """End after the step that runs."""
        self._stopping.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def erased(self) -> None:
        """Have the bytes of what was erased removed now; any thread."""
        self._wanted.set()

    def tidy(self) -> int:
        """One round.

        Returns:
            Spans that were taken out.

        Raises:
            TransientError: The store cannot write now, or there is no room for a copy.
        """
        removed = 0
        if self._retention_ns:
            now_ns = self._clock.now_ns(self._store.newest_ns())
            removed += self._store.remove_before(now_ns - self._retention_ns)
        if self._max_bytes is not None:
            self._store.checkpoint()  # the size is that of the file proper
            removed += self._store.keep_within(self._max_bytes)
        if removed:
            _log.info("retention took %d spans out of the store", removed)
        self._store.add_up()
        self._store.checkpoint()  # only then are the blocks of what went free
        if self._store.has_rests():
            self.remove_rests()
            return removed
        self._cut_log()  # erased data that came again is refused by the store, and is still in it
        if self._store.purge(self._stopping.is_set):
            _log.info("the room of what retention took is given back")
        return removed

    def remove_rests(self) -> bool:
        """Remove the bytes of what was erased from the log and from the store.

        Returns:
            False if the worker has not read far enough yet, another erasure came meanwhile, or it
            was given up.

        Raises:
            TransientError: It cannot be done now; it is still to be done then.
        """
        if not self._store.has_rests():
            return True
        erased_to = self._store.newest_erasure()
        if not self._cut_log() or not self._store.purge(self._stopping.is_set, erased_to):
            return False
        if self._store.has_rests():  # of an erasure that came meanwhile: the log has them, too
            return False
        _log.info("the files hold nothing any more of what was erased")
        return True

    def _cut_log(self) -> bool:
        """Remove from the log all that was accepted before now, once the store has it."""
        if self._files.begin == self._files.end:
            return True
        end = self._files.roll().result(_ROLL_S)
        until = time.monotonic() + _ROLL_S
        while self._store.offset < end:
            if time.monotonic() >= until or self._stopping.wait(_POLL_S):
                return False
        self._files.trim(end)
        return self._files.begin >= end

    def _run(self) -> None:
        next_at = self._monotonic() + self._every_s
        wait_s = self._every_s
        while True:
            self._wanted.wait(wait_s)
            self._wanted.clear()
            if self._stopping.is_set():
                return
            is_round = self._monotonic() >= next_at
            is_done = self._try(self._round if is_round else self.remove_rests)
            if is_round:
                next_at = self._monotonic() + self._every_s
            wait_s = max(0.0, next_at - self._monotonic())
            if not is_done:
                wait_s = min(wait_s, _RETRY_S)

    def _round(self) -> bool:
        self.tidy()
        return not self._store.has_rests()

    def _try(self, work: Callable[[], bool]) -> bool:
        try:
            is_done = work()
        except (TransientError, DataError, TimeoutError) as error:
            self.fault = str(error) or type(error).__name__
            _log.warning("housekeeping has to wait: %s", self.fault)
            return False
        except Exception as error:  # noqa: BLE001 the thread outlives any fault
            self.fault = repr(error)
            _log.exception("a fault in housekeeping; the next round goes on")
            return False
        self.fault = ""
        return is_done
