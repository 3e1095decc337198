"""A copy of all that a collector has stored: from a data folder into a fleet's database, or back.

It goes by parts: the rows of some commits, of all tables, in the order of the commits. Each part is
one transaction of the target, with the number of its last commit. So the same copy, begun again,
goes on behind the last part that is there. Numbers of commits stay, and with them all places that
others have noted: cursors, answers as of a commit, what a detector has seen.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

from collector.metrics import TotalKey
from collector.store.reads import Reads, Rows
from collector.store.schema import COLUMNS, NOT_COPIED
from scouter.client.models.operation import ConservationSheet
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
_SPACES: Final = """
    SELECT DISTINCT space FROM (
        SELECT space FROM records UNION SELECT space FROM spans
        UNION SELECT space FROM dead_letters UNION SELECT space FROM totals
    ) s WHERE space <> '' ORDER BY space
"""


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


class Source(Protocol):
    """All that is stored somewhere, and that nobody changes."""

    @property
    def reads(self) -> "SheetReads":
        """Reads of what there is."""
        ...

    def plan(self) -> Plan:
        """What there is."""
        ...

    def sizes(self) -> Sizes:
        """Rows of each commit."""
        ...

    def ends(self) -> Ends:
        """What the last commit leaves."""
        ...

    def rows(self, table: str, after: int, until: int) -> Rows:
        """Rows of some commits, as the target has them; `offsets` without a place in a log."""
        ...


class Target(Protocol):
    """A place that gets all of a source."""

    def begin(self, plan: Plan) -> int:
        """Be ready; returns the last commit that is there.

        Raises:
            ConfigError: Something else is there.
        """
        ...

    def add(self, before: int, until: int, tables: Mapping[str, Rows]) -> None:
        """Store the rows of a part, in one transaction."""
        ...

    def finish(self, plan: Plan, ends: Ends) -> None:
        """Add what a collector needs to go on, and let it start."""
        ...

    def reads(self) -> "SheetReads":
        """Reads of what is there."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Rows of each table, as in a plan; of `offsets` those that came from the source."""
        ...


class SheetReads(Protocol):
    """Reads that both sides answer alike."""

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read."""
        ...

    def stored_totals(self) -> Mapping[TotalKey, int]:
        """All counts."""
        ...

    def conservation(self, space: str) -> ConservationSheet:
        """The sheet of a space."""
        ...


def copy_store(
    source: Source, target: Target, tell: Callable[[int, int], None] = lambda done, total: None
) -> Plan:
    """Copy everything, or go on with what was begun; a target that has all is left as it is.

    Args:
        source: Is not changed.
        target: Empty, or with a part of the same source.
        tell: Is told how many rows are there, and how many will be.

    Returns:
        What was to be copied.

    Raises:
        ConfigError: The target has other data, or the source has changed since the copy began.
        TransientError: One of the two does not answer; the same call goes on.

    Cost: linear; a part takes about 130 MB of memory, more where one commit does. 100,000 spans
        with 20,000 records and evaluations take 4 to 6 s.
    """
    plan = source.plan()
    done = target.begin(plan)
    if done > plan.last_seq:
        return plan
    total = sum(plan.rows.values())
    parts = list(source.sizes().parts(done, plan.last_seq))
    there = total - sum(each.rows for each in parts)
    tell(there, total)
    for part in parts:
        rows = {
            table: source.rows(table, part.after, part.until)
            for table in (*COPIED, "offsets")
            if table in part.tables
        }
        target.add(part.after, part.until, rows)
        there += part.rows
        tell(there, total)
    target.finish(plan, source.ends())
    return plan


def differences(source: Source, target: Target, plan: Plan) -> list[str]:
    """What the two sides do not have alike, in words: rows, totals, and the sheets of all spaces.

    Cost: linear in the keys of all rows.
    """
    found: list[str] = []
    counts = target.counts()
    for table, n in plan.rows.items():
        if counts[table] != n:
            found.append(f"{table}: {n:,} rows in the source, {counts[table]:,} in the target")
    here, there = source.reads, target.reads()
    for name, one, other in _both(_totals(here), _totals(there)):
        found.append(f"total {name}: {one} in the source, {other} in the target")
    spaces = {
        space for reads in (here, there) for (space,) in reads.read_for_work(_SPACES)
    }  # fmt: skip
    for space in sorted(spaces):
        for part, one, other in _both(_sheet(here, space), _sheet(there, space)):
            found.append(f"sheet of space {space!r}, {part}: {one} and {other}")
    return found


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


def counts_of(store: SheetReads, offsets: str) -> dict[str, int]:
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


def _totals(reads: SheetReads) -> dict[str, object]:
    return {
        " ".join(str(each) for each in key if each): n
        for key, n in reads.stored_totals().items()
        if n
    }


def _sheet(reads: SheetReads, space: str) -> dict[str, object]:
    sheet = reads.conservation(space)
    found: dict[str, object] = {
        f"{kind} {name}": n
        for kind, part in (
            ("records", sheet.records), ("spans", sheet.spans), ("events", sheet.events),
        )
        for name, n in part
    }  # fmt: skip
    letters = {f"letters {reason}": n for reason, n in sheet.dead_letters.items()}
    return {**found, **letters, "has_uncounted_losses": sheet.has_uncounted_losses}


def _both(
    one: Mapping[str, object], other: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)
