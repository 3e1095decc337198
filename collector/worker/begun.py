"""Judgements that earlier processes began and did not end: one of them may have ended the process.

A healthy collector writes nothing of this. After a start that found unfinished work, judgements are
noted in the store before they are begun. A record that was noted and has no result is judged alone
from then on. Whatever is alone in hand as the process ends a second time is put aside.

A process may also be ended from outside, again and again. So a record that ended one alone is
tried once more, `POSTPONED_S` after the start: whoever ends a process every second is no record.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from collector.store.commit import RecordId
from scouter.evaluate.engine.sessions import is_session_uid

POISON: Final = (
    "poison",
    "the collector's process ended again and again while it was taken or evaluated, so it is put "
    "aside; look at its content and its profile, and replay it to have it tried all the same",
)
"""Reason and message of the letter of what ends processes."""
POSTPONED_S: Final = 2.0
"""Seconds from the start until a record is judged that was alone in hand as a process ended."""
PAUSE_S: Final = 0.05
"""Between two looks at something that is postponed."""
ALONE: Final = 2
"""Number of times that such a record was begun: once beside others, once alone."""


def reading(offset: int) -> tuple[str, str]:
    """Space and uid that stand for reading from an offset of the log; no record has them."""
    return "", f"log:{offset}"


class Begun:
    """Judgements that earlier processes began, and those that this one begins.

    Args:
        counts: How often the judgement of each record was begun.
        is_unfinished: True if the start found work that was not finished.
    """

    def __init__(self, counts: Mapping[RecordId, int], *, is_unfinished: bool) -> None:
        self._counts: Final = dict(counts)
        self._noted: Final[set[RecordId]] = set()
        self.is_careful = is_unfinished
        """True while judgements are noted before they begin."""

    def is_alone(self, space: str, uid: str) -> bool:
        """Tell whether a record is judged alone."""
        return bool(self._counts) and RecordId(space, uid) in self._counts

    def is_postponed(self, space: str, uid: str) -> bool:
        """Tell whether a record is judged only `POSTPONED_S` after the start."""
        return self._counts.get(RecordId(space, uid), 0) >= ALONE

    def is_poison(self, space: str, uid: str) -> bool:
        """Tell whether a record is not judged any more."""
        return self._counts.get(RecordId(space, uid), 0) > ALONE

    def to_note(self, space: str, uids: Iterable[str]) -> list[RecordId]:
        """The records to note before they are judged; none of a process that is not careful."""
        if not self.is_careful:
            return []
        found = [key for uid in uids if (key := RecordId(space, uid)) not in self._noted]
        self._noted.update(found)
        return found

    def times_read(self, offset: int) -> int:
        """Number of times that processes began to read from an offset, and read no further."""
        key = RecordId(*reading(offset))
        for each in [each for each in self._counts if not each.space and each != key]:
            del self._counts[each]
        return self._counts.get(key, 0)

    @property
    def is_reading(self) -> bool:
        """True while the place is not passed at which an earlier process ended.

        That is a place of the log, or a session: no waiting record stands for either.
        """
        return any(not each.space or is_session_uid(each.uid) for each in self._counts)

    def done(self, space: str, uids: Iterable[str]) -> None:
        """Take note of judgements that ended."""
        for uid in uids if self._counts else ():
            self._counts.pop(RecordId(space, uid), None)

    def rest(self) -> None:
        """Everything that the start found is finished."""
        if not self._counts:
            self.is_careful = False
            self._noted.clear()
