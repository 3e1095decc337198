"""Counts of the items that this process has put on disk, by folder and by what became of them."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scouter.transport.fork import watch


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStats:
    """Counters of this process since it began, and what lies in the folder now."""

    written: int = 0
    """Records and spans that the far side could not take at once."""
    delivered: int = 0
    """Items delivered later, including those that other processes left."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """By reason: `spool_full` (the oldest, for room), `spool_corrupt`, `rejected`, `permanent`,
    `internal`."""
    waiting: int = 0
    """Records and spans in the folder, those of other processes included."""
    waiting_bytes: int = 0


class SpoolCounts:
    """The counters of one folder."""

    def __init__(self) -> None:
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: the parent counts its own."""
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def add(self, *, written: int = 0, delivered: int = 0) -> None:
        """Count records and spans."""
        with self._lock:
            self._sums.update(written=written, delivered=delivered)

    def drop(self, lost: Counter[str]) -> None:
        """Count what is lost, by reason."""
        with self._lock:
            self._dropped += lost

    def stats(self, waiting: int, waiting_bytes: int) -> SpoolStats:
        """A consistent snapshot."""
        with self._lock:
            return SpoolStats(
                **self._sums,
                dropped=dict(self._dropped),
                waiting=waiting,
                waiting_bytes=waiting_bytes,
            )


_COUNTS: Final[dict[Path, SpoolCounts]] = {}


def counts_of(folder: Path) -> SpoolCounts:
    """The counters of a folder; the same ones for all who use it."""
    return _COUNTS.setdefault(folder.absolute(), SpoolCounts())
