"""Which waiting records only the store holds, as memory has no room for more of them."""

from collections.abc import Iterable, Sequence
from typing import Final

from collector.pipeline.input_clock import Via
from collector.storage.rows import START, RecordPlace


class Parked:
    """The end of the queue of waiting records, which begins in the join and goes on in the store.

    While a broker lags, or traces stay away, any number of records waits. Beyond `max_records`
    those that came by a broker are not taken into memory; beyond twice as many none are, so that a
    broker does not hold up those whose traces come another way. Once one is turned away, all that
    come later by its way are, until the store has been read to its end: the order stays.

    Args:
        max_records: Waiting records to keep in memory, of those that came by a broker.
    """

    def __init__(self, max_records: int) -> None:
        self._room: Final = {via: max_records * (1 if via is Via.BROKER else 2) for via in Via}
        self._page: Final = max(1, max_records // 8)
        self._most: Final = max_records - self._page
        self._closed: set[Via] = set()
        self._read_to = START
        self._last: tuple[int, set[RecordPlace]] = 0, set()
        self.count = 0
        """Records that only the store holds, of those that were told of."""

    def resume(self, count: int, seq: int) -> None:
        """Begin with so many records that an earlier process left, up to a commit."""
        self._last = seq + 1, set()
        self.count = count
        if count:
            self._closed.add(Via.BROKER)

    def was_read(self, place: RecordPlace) -> bool:
        """Say whether an accepted record was read from the store before it was told of."""
        return place <= self._read_to

    def turns_away(self, place: RecordPlace, via: Via, waiting: int) -> bool:
        """Say whether an accepted record is not to be taken into memory, and count it then.

        Args:
            place: Of the record.
            via: The way that it came.
            waiting: Records that memory holds.
        """
        if via not in self._closed and waiting < self._room[via]:
            return False
        if not self._closed:
            self._read_to = max(self._read_to, RecordPlace(place.seq))
        self._closed.add(via)
        self.count += 1
        if self._last[0] != place.seq:
            self._last = place.seq, set()
        self._last[1].add(place)
        return True

    def wanted(self, waiting: int) -> int:
        """How many records to read from the store now; 0 for none."""
        return self._page if self._closed and waiting <= self._most else 0

    @property
    def read_to(self) -> RecordPlace:
        """Read those behind this place."""
        return self._read_to

    def read(self, page: Sequence[RecordPlace], wanted: int, taken: Iterable[RecordPlace]) -> None:
        """Take note of what was read.

        Args:
            page: The records' places; if they are fewer than were wanted, they are the last.
            wanted: How many were.
            taken: Those that were not in memory already.
        """
        if page:
            self._read_to = page[-1]
        last, of_last = self._last  # what was not told of yet was not counted
        self.count -= sum(place.seq < last or place in of_last for place in taken)
        if len(page) < wanted:
            self._closed.clear()
            self.count = 0
