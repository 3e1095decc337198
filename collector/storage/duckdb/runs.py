"""Results of offline runs: appended once, read whole, searched by erasures."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.job import Job
from collector.storage.duckdb.transaction import Transaction
from collector.store.letter_search import LetterSearch
from collector.store.run_search import RunSearch
from collector.store.runs import RunRow

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_COLUMNS: Final = "space, run_id, name, added_ns, added_by, summary"


@dataclass(slots=True, kw_only=True)
class RunJob(Job):
    """A run that was sent."""

    database: Database
    row: RunRow
    packed: bytes
    """Its body, compressed in the calling thread."""

    @classmethod
    def of(cls, database: Database, row: RunRow) -> "RunJob":
        """Make the job that keeps a run."""
        return cls(database=database, row=row, packed=zlib.compress(row.body))

    @property
    def size(self) -> int:
        """Number of runs."""
        return 1

    def apply(self, tx: Transaction) -> bool:
        """Add it, unless it is there."""
        row = self.row
        sql = "SELECT 1 FROM runs WHERE space = ? AND run_id = ?"
        key = (row.space, row.run_id)
        if run(self.database.connection(), sql, list(key)) or key in tx.runs:
            return False
        tx.runs.add(key)
        tx.add(
            "runs", tx.ordinal("runs"), row.space, row.run_id, row.name, row.added_ns,
            row.added_by, row.summary, self.packed,
        )  # fmt: skip
        return True


def read_runs(database: Database, space: str) -> Sequence[RunRow]:
    """All runs of a space without their bodies, the newest first."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM runs WHERE space = ? ORDER BY seq DESC, ordinal DESC", [space]
    )
    return [RunRow(**dict(zip(_COLUMNS.split(", "), row, strict=True))) for row in rows]


def read_run(database: Database, space: str, run_id: str) -> RunRow | None:
    """A run with its body."""
    rows = database.read(
        f"SELECT {_COLUMNS}, body FROM runs WHERE space = ? AND run_id = ?", [space, run_id]
    )
    if not rows:
        return None
    *columns, packed = rows[0]
    named = dict(zip(_COLUMNS.split(", "), columns, strict=True))
    return RunRow(**named, body=zlib.decompress(packed))


def take_run(connection: duckdb.DuckDBPyConnection, space: str, run_id: str) -> bool:
    """Take a run out; False if there was none."""
    sql = "DELETE FROM runs WHERE space = ? AND run_id = ? RETURNING 1"
    return bool(run(connection, sql, [space, run_id]))


def take_runs_about(connection: duckdb.DuckDBPyConnection, space: str, search: LetterSearch) -> int:
    """Take out the runs that speak of what is erased, and count them.

    A scenario that was harvested from a record bears its uid; what the run says of it cannot be
    told from the rest of the file, so that the run goes as a whole. Only values of fields that
    hold ids are compared (scenario, record, session, trace), and the values in contexts and tags:
    names of fields and expected values may be the same word by chance.

    Cost: linear in all stored runs of the space.
    """
    runs = RunSearch(search)
    ids = run(connection, "SELECT run_id FROM runs WHERE space = ? ORDER BY seq", [space])
    taken = 0
    for (run_id,) in ids:  # one body in memory at a time
        sql = "SELECT body FROM runs WHERE space = ? AND run_id = ?"
        ((packed,),) = run(connection, sql, [space, run_id])
        if runs.finds(zlib.decompress(packed)):
            taken += take_run(connection, space, run_id)
    return taken
