"""A copy of all that a collector has stored: from a data folder into a fleet's database, or back.

It goes by parts: the rows of some commits, of all tables, in the order of the commits. Each part is
one transaction of the target, with the number of its last commit. So the same copy, begun again,
goes on behind the last part that is there. Numbers of commits stay, and with them all places that
others have noted: cursors, answers as of a commit, what a detector has seen.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from collector.store.reads import Reads
from collector.store.schema import COLUMNS, NOT_COPIED
from scouter.errors import ConfigError

COPIED: Final = tuple(
    table for table in COLUMNS if table not in NOT_COPIED and table not in {"identity", "offsets"}
)
"""The tables whose rows are copied as they are; `offsets` is made of the numbers of commits."""
PART_ROWS: Final = 20_000
PART_BYTES: Final = 16 * 2**20
"""Rows and bytes of a part; a commit that has more is a part of its own."""
NOTHING: Final = -1
"""The last commit of a target that has none."""
_LONG: Final = {
    "bodies": "sum(size_bytes)::BIGINT",
    "records": "sum(context_bytes)::BIGINT",
    "dead_letters": "sum(octet_length(payload))::BIGINT",
    "runs": "sum(octet_length(body))::BIGINT",
}
"""Bytes of tables whose rows may be long, in SQL."""
_ROW_BYTES: Final = 500
_PLACES: Final = "WHERE space <> ''"
"""Rows of `begun` that name no space are places in a log, which stays behind."""
WHERE: Final = {"begun": _PLACES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be copied; a target remembers it until all is there, and longer."""

    identity: int
    """Number of the source."""
    last_seq: int
    """Its newest commit."""
    rows: Mapping[str, int]
    """Rows of its tables, `offsets` with them."""

    def text(self) -> str:
        """The plan in one line, which is the same for the same source that nobody has changed."""
        return json.dumps(asdict(self), sort_keys=True)

    def check(self, text: str, target: object) -> None:
        """Check that a copy that was begun is this one.

        Args:
            text: Of its plan.
            target: Where it was begun.

        Raises:
            ConfigError: It is another one.
        """
        if text == self.text():
            return
        empty = f"empty {target}, or give another one, and begin anew"
        if json.loads(text)["identity"] != self.identity:
            raise ConfigError(
                f"{target} has a part of the data of another source: run the copy of that one"
                f" again to go on with it, or {empty}"
            )
        raise ConfigError(
            f"what is to be copied has changed since a part of it went to {target}: {empty}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows and bytes of each commit, by table."""

    tables: Mapping[str, Mapping[int, tuple[int, int]]]

    def parts(self, after: int, last: int) -> Iterator["Part"]:
        """The parts behind a commit, in order."""
        commits: dict[int, list[tuple[str, int, int]]] = {}
        for table, sizes in self.tables.items():
            for seq, (rows, size) in sizes.items():
                if seq > after:
                    commits.setdefault(seq, []).append((table, rows, size))
        part, size = Part(after=after, until=after), 0
        for seq in sorted(commits):
            more = sum(each for *_, each in commits[seq])
            rows = sum(each for _, each, _ in commits[seq])
            if part.rows and (part.rows + rows > PART_ROWS or size + more > PART_BYTES):
                yield part
                part, size = Part(after=part.until, until=part.until), 0
            part.add(seq, commits[seq])
            size += more
        part.until = last
        if part.rows:
            yield part


@dataclass(slots=True, kw_only=True)
class Part:
    """The rows of some commits."""

    after: int
    until: int
    rows: int = 0
    tables: set[str] = field(default_factory=set[str])

    def add(self, seq: int, sizes: Sequence[tuple[str, int, int]]) -> None:
        """Take a commit."""
        self.until = seq
        for table, rows, _ in sizes:
            self.rows += rows
            self.tables.add(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What the last commit of a source leaves to whoever goes on."""

    low_seq: int
    """The oldest commit whose rows the join needs."""
    received_ns: int
    """The newest arrival."""
    oldest_ns: int | None
    """The oldest arrival among what the join needs; None if that is nothing."""


def sizes_of(store: Reads, offsets: str) -> Sizes:
    """Rows of each commit of a store.

    Args:
        store: Of either kind.
        offsets: Its table of commits.
    """
    tables: dict[str, dict[int, tuple[int, int]]] = {}
    for table in (*COPIED, "offsets"):
        name = offsets if table == "offsets" else table
        size = _LONG.get(table, "0::BIGINT")
        tables[table] = {
            seq: (rows, rows * _ROW_BYTES + (long or 0))
            for seq, rows, long in store.read_for_work(
                f"SELECT seq, count(*), {size} FROM {name} {WHERE.get(table, '')} GROUP BY seq"
            )
        }
    return Sizes(tables=tables)


def counts_of(store: Reads, offsets: str) -> dict[str, int]:
    """Rows of each table of a store.

    Args:
        store: Of either kind.
        offsets: Its table of commits.
    """
    found: dict[str, int] = {}
    for table in (*COPIED, "offsets"):
        name = offsets if table == "offsets" else table
        ((found[table],),) = store.read_for_work(
            f"SELECT count(*) FROM {name} {WHERE.get(table, '')}"
        )
    return found
