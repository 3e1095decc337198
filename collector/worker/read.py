"""Reads the log in order: the entries of one commit, and the time up to which they reach."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from collector.items.limits import Limits
from collector.log.brokers import Brokers
from collector.log.port import Entry, Log
from collector.store.commit import RecordId
from collector.worker.committer import Committer
from collector.worker.open_trace import Paused
from collector.worker.prepare import Prepared
from collector.worker.profiles import ProfileRegistry
from collector.worker.recover import ALONE, PAUSE_S, POISON, Starts, reading
from collector.worker.take import Contents, put_aside, read_entry

MAX_STEP_S: Final = 1.0
"""Most that counts between two looks: beyond it the process, or the way into it, stood still."""
_SECOND_NS: Final = 1_000_000_000


class LogTime:
    """Seconds that pass with the items of the log, and by the clock where all of them were read.

    The time of a record that waits for its trace must not be over while its spans lie
    unread in the log. So this time stands still where the worker does: it is behind as far as the
    worker is behind, and goes on in steps. A gap in the log, or a date that is set anew, counts a
    second at most.

    While the log is behind a broker this time goes on, and `paused` with it.

    Args:
        now_ns: Wall clock, the one by which receivers date what they append.
        max_hold_s: A broker that has been ahead for so long no longer holds the time of traces of
            which nothing says that they come by a broker.
        max_step_s: Most that counts between two looks.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        max_hold_s: float = 3_600.0,
        max_step_s: float = MAX_STEP_S,
    ) -> None:
        self._now_ns, self._max_hold_ns = now_ns, int(max_hold_s * _SECOND_NS)
        self._max_step_s: Final = max_step_s
        self._known_ns = now_ns()
        """Everything that was received before is read."""
        self.seconds = 0.0
        """The time now."""
        self.paused = Paused()
        """The part of it for which the log was behind a broker."""

    def read(self, received_ns: int, behind_ns: int = 0) -> float:
        """Move on to an item that is read; returns the time."""
        return self._move(received_ns, behind_ns)

    def caught_up(self, behind_ns: int = 0) -> float:
        """Move on to the present, as the log was read to its end; returns the time."""
        return self._move(self._now_ns(), behind_ns)

    def _move(self, to_ns: int, behind_ns: int) -> float:
        step_s = (to_ns - self._known_ns) / _SECOND_NS
        if step_s > 0:
            step_s = min(step_s, self._max_step_s)
            self.seconds += step_s
            if behind_ns:
                is_paused = behind_ns <= self._max_hold_ns
                self.paused = Paused(
                    self.paused.broker_s + step_s, self.paused.unknown_s + step_s * is_paused
                )
            self._known_ns = to_ns
        elif step_s < -self._max_step_s:  # items of several receivers are not quite in order
            self._known_ns = to_ns
        return self.seconds


_log: Final = logging.getLogger(__name__)
_READ_BYTES: Final = 2**20
_MOST_ITEMS: Final = 5_000
"""Spans and records of one commit: it takes a tenth of a second."""
_GATHER_S: Final = 0.3
"""Longest reading for one commit."""
_NEXT_S: Final = 0.02
"""Wait for more entries of a commit that has some."""
_BUSY_S: Final = 0.01
"""Receivers are busy if something was appended within this time."""
_PAUSE_S, _PAUSES = 0.003, 20
"""The worker lets busy receivers acknowledge first, for so long and so often before each read."""
_BEHIND_BYTES: Final = 256 * 2**20
"""Unread bytes of the log beyond which it does not."""


