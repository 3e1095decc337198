"""The store: everything that was accepted and decided, behind one class."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from collector.key_filter import KeyFilter, places_sql
from collector.store.bodies import trace_hash
from collector.store.commit import Commit, arrow_tables, text_hash
from collector.store.conservation import ConservationReads
from collector.store.database import MEMORY_BYTES, Database, insert
from collector.store.evaluations import EvaluationReads
from collector.store.reads import Rows, runs
from collector.store.records import RecordReads
from collector.store.traces import TraceReads
from collector.store.work import WorkReads

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_BITS: Final = 1 << 27
"""Bits of a filter of keys, 16 MB: of 5 million traces it takes one new one in 9,000 for known."""

_NEWEST: Final = "SELECT seq, log_offset, low_seq FROM offsets ORDER BY seq DESC LIMIT 1"
_DROP: Final = """
    DELETE FROM spans USING (
        SELECT unnest($1::TEXT[]) AS space, unnest($2::TEXT[]) AS trace_id,
            unnest($3::TEXT[]) AS span_id
    ) g
    WHERE spans.seq BETWEEN $4 AND $5 AND spans.space = g.space
      AND spans.trace_id = g.trace_id AND spans.span_id = g.span_id
"""


class Store(WorkReads, RecordReads, EvaluationReads, TraceReads, ConservationReads):
    """The store of one collector.

    One thread at a time commits; any thread reads.

    Args:
        folder: The data folder, which is made if it is not there.
        memory_bytes: Memory that DuckDB may use.

    Raises:
        ConfigError: The folder cannot be written, or another process has the store open.
    """

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self._database = Database(folder, memory_bytes)
        self._writing = threading.Lock()
        newest = self.read_for_work(_NEWEST)
        self.last_seq, self.offset, self.low_seq = newest[0] if newest else (0, 0, 0)
        self._traces = self._filter_of("trace_hash", "bodies")
        self._records = self._filter_of("uid_hash", "records")

    def _filter_of(self, column: str, table: str) -> KeyFilter:
        places = f"SELECT unnest({places_sql(column, _BITS)}) AS n FROM {table}"
        ((bits,),) = self.read_for_work(
            f"SELECT bitstring_agg(n::BIGINT, 0, {_BITS - 1})::BLOB FROM ({places})"
        )
        return KeyFilter(_BITS, bits)

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of people's; see `Reads`."""
        return self._database.read(sql, parameters)

    def read_for_work(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a read of the worker's; see `Reads`."""
        return self._database.read_for_work(sql, parameters)

    def newest_commit(self) -> int:
        """Number of the last commit; 0 of an empty store."""
        return self.last_seq

    def maybe_traces(self, hashes: Sequence[int]) -> list[int]:
        """The hashes of traces that may be stored."""
        return [each for each in hashes if self._traces.maybe(each)]

    def maybe_records(self, hashes: Sequence[int]) -> list[int]:
        """The hashes of records' uids that may be stored."""
        return [each for each in hashes if self._records.maybe(each)]

    def commit(self, rows: Commit) -> int:
        """Store rows, and how far the log was read, in one transaction.

        Returns:
            The number of the commit; it is durable then.

        Raises:
            DataError: A value cannot be stored, however often it is tried.
            TransientError: The store takes nothing now; a later try may work.
        """
        with self._writing:
            seq = self.last_seq + 1
            tables = list(arrow_tables(rows, seq))
            gone = self._places_of_replaced(rows)
            with self._database.transaction() as connection:
                for first, last in gone:
                    spaces, traces, spans = zip(*rows.replaced, strict=True)
                    connection.execute(_DROP, [spaces, traces, spans, first, last])
                for table, batch in tables:
                    insert(connection, table, batch)
            self._traces.add_all({trace_hash(row.trace_id) for row in rows.bodies})
            self._records.add_all(text_hash(row.uid) for row in rows.records)
            self.last_seq, self.offset, self.low_seq = seq, rows.offset, rows.low_seq
            return seq

    def _places_of_replaced(self, rows: Commit) -> list[tuple[int, int]]:
        """The commits that may have the spans which better ones replace, as ranges."""
        if not rows.replaced:
            return []
        hashes = list({trace_hash(each.trace_id) for each in rows.replaced})
        found = self.read_for_work(
            "SELECT DISTINCT seq FROM bodies WHERE trace_hash = ANY($1::BIGINT[])", [hashes]
        )
        return list(runs((seq for (seq,) in found), 8))

    def size_bytes(self) -> int:
        """Size on disk."""
        return self._database.size_bytes()

    def close(self) -> None:
        """Write everything into its files and close them."""
        self._database.close()
