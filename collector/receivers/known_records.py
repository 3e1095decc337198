"""Records that came before, so that their senders get to know it at once."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from collector.items.record_items import CheckedRecord
from scouter.errors import TransientError

_MOST: Final = 20_000
"""Records that are remembered, about 300 bytes each: what is in the log and not stored yet."""


class StoredRecords(Protocol):
    """Stored records."""

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """The digests of stored records, by uid."""
        ...


class KnownRecords:
    """Looks records up among the newest ones, and in the store.

    It is for answers alone: the worker knows what came before. While more than the newest ones
    wait in the log, one that comes again may count as new in the answer.

    Args:
        store: Has the older ones.
        most: Number of records that are remembered.
    """

    def __init__(self, store: StoredRecords, most: int = _MOST) -> None:
        self._store, self._most = store, most
        self._lock = threading.Lock()
        self._newest: OrderedDict[tuple[str, str], str] = OrderedDict()

    def digests(self, space: str, uids: Iterable[str]) -> dict[str, str]:
        """The digests of records that came before, by uid."""
        found: dict[str, str] = {}
        others: list[str] = []
        with self._lock:
            for uid in uids:
                digest = self._newest.get((space, uid))
                if digest is None:
                    others.append(uid)
                else:
                    found[uid] = digest
        if not others:
            return found
        try:
            return {**self._store.stored_records(space, others), **found}
        except TransientError:  # what comes can be accepted all the same
            return found

    def add(self, space: str, records: Iterable[CheckedRecord]) -> None:
        """Remember records, once they are durable."""
        with self._lock:
            for each in records:
                self._newest.setdefault((space, each.uid), each.digest)
            while len(self._newest) > self._most:
                self._newest.popitem(last=False)
