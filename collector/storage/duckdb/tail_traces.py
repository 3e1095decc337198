"""Which traces may have spans behind the last block: of all others, files tell where they are."""

from collections.abc import Iterable
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.log.span_codec import trace_hash

_MOST: Final = 50_000
"""Traces that are told apart; 5 MB. There are more only where blocks cannot be made."""


class TailTraces:
    """Any thread asks; the thread that commits does all else.

    Args:
        database: The open file.
        first: The first commit behind the last block.
    """

    def __init__(self, database: Database, first: int) -> None:
        self._database = database
        self._last = self._load(first)
        """By the hash of a trace, the last commit that stored a span of it; None if unknown."""

    def may_have(self, trace_id: str) -> bool:
        """False if no span of a trace was stored behind the last block when this was called."""
        known = self._last
        return known is None or trace_hash(trace_id) in known

    def came(self, seq: int, trace_ids: Iterable[str]) -> None:
        """Tell of spans that a commit is about to store."""
        if self._last is not None:
            self._last.update(dict.fromkeys(map(trace_hash, trace_ids), seq))
            if len(self._last) > _MOST:
                self._last = None

    def blocked(self, last: int, *, is_newest: bool) -> None:
        """Tell of a block that searches know by now.

        Args:
            last: Its last commit.
            is_newest: True if there is none to be made behind it.
        """
        if self._last is not None:
            self._last = {each: seq for each, seq in self._last.items() if seq > last}
        elif is_newest:
            self._last = self._load(last + 1)

    def _load(self, first: int) -> dict[int, int] | None:
        rows = self._database.read(
            "SELECT trace_hash, max(seq) FROM spans WHERE seq >= ? GROUP BY trace_hash LIMIT ?",
            [first, _MOST + 1],
        )
        return dict(rows) if len(rows) <= _MOST else None
