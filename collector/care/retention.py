"""A thread that keeps the store within its age and size, and removes the bytes of what was erased.

An erased thing is gone from every answer at once. Its bytes are in files of the log, which go once
the worker has read beyond them, and in free parts of the store's file, which go as the rows that
stay are written into a new one. That needs as much disk again as they take.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from collector.log.file_log import FileLog
from collector.store.file_store import FileStore
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "retention.json"
"""Name of the file inside a data folder."""
_DAY_S: Final = 86_400
_STOPPED_NS: Final = _DAY_S * 10**9
"""Longest stop of a collector, in nanoseconds, after which a start believes the date."""
_DRIFT_NS: Final = 3_600 * 10**9
"""Largest difference, in nanoseconds, between the date and the time that ran between two rounds.

A larger difference counts as a jump of the clock.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """State that one round of retention leaves for the next, which may be in another process."""

    date_ns: int
    lag_ns: int = 0
    """Nanoseconds by which the date that ages are counted to is behind the wall clock."""
    left_s: float = 0.0
    """Seconds for which that holds; they run only while a collector does."""


class Note(Protocol):
    """A short text that outlives a process."""

    def read(self) -> str | None:
        """The text that was written last; None if none was.

        Raises:
            OSError | ValueError | TransientError: It cannot be read now.
        """
        ...

    def write(self, text: str) -> None:
        """Keep a text in the place of the one before.

        Raises:
            OSError | TransientError: It cannot be written now; the one before may stay.
        """
        ...


class FileNote:
    """A note in a file.

    Args:
        path: The file; made with the first text.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> str | None:
        """The text that was written last."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, text: str) -> None:
        """Keep a text in the place of the one before."""
        fresh = self._path.with_suffix(".fresh")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


class RetentionClock:
    """Tells the date, behind a jump ahead the one of before it, as long as that may be right.

    A clock that was a year behind, and is set right, would make everything a year older at once.
    After the age at which things go, as time runs, all that is older than the jump is that old, and
    the date is believed again.

    Args:
        note: Of the rounds, so that a restart forgets no jump.
        length_s: Age at which things go.
        now_ns: Wall clock.
        monotonic: Seconds that run while the machine does.
    """

    def __init__(
        self,
        note: Note,
        length_s: float,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stored, self._length_s = note, length_s
        self._now_ns, self._monotonic = now_ns, monotonic
        self._last: tuple[float, _Round] | None = None

    def now_ns(self, newest_ns: int | None) -> int:
        """The date that ages are counted to, for one round.

        Args:
            newest_ns: Arrival of the newest stored item. It counts as the date of the last round,
                where none is noted.
        """
        date_ns, at_s = self._now_ns(), self._monotonic()
        if self._last is None:
            before, ran_s = self._noted() or _Round(date_ns=newest_ns or date_ns), 0.0
            jump_ns = max(0, date_ns - before.date_ns - _STOPPED_NS)
        else:
            before, ran_s = self._last[1], at_s - self._last[0]
            jump_ns = date_ns - before.date_ns - int(ran_s * 1e9)
            jump_ns = 0 if abs(jump_ns) <= _DRIFT_NS else jump_ns
        left_s = max(0.0, before.left_s - ran_s)
        lag_ns = max(0, (before.lag_ns if left_s else 0) + jump_ns)
        if jump_ns > 0:
            left_s = self._length_s
            _log.warning(
                "the date is %.1f days ahead of the time that ran, as far as it is known: "
                "retention takes nothing out for that in the next %.1f days",
                jump_ns / _DAY_S / 1e9,
                left_s / _DAY_S,
            )
        found = _Round(date_ns=date_ns, lag_ns=lag_ns, left_s=left_s)
        self._last = at_s, found
        self._note(found)
        return date_ns - lag_ns

    def _noted(self) -> _Round | None:
        try:
            text = self._stored.read()
            if text is None:
                return None
            found = json.loads(text)
            return _Round(
                date_ns=int(found["date_ns"]),
                lag_ns=int(found["lag_ns"]),
                left_s=min(float(found["left_s"]), self._length_s),
            )
        except (OSError, ValueError, TypeError, KeyError, OverflowError, TransientError) as error:
            _log.warning("cannot read %s: %s", self._stored, error)
            return None

    def _note(self, found: _Round) -> None:
        try:
            self._stored.write(json.dumps(asdict(found)))
        except (OSError, TransientError) as error:  # this process knows it
            _log.warning("cannot write %s: %s", self._stored, error)


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
        log: FileLog,
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