class Reader:
    """Reads entries and takes them apart; to be used by one thread.

    Args:
        log: The log.
        registry: Finds what a record means by its profile.
        offset: Everything before it was read.
        time: Goes on with what is read.
        clock: Monotonic seconds.
        stopping: Ends a read once it is set.
        limits: Of what is read.
        brokers: Says how far the log is behind them.
    """

    def __init__(
        self,
        log: Log,
        registry: ProfileRegistry,
        offset: int,
        *,
        time: LogTime,
        clock: Callable[[], float],
        stopping: threading.Event,
        limits: Limits,
        brokers: Brokers,
    ) -> None:
        self._log, self._registry, self._clock, self._stopping = log, registry, clock, stopping
        self._limits, self._brokers = limits, brokers
        self.time: Final = time
        self.offset = offset
        self._is_file_end = False

    @property
    def is_behind(self) -> bool:
        """True if something is left to be read."""
        return self._log.end > self.offset

    def read(self, wait_s: float) -> Prepared:
        """Read entries for one commit; none if none comes within the time.

        Raises:
            TransientError: The log cannot be read now; nothing was passed over.
        """
        prepared, items, began = Prepared(), 0, self._clock()
        while items < _MOST_ITEMS and not self._stopping.is_set():
            if not self._log.wait(self.offset, wait_s):
                self.time.caught_up(self._brokers.behind_ns())
                break
            self._let_receivers_first()
            items += self._chunk(prepared, _READ_BYTES, self._taken)
            if self._is_file_end or self._clock() - began > _GATHER_S:
                break
            wait_s = _NEXT_S
        return prepared

    def read_with_care(
        self, starts: Starts, committer: Committer, wait_s: float, *, is_early: bool
    ) -> Prepared:
        """Read where an earlier process may have ended by it: noted before, as judgements are.

        Args:
            starts: Says how often that was started.
            committer: Notes it.
            wait_s: Longest wait for what the log has, and has not here: nobody ends by that.
            is_early: True for `POSTPONED_S` after the start.

        Raises:
            TransientError: The worker is to stop.
        """
        if not self._log.wait(self.offset, wait_s):
            self.time.caught_up(self._brokers.behind_ns())
            return Prepared()
        times = starts.times_read(self.offset)
        if times > ALONE:
            return committer.insist(lambda: self.pass_over(*POISON))
        if times == ALONE and is_early:
            self._stopping.wait(PAUSE_S)
            return Prepared()
        committer.note([RecordId(*reading(self.offset))])
        return committer.insist(self.read_one if times else lambda: self.read(0.0))

    def read_one(self) -> Prepared:
        """Read one entry alone, as an earlier process ended while it read some."""
        prepared = Prepared()
        self._chunk(prepared, 1, self._taken)
        return prepared

    def pass_over(self, reason: str, message: str) -> Prepared:
        """Make a letter of one entry, without a look into it."""
        prepared = Prepared()
        self._chunk(prepared, 1, lambda entry: put_aside(entry, reason, message))
        return prepared

    def _chunk(self, prepared: Prepared, size: int, take: Callable[[Entry], Contents]) -> int:
        chunk = self._log.read(self.offset, size)
        items = 0
        for entry in chunk.entries:
            self.time.read(entry.item.received_ns, entry.item.behind_ns)
            items += prepared.add(take(entry))
        for gap in chunk.damaged:
            _log.error(
                "%d bytes of the log from offset %d on are damaged or gone, and were passed over; "
                "`scouter collector check` says where", gap.size_bytes, gap.offset,
            )  # fmt: skip
        prepared.lose(len(chunk.damaged))
        self.offset, self._is_file_end = chunk.next, chunk.ends_file
        return items

    def _taken(self, entry: Entry) -> Contents:
        try:
            return read_entry(entry, self._registry, self._limits)
        except Exception as error:  # noqa: BLE001 it must not stop the others
            _log.exception("an entry of the log cannot be taken")
            return put_aside(entry, "engine_fault", f"it cannot be taken: {error!r}")

    def _let_receivers_first(self) -> None:
        """Yield while requests come: receivers and worker share the interpreter."""
        for _ in range(_PAUSES):
            is_busy = time.monotonic() - self._log.last_append_s() < _BUSY_S
            if not is_busy or self._log.end - self.offset >= _BEHIND_BYTES:
                return
            time.sleep(_PAUSE_S)
