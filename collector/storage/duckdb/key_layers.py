"""Which commits may hold a key, however many there are: a filter for every million or so."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from collector.storage.duckdb.block_filters import LAST, Stretch
from collector.storage.duckdb.known_keys import Read, SeenFilter
from collector.storage.duckdb.paged_bytes import PagedBytes

# ruff: noqa: S608 the SQL is put together from the package's own words

_ROWS: Final = 1_400_000
"""That one filter may hold if each has a key of its own."""


class Layer(NamedTuple):
    """Some commits, and a filter of the keys that they stored."""

    commits: Stretch
    seen: SeenFilter


class KeyLayers:
    """Says "never stored" of a key, or which commits may have it; one thread uses it.

    What is added goes into one filter in memory. Once that is full it stays as it is, mapped into
    memory from a file, and the next one is begun: 3 bytes for each key. So of new keys 1 in 9,000
    for each million and a half that are stored is looked for in vain, and only among the commits
    of one filter.

    Args:
        paged: Keeps the filters that are full.
    """

    def __init__(self, paged: PagedBytes) -> None:
        self._paged = paged
        self._full: list[Layer] = []
        self._open = SeenFilter()
        self._first = LAST
        """First commit of the open filter."""

    def add_all(self, numbers: Iterable[int], seq: int) -> bool:
        """Remember keys of a commit.

        Args:
            numbers: Their hashes.
            seq: The commit, not before those of the last time.

        Returns:
            Whether a filter is full now.
        """
        self._first = min(self._first, seq)
        self._open.add_all(numbers)
        if not self._open.is_full:
            return False
        self._shelve(Layer(Stretch(self._first, seq), self._open))
        self._open, self._first = SeenFilter(), LAST
        return True

    def take(self, layer: Layer) -> None:
        """Take over what was stored before; of several, the newest comes first."""
        if not self._full and self._open.has_room(layer.seen):
            self._open.merge(layer.seen)
            self._first = min(self._first, layer.commits.first)
        else:
            self._shelve(layer)

    def forget(self, before: int) -> None:
        """Let the filters go of commits before one; no row of theirs is left."""
        self._full = [each for each in self._full if each.commits.last >= before]

    def maybe(self, number: int) -> bool:
        """False if a key was certainly never added."""
        return self._open.maybe(number) or any(each.seen.maybe(number) for each in self._full)

    def holding(self, numbers: Iterable[int]) -> Iterator[tuple[Stretch, list[int]]]:
        """The commits that may have some of the keys, with those that they may have.

        Cost: 0.15 µs for each key and filter.
        """
        wanted = list(numbers)
        for commits, seen in (*self._full, Layer(Stretch(self._first, LAST), self._open)):
            found = seen.among(wanted)
            if found:
                yield commits, found

    def _shelve(self, layer: Layer) -> None:
        layer.seen.freeze(self._paged)
        self._full.append(layer)


def load_layers(read: Read, number: str, table: str) -> Iterator[Layer]:
    """Let the database make the filters of everything that a table has, the newest first.

    A filter is of 1.4 million rows, or of more where several have the same key.

    Args:
        read: Runs a query with its parameters.
        number: The column with the hashes.
        table: Its name.

    Cost: see `SeenFilter.load`.
    """
    stretches = read(
        f"""
        SELECT min(seq), max(seq) FROM (
            SELECT seq, sum(n) OVER (ORDER BY seq) // {_ROWS} AS part
            FROM (SELECT seq, count(*) AS n FROM {table} GROUP BY seq)
        ) GROUP BY part ORDER BY part DESC
        """,
        (),
    )
    made: Layer | None = None
    for first, last in stretches:
        seen = SeenFilter.load(read, number, f"{table} WHERE seq BETWEEN $1 AND $2", [first, last])
        if made is not None and made.seen.has_room(seen):
            made.seen.merge(seen)
            made = Layer(Stretch(first, made.commits.last), made.seen)
            continue
        if made is not None:
            yield made
        made = Layer(Stretch(first, last), seen)
    if made is not None:
        yield made
