"""Commits: a group of jobs becomes durable in one transaction."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

import duckdb

from collector.metrics import Totals
from collector.storage.care.recovery import Recovery
from collector.storage.care.tally import Tally
from collector.storage.duckdb.arrow import ArrowError
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.dedup import KnownRows
from collector.storage.duckdb.schema import TABLES
from collector.storage.duckdb.transaction import Transaction
from collector.storage.duckdb.write import (
    MaintenanceJob,
    RefusedSpansJob,
    SpansJob,
    WriteJob,
)
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_SHORT_LIVED: Final = "gold_verdicts"
"""Retention takes the rows of such a commit out and leaves no trace of its number."""
_BAD_VALUES: Final = (
    duckdb.DataError,
    duckdb.ProgrammingError,
    duckdb.NotSupportedError,
    ArrowError,
    UnicodeEncodeError,
    OverflowError,
)


class Committer:
    """Stores groups of jobs, one after the other; one thread at a time calls it.

    Args:
        database: The open file.
        known: Keys of the rows that are stored already.
        tally: Is told of every commit.
        totals: All counts in the database.
        stored_seq: The last commit that the database has.
        seq: The last one that was made.
    """

    def __init__(
        self,
        database: Database,
        known: KnownRows,
        tally: Tally,
        totals: Totals,
        stored_seq: int,
        seq: int,
    ) -> None:
        self._database, self._known = database, known
        self.totals = totals
        """All counts as of the last commit."""
        self.seq = seq
        """Number of the last commit."""
        self._tally, self._stored_seq = tally, stored_seq
        self.recovery = Recovery(database)
        """Recovery after a write that failed."""
        self._refused_everything = False
        self._rewrite: Future[None] | None = None
        self.committed_at = time.monotonic()
        self.on_commit: Callable[[float], None] | None = None
        """Is told the seconds that each commit took."""

    @property
    def is_broken(self) -> bool:
        """True once DuckDB refuses everything; only a new process helps then."""
        return self._refused_everything or bool(self._database.fault)

    def commit(self, group: Sequence[WriteJob]) -> Sequence[object]:
        """Store a group of jobs in one transaction."""
        self.recovery.attempt()
        began = time.monotonic()
        tx = Transaction(self._database, self.seq + 1, self.totals, self._known.tombstones)
        with self._database.in_use() as connection, self._database.heavy:
            answers, totals = self._write(connection, tx, group)
        self.seq, self.totals = tx.seq, totals
        if tx.written.total() > tx.written[_SHORT_LIVED]:
            self._stored_seq = tx.seq
            self._tally.note(tx.seq, tx.deltas)
        self._known.remember(tx)
        self._database.wrote(tx.written.total())
        self.committed_at = time.monotonic()
        if self.on_commit is not None:
            self.on_commit(self.committed_at - began)
        return answers

    def commit_or_put_aside(self, group: Sequence[SpansJob]) -> None:
        """Commit batches that were acknowledged; one that never fits must not stop every start."""
        try:
            self.commit(group)
        except DataError as error:
            if len(group) == 1:
                self.commit([RefusedSpansJob(spans=group[0], error=error)])
                return
            for job in group:
                self.commit_or_put_aside([job])

    def tend(self) -> None:
        """Do the upkeep that is due between two commits.

        Raises:
            TransientError: The store cannot write.
        """
        self._database.limit()
        self.recovery.attempt()
        if self._tally.is_due:
            self.write_tally()
        wanted, self._rewrite = self._rewrite, None
        if wanted is None:
            self._database.renew()
            return
        try:
            self._database.rewrite()
        except Exception as error:  # noqa: BLE001 who asked for it is told
            wanted.set_exception(error)
        else:
            wanted.set_result(None)

    def write_tally(self) -> None:
        """Have the counts beside the database written whole, and synced."""
        self._tally.write(self._stored_seq, self.totals)

    def rewrite_next(self) -> "Future[None]":
        """Have the file rewritten behind the next commit."""
        self._rewrite = wanted = Future[None]()
        return wanted

    # --- inside -----------------------------------------------------------------------------

    def _write(
        self, connection: duckdb.DuckDBPyConnection, tx: Transaction, group: Sequence[WriteJob]
    ) -> tuple[Sequence[object], Totals]:
        try:
            run(connection, "BEGIN")
            # A maintenance job goes first: rows that it takes out must not be looked up, nor
            # followed by revisions.
            care_answers = {
                at: job.apply(tx) for at, job in enumerate(group) if isinstance(job, MaintenanceJob)
            }
            self._known.look_up(tx, group)
            answers = [
                care_answers[at] if at in care_answers else job.apply(tx)
                for at, job in enumerate(group)
            ]
            totals = tx.write()
            self._known.announce(tx)
            self._finish(connection)
        except _BAD_VALUES as error:
            self._roll_back(connection)
            raise DataError(f"rows that the store cannot hold: {error}") from error
        except (duckdb.Error, OSError, MemoryError) as error:
            self._roll_back(connection)
            if not self._database.is_unwritten(error):
                self._refused_everything |= "invalidated" in str(error)
            if not isinstance(error, duckdb.OutOfMemoryException | MemoryError):
                self.recovery.suspect(error)
            raise TransientError(f"the store cannot write: {error}") from error
        except BaseException:
            self._roll_back(connection)
            raise
        return answers, totals

    def _finish(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Commit; a checkpoint that fails behind a commit takes nothing back from it.

        Raises:
            OSError: Nothing was committed; or the name of DuckDB's new log could not be synced, and
                only a new process helps.
        """
        with self._database.folder_of_new_log() as folder:
            self._commit(connection)
            if folder is None:
                return
            try:
                os.fsync(folder)
            except OSError:
                self._refused_everything = True
                raise

    def _commit(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            run(connection, "COMMIT")
        except duckdb.Error as error:
            if "COMMIT succeeded and is durable" not in str(error):
                raise
            if not self._database.is_unwritten(error):
                self._refused_everything = True
                _log.critical("the store took its last commit: %s", error)

    def _roll_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            run(connection, "ROLLBACK")
        except duckdb.Error:
            return  # there was no transaction: BEGIN itself or the commit had failed


def last_seq(database: Database) -> int:
    """Number of the last commit that left rows."""
    numbers = " UNION ALL ".join(f"SELECT max(seq) AS seq FROM {table}" for table in TABLES)  # noqa: S608
    ((found,),) = database.read(f"SELECT coalesce(max(seq), 0) FROM ({numbers})")  # noqa: S608
    return found
