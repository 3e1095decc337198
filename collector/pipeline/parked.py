"""Which waiting records only the store holds, as memory has no room for more of them."""

from collections.abc import Iterable, Sequence
from typing import Final

from collector.pipeline.input_clock import Via
from collector.storage.rows import START, RecordPlace


class Parked:
    """The waiting records that the join has no room for: the store is read for them, by and by.

    While a broker lags, or traces stay away, any number of records waits. Beyond `max_records`
    those that came by a broker are not taken into memory. The others are up to twice as many, so
    that a broker does not hold up those whose traces come another way. While some are parked, half
    the room is theirs: what comes does not keep them waiting for ever.

    Args:
        max_records: Waiting records to keep in memory, of those that came by a broker.
    """

    def __init__(self, max_records: int) -> None:
        self._max: Final = max_records
        self._page: Final = max(1, max_records // 8)
        self._is_any = False
        self._read_to = START
        self._last: tuple[int, set[RecordPlace]] = 0, set()
        self.count = 0
        """Records that only the store holds, of those that were told of."""

    def resume(self, count: int, seq: int) -> None:
        """Begin with so many records that an earlier process left, up to a commit."""
        self._last = seq + 1, set()
        self.count = count
        self._is_any = count > 0

    def was_read(self, place: RecordPlace) -> bool:
        """Say whether an accepted record was read from the store before it was told of."""
        return place <= self._read_to

    def turns_away(self, place: RecordPlace, via: Via, waiting: int, *, is_held: bool) -> bool:
        """Say whether an accepted record is not to be taken into memory, and count it then.

        Args:
            place: Of the record.
            via: The way that it came.
            waiting: Records that memory holds.
            is_held: True while a broker lags.
        """
        if waiting < self._room(via, is_held=is_held):
            return False
        if not self._is_any:
            self._is_any = True
            self._read_to = max(self._read_to, RecordPlace(place.seq))
        self.count += 1
        if self._last[0] != place.seq:
            self._last = place.seq, set()
        self._last[1].add(place)
        return True

    def _room(self, via: Via, *, is_held: bool) -> int:
        if is_held and via is not Via.BROKER:
            return 2 * self._max
        if self._is_any:
            return self._max // 2
        return self._max if via is Via.BROKER else 2 * self._max

    def wanted(self, waiting: int) -> int:
        """How many records to read from the store now; 0 for none."""
        return self._page if self._is_any and waiting + self._page <= self._max else 0

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
            self._is_any = False
            self.count = 0
