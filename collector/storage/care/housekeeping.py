"""A thread that keeps the store within its age and size, beside everything else."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final

from collector.care.retention_clock import RetentionClock
from collector.storage.port.care import CareStore
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_DAY_NS: Final = 86_400 * 10**9


class Housekeeping:
    """Takes out what is too old or too much, and adds changes of counts up, again and again.

    Args:
        store: The store.
        folder: Of the store.
        retention_days: Age at which things go; 0 keeps everything.
        max_store_bytes: Size above which the oldest go; None for no bound.
        every_s: Seconds between two rounds.
        now_ns: Wall clock.
        monotonic: Seconds that run, whatever becomes of the date.
    """

    def __init__(
        self,
        store: CareStore,
        folder: Path,
        *,
        retention_days: float,
        max_store_bytes: int | None,
        every_s: float = 600.0,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._every_s = store, every_s
        self._clock = RetentionClock(folder, retention_days * 86_400, now_ns, monotonic)
        self._retention_ns = int(retention_days * _DAY_NS)
        self._max_bytes = max_store_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-housekeeping")

    def start(self) -> None:
        """Begin; the first round comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def tidy(self) -> int:
        """One round.

        Returns:
            Records and spans that were taken out.

        Raises:
            TransientError: The store cannot write now.
        """
        removed = 0
        if self._retention_ns:
            now_ns = self._clock.now_ns(self._store.newest_ns())
            removed += self._store.remove_before(now_ns - self._retention_ns)
        if self._max_bytes is not None:
            self._store.checkpoint()  # the size is that of the file proper
            removed += self._store.keep_within(self._max_bytes)
        self._store.compact().result()
        if self._store.has_rests():
            self._store.remove_rests()
            _log.info("the files hold nothing any more of what was erased")
        if removed:
            self._store.checkpoint()  # only then are their blocks free
            _log.info("retention took %d records and spans out of the store", removed)
        return removed

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self.tidy()
            except (TransientError, DataError, CancelledError) as error:
                _log.warning("housekeeping has to wait: %s", error)
            except Exception:  # noqa: BLE001 the thread outlives any fault
                _log.exception("a fault in housekeeping; the next round goes on")
