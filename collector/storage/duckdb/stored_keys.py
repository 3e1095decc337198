"""Stored keys: the commits that may have a trace or a record, the one index beside the tables.

A scan of a million rows finds those of a key in a millisecond. So for each stretch of commits there
is a Bloom filter of the keys that it stored. A key that is new is told from memory. The rows of a
trace are looked for only in the stretches that may have it.

The filters are in memory alone: 3 bytes for each key. A start makes them of the tables, behind its
readiness; until then every commit may have every key.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import duckdb

from collector.key_filter import KeyFilter, places_sql
from collector.storage.duckdb.commit_ranges import LAST, Stretch
from scouter.errors import TransientError

# All SQL is put together from the package's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_BITS: Final = 1 << 21
"""Bits of a filter: 256 KiB, full with 87,000 keys."""
_ROWS: Final = 65_536
"""That are read together at a start."""

TRACE_HASH: Final = "try_cast('0x' || trace_id[17:] AS UBIGINT)"
"""SQL for `trace_hash`, without its sign, of rows that have the id alone."""

Read = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs a query with its parameters and gives the rows."""


def text_hash(text: str) -> int:
    """A signed 64-bit number that stays the same between processes."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True
    )


def read_filter(
    read: Read, number: str, rows: str, parameters: Sequence[object], bits: int
) -> KeyFilter:
    """Let the database make a filter.

    Args:
        read: Runs a query.
        number: SQL for a hash, signed or not; NULL is none.
        rows: SQL behind FROM.
        parameters: Of `rows`.
        bits: Of the filter.

    Cost: 0.2 µs for each row, outside of the interpreter.
    """
    places = f"SELECT unnest({places_sql('n', bits)}) AS n FROM (SELECT {number} AS n FROM {rows})"
    ((data,),) = read(
        f"SELECT bitstring_agg(n::BIGINT, 0, {bits - 1})::BLOB FROM ({places})", parameters
    )
    return KeyFilter(bits, data)


class Layer(NamedTuple):
    """Some commits, and a filter of the keys that they stored."""

    commits: Stretch
    seen: KeyFilter


class StoredKeys:
    """The keys in one column of a table. The thread that commits adds; any thread asks.

    Args:
        table: Its name.
        column: A column of 64-bit hashes, or SQL for one.
        seq: Number of the last commit, 0 in a new store, as commits are counted from 1; the next
            ones are told of by `add_all`.
    """

    def __init__(self, table: str, column: str, seq: int) -> None:
        self._table, self._column = table, column
        self._changing = threading.Lock()
        self._layers = (Layer(Stretch(seq + 1, LAST), KeyFilter(_BITS)),)
        """The last one is being filled."""
        self._is_loaded = not seq

    def add_all(self, numbers: Iterable[int], seq: int) -> None:
        """Remember the keys of a commit, before its rows can be read.

        Args:
            numbers: Their hashes.
            seq: The commit, not before those of the last time.
        """
        commits, seen = self._layers[-1]
        seen.add_all(numbers)
        if seen.is_full:
            with self._changing:
                full = Layer(Stretch(commits.first, seq), seen)
                following = Layer(Stretch(seq, LAST), KeyFilter(_BITS))
                self._layers = (*self._layers[:-1], full, following)

    def maybe(self, number: int) -> bool:
        """False if a key was certainly never stored. Cost: 0.2 µs for each 87,000 keys."""
        return not self._is_loaded or any(each.seen.maybe(number) for each in self._layers)

    def holding(self, numbers: Iterable[int]) -> Iterator[tuple[Stretch, list[int]]]:
        """The commits that may have stored some of the keys, newest first, with those keys."""
        wanted = list(numbers)
        if not self._is_loaded:
            yield Stretch(0, LAST), wanted
            return
        for commits, seen in reversed(self._layers):
            found = [number for number in wanted if seen.maybe(number)]
            if found:
                yield commits, found

    def stretches(self, numbers: Iterable[int]) -> list[Stretch]:
        """The commits that may have stored one of the keys at least, newest first."""
        return [commits for commits, _ in self.holding(numbers)]

    def load(self, read: Read, closing: threading.Event) -> None:
        """Learn what is stored, beside everything else; after a fault every key stays a "maybe".

        Args:
            read: Runs a query.
            closing: Is set when nobody needs them any more.

        Cost: 0.2 µs for each row, outside of the interpreter.
        """
        if self._is_loaded:
            return
        try:
            for layer in self._stored(read):
                with self._changing:
                    self._layers = (layer, *self._layers)
                if closing.is_set():
                    return
        except (duckdb.Error, TransientError) as error:
            _log.warning("the keys of %s are not known, each is looked up: %s", self._table, error)
        else:
            self._is_loaded = True

    def forget(self, read: Read) -> None:
        """Let the filters go of commits whose rows retention has taken."""
        ((oldest,),) = read(f"SELECT min(seq) FROM {self._table}", ())
        with self._changing:
            *full, filling = self._layers
            kept = (each for each in full if oldest is not None and each.commits.last >= oldest)
            self._layers = (*kept, filling)

    def _stored(self, read: Read) -> Iterator[Layer]:
        """Filters of all rows, the newest first."""
        parts = read(
            f"""
            SELECT min(seq), max(seq) FROM (
                SELECT seq, sum(n) OVER (ORDER BY seq) // {_ROWS} AS part
                FROM (SELECT seq, count(*) AS n FROM {self._table} GROUP BY seq)
            ) GROUP BY part ORDER BY part DESC
            """,
            (),
        )
        made: Layer | None = None
        for first, last in parts:
            rows = f"{self._table} WHERE seq BETWEEN ? AND ?"
            seen = read_filter(read, self._column, rows, [first, last], _BITS)
            if made is not None and made.seen.has_room(seen):
                made.seen.merge(seen)
                made = Layer(Stretch(first, made.commits.last), made.seen)
                continue
            if made is not None:
                yield made
            made = Layer(Stretch(first, last), seen)
        if made is not None:
            yield made
