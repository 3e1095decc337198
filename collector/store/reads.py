"""Reads and writes: the part of a database that every noun of the store needs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, Final, Literal, Protocol, TypeAlias

from scouter.errors import TransientError
from scouter.evaluate.outcome import Outcome

_GAP: Final = 8
"""Commits between two that are looked at together."""
LAST: Final = 2**62
"""Number of a commit behind all others."""
NO_NEWER: Final = """
    NOT EXISTS (
        SELECT 1 FROM evaluations n
        WHERE n.revision > 1 AND n.space = {0}.space AND n.record_uid = {0}.record_uid
          AND n.revision > {0}.revision)
"""
"""SQL that is true of evaluations, or of results, of which there is no later revision."""
ROW_BY_ROW: Final = "{} % 1 = 0"
"""SQL that is true of every row, for a read of some rows' long texts; takes a column of sizes.

Where statistics decide all conditions on the columns of a table, DuckDB copies the texts of all
rows that lie beside the wanted ones, up to 2,048 of them: one context of 40 kB among 500 needs
56 MB of memory. No statistics decide this condition, and with it the wanted texts alone are read.
"""
_RANGES: Final = 32
"""That a query names at most: looking at each row's commit costs more than a few rows in vain."""
_N: Final = "BIGINT"

Rows: TypeAlias = list[tuple[Any, ...]]

MOST_SPANS: Final = 100_000
"""Spans that are read at once: about 200 MB in memory."""
MOST_SPAN_BYTES: Final = 64 * 2**20
"""The same in bytes, as they were sent."""


class NoMemoryError(TransientError):
    """A read needs more memory than is free; one that asks for less may find it."""


class TooLargeError(NoMemoryError):
    """A read asks for more than is ever read at once; to ask for the same again is useless."""


class Connection(Protocol):
    """A connection of any database inside a transaction."""

    def execute(self, query: str, parameters: list[object], /) -> object:
        """Run a statement."""
        ...


Change: TypeAlias = Callable[[Connection], None]
"""Takes rows out or changes them, and may be done twice."""


Keys: TypeAlias = Literal["traces", "records", "recorded", "evaluated"]
"""Ids of traces, uids of records, traces of which there is a record, uids with an evaluation."""


class Reads(ABC):
    """Runs the one text of each read: `$1` and so on in it are its parameters."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """No commit comes between what is read and what is written inside."""

    @abstractmethod
    def write(
        self,
        tables: Mapping[str, Sequence[Sequence[object]]],
        changes: Sequence[Change] = (),
        low_seq: int | None = None,
    ) -> int:
        """Make changes and append rows, as a commit of its own that has nothing of the log.

        Args:
            tables: Rows of each table, without the number of the commit.
            changes: Are made before.
            low_seq: A commit with rows that the join needs from then on; it may be older than all
                that it needed before.

        Returns:
            The number of the commit; it is durable then.

        Raises:
            DataError: A value cannot be stored, however often it is tried.
            TransientError: The store takes nothing now; nothing has changed.
        """

    @abstractmethod
    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's and fetch everything.

        Raises:
            TransientError: The store is closed, or there is no memory or disk for it.
        """

    @abstractmethod
    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """The same for the worker, which does not wait for people's reads."""

    @abstractmethod
    def last_seq(self) -> int:
        """Number of the last commit; 0 of an empty store."""

    def maybe(self, keys: Keys, hashes: Sequence[int]) -> list[int]:
        """The hashes of keys that may be stored; all of them where an index finds them."""
        return list(hashes)


class Values(list[object]):
    """Values of the parameters of a query that is put together."""

    def of(self, value: object, kind: str = "TEXT") -> str:
        """Add a value; the SQL that stands for it."""
        self.append(value)
        return f"${len(self)}::{kind}"


NOT_PASSED: Final = "not_passed"
OutcomeFilter: TypeAlias = Outcome | Literal["not_passed"]
"""One outcome, or those of what failed or errored."""


def has_outcome(table: str, outcome: OutcomeFilter, values: Values) -> str:
    """SQL that is true of evaluations or results that ended so."""
    outcomes = [Outcome.FAILED, Outcome.ERRORED] if outcome == NOT_PASSED else [outcome]
    return f"{table}.outcome = ANY({values.of([str(each) for each in outcomes], 'TEXT[]')})"


def runs(commits: Iterable[int], gap: int = _GAP) -> Iterator[tuple[int, int]]:
    """Put numbers of commits into ranges, so that a read skips what lies between.

    Args:
        commits: In any order.
        gap: Commits between two of a range, at most.
    """
    first = last = None
    for seq in sorted(set(commits)):
        if first is None or last is None:
            first = seq
        elif seq - last > gap:
            yield first, last
            first = seq
        last = seq
    if first is not None and last is not None:
        yield first, last


def within(commits: Iterable[int], values: Values) -> str:
    """SQL that is true of the rows of some commits, and maybe of some between them.

    Args:
        commits: In any order.
        values: Gets the values of parameters.
    """
    known = sorted(set(commits))
    gaps = sorted((after - before for before, after in pairwise(known)), reverse=True)
    ranges = runs(known, max(_GAP, gaps[_RANGES - 1] if len(gaps) >= _RANGES else 0))
    each = (
        f"seq BETWEEN {values.of(first, _N)} AND {values.of(last, _N)}" for first, last in ranges
    )
    return f"({' OR '.join(each) or 'false'})"
