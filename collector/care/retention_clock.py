"""The date that retention counts ages to: the wall clock's, without its jumps ahead."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from scouter.errors import TransientError

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
        fresh.write_text(text, encoding="utf-8")
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
        self._kept, self._length_s = note, length_s
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
            text = self._kept.read()
            if text is None:
                return None
            found = json.loads(text)
            return _Round(
                date_ns=int(found["date_ns"]),
                lag_ns=int(found["lag_ns"]),
                left_s=min(float(found["left_s"]), self._length_s),
            )
        except (OSError, ValueError, TypeError, KeyError, OverflowError, TransientError) as error:
            _log.warning("cannot read %s: %s", self._kept, error)
            return None

    def _note(self, found: _Round) -> None:
        try:
            self._kept.write(json.dumps(asdict(found)))
        except (OSError, TransientError) as error:  # this process knows it
            _log.warning("cannot write %s: %s", self._kept, error)
