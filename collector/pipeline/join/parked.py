"""Waiting records that only the store holds, because memory has no room for them."""

import bisect
import operator
from collections import deque
from collections.abc import Sequence
from typing import Final

from collector.pipeline.join.input_clock import Via
from collector.pipeline.join.joined_trace import Share
from collector.store.rows import START, RecordPlace
from collector.worker.behind import NOTHING, Due

_MARKS: Final = 4096
_seq: Final = operator.itemgetter(0)


class Parked:
    """The waiting records that the join has no room for: the store is read for them, by and by.

    While a broker lags, or traces stay away, any number of records waits. New records have a room
    of their own: n for those that came by a broker, 3/2 n for all. So a broker does not hold up
    records that come another way. Records that are read back have another room, of n / 2; meanwhile
    the room of a broker's records is so much smaller. Records of unknown profiles have n / 4 of
    their own.

    Args:
        max_records: n.
    """

    def __init__(self, max_records: int) -> None:
        self._max: Final = max_records
        self._half: Final = max(1, max_records // 2)
        self._page: Final = max(1, max_records // 8)
        self._is_any = False
        self._begin = self._end = START
        """Everything between them was read: of those that are parked, or were at last."""
        self._before: deque[tuple[RecordPlace, RecordPlace]] = deque(maxlen=8)
        """The same of earlier times."""
        self._brokers_from: int | None = None
        """Commit with the first parked record that came by a broker."""
        self._marks: list[tuple[int, float]] = []
        """Numbers of commits with the time at which they were told of, about one a second."""
        self.count = 0
        """Records that only the store holds, of those that were told of; less those that were read
        before they were told of."""

    def resume(self, count: int | None) -> None:
        """Begin with the records that an earlier process left; None if nobody knows how many."""
        self.count = count or 0
        self._is_any = count != 0

    def has_taken(self, place: RecordPlace) -> bool:
        """Say whether an accepted record was read from the store before it was told of."""
        if place > self._end:  # as nearly all are: the ranges are in order
            return False
        ranges = (*self._before, (self._begin, self._end))
        found = any(begin < place <= end for begin, end in ranges)
        self.count += found
        return found

    def turns_away(
        self, place: RecordPlace, via: Via, share: Share, waiting: int, now: float
    ) -> bool:
        """Say whether an accepted record is not to be taken into memory, and remember it then.

        Args:
            place: Of the record.
            via: The way that it came.
            share: The room that it takes.
            waiting: Records that take it already.
            now: The time that runs while no broker lags.
        """
        if waiting < self._room(via, share) or place <= self._begin:
            return False  # the latter was told of too late, and is behind the pages to be read
        if not self._is_any:
            self._is_any = True
            self._before.append((self._begin, self._end))
            self._begin = self._end = RecordPlace(place.seq)
        if via is Via.BROKER and self._brokers_from is None:
            self._brokers_from = place.seq
        if not self._marks or (now >= self._marks[-1][1] + 1 and place.seq > self._marks[-1][0]):
            self._marks.append((place.seq, now))
        if len(self._marks) > _MARKS:
            del self._marks[::2]
        self.count += 1
        return True

    def _room(self, via: Via, share: Share) -> int:
        if share is Share.UNKNOWN:
            return max(1, self._max // 4)
        if via is not Via.BROKER:
            return self._max + self._half
        return self._max - self._half if self._is_any else self._max

    def wanted(self, waiting: int, *, is_held: bool) -> int:
        """Number of records to read from the store now; 0 for none.

        Args:
            waiting: Records in memory that were read back.
            is_held: True while a broker lags. Records that came by it would then have to wait in
                memory.
        """
        if not self._is_any or (is_held and self._brokers_from is not None):
            return 0
        return self._page if waiting + self._page <= max(self._page, self._half) else 0

    @property
    def read_to(self) -> RecordPlace:
        """Read those behind this place."""
        return self._end

    def via_of(self, place: RecordPlace) -> Via:
        """The way that a record came, as far as is known: in doubt by a broker, if any did."""
        first = self._brokers_from
        return Via.UNKNOWN if first is None or place.seq < first else Via.BROKER

    def came_at(self, place: RecordPlace, now: float) -> float:
        """Time at which a record was told of, or later; that time runs while no broker lags."""
        at = bisect.bisect_left(self._marks, place.seq, key=_seq)
        return self._marks[at][1] if at < len(self._marks) else now

    def due(self, now: float, deadline_s: float) -> Due:
        """Records that have waited in the store beyond any deadline; no age where none has.

        Args:
            now: The time that runs while no broker lags.
            deadline_s: Longest wait of a record.
        """
        if not self._is_any:
            return NOTHING
        waited_s = now - self.came_at(self._end, now)
        return Due(self.count, max(0.0, waited_s - deadline_s), 0.0)

    def read(self, page: Sequence[RecordPlace], wanted: int, taken: int) -> None:
        """Take note of what was read.

        Args:
            page: The records' places; if they are fewer than were wanted, they are the last.
            wanted: Number of records that were wanted.
            taken: Number of read records that were not in memory already.
        """
        if page:
            self._end = page[-1]
        self.count -= taken
        if len(page) < wanted:
            self._is_any = False
            self._brokers_from = None
            self._marks.clear()
            self.count = min(self.count, 0)  # what was erased meanwhile was not read
