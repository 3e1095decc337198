"""What a commit has to know of the rows that are stored already."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

import duckdb

from collector.storage.duckdb import read
from collector.storage.duckdb.block_filters import LAST, Stretch
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.key_layers import KeyLayers, Layer, load_layers
from collector.storage.duckdb.known_keys import RecentTraces, TraceKey
from collector.storage.duckdb.paged_bytes import PagedBytes
from collector.storage.duckdb.tombstones import Tombstones
from collector.storage.duckdb.transaction import Transaction, one_of
from collector.storage.duckdb.write import EvaluationsJob, RecordsJob, SpansJob, WriteJob
from collector.storage.log.span_codec import trace_hash
from collector.storage.port.rows import RecordRow
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_RECENT_SPANS: Final = 20_000
_LOOKUP_KEYS: Final = 500
_FILTERED: Final = {
    "spans": "trace_hash",
    "records": "uid_hash",
    "evaluations": "uid_hash",
}


class KnownRows:
    """Looks keys up: in memory those that are certainly new or came lately, else in the store.

    All but `load` belongs to the thread that commits.

    Args:
        database: The open file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentTraces(_RECENT_SPANS)
        self._paged = PagedBytes(database.path.parent)
        self._seen = {table: KeyLayers(self._paged) for table in _FILTERED}
        self.tombstones = Tombstones(database)
        """What was erased."""
        self._seen_all: set[str] = set()
        """Tables whose filter knows every stored row; the others' "never seen" means nothing."""

    def look_up(self, tx: Transaction, group: Sequence[WriteJob]) -> None:
        """Tell the transaction what is stored already of everything that the group brings.

        What takes rows out has to be done before.
        """
        if tx.lost:
            self._recent = RecentTraces(_RECENT_SPANS)  # some of them are stored no longer
        traces: list[TraceKey] = []
        records: set[int] = set()
        evaluations: set[int] = set()
        for job in group:
            if isinstance(job, SpansJob):
                traces.extend(job.trace_keys)
            elif isinstance(job, RecordsJob):
                records.update(job.hashes)
                tx.new_traces.update(self._without_spans(job.rows))
            elif isinstance(job, EvaluationsJob):
                evaluations.update(job.hashes)
        self._look_up_traces(tx, traces)
        for space, uid, digest in self._look_up_hashes(
            "records", "space, uid, digest", "uid_hash", records
        ):
            tx.records[space, uid] = digest
        for space, uid, revision, profile_uid in self._look_up_hashes(
            "evaluations", "space, record_uid, revision, profile_uid", "uid_hash", evaluations
        ):
            tx.versions[space, uid][revision] = profile_uid
        revised = {
            (row.space, row.record_uid)
            for job in group
            if isinstance(job, EvaluationsJob)
            for row in job.rows
            if row.revision > 1
        }
        if revised:
            tx.latest.update(read.read_latest(self._database, revised))

    def remember(self, tx: Transaction) -> None:
        """Take over the keys of a transaction that is durable now."""
        self.tombstones.add_all(tx.erased)
        for key, spans in tx.spans.known.items():
            self._recent.put(key, spans)
        self._add("spans", [trace_hash(trace_id) for _, trace_id in tx.spans.known], tx.seq)
        self._add("records", tx.record_hashes, tx.seq)
        self._add("evaluations", tx.evaluation_hashes, tx.seq)

    def load(self, submit: "Callable[[WriteJob], Future[Any]]", closing: threading.Event) -> None:
        """Fill the filters from the store, beside everything else; until then it is asked.

        Args:
            submit: Gives a job to the thread that commits.
            closing: Is set when nobody needs them any more.
        """
        try:
            for table, column in _FILTERED.items():
                for layer in load_layers(self._database.read, column, table):
                    submit(_LayerJob(self, table, layer)).result()
                    if closing.is_set():
                        return
                submit(_LayerJob(self, table, None)).result()
        except (duckdb.Error, TransientError, DataError) as error:
            _log.warning("no filter of known keys, every key is looked up: %s", error)

    def take(self, table: str, layer: Layer | None) -> None:
        """Take a filter that was loaded; none once all of a table are here."""
        if layer is None:
            self._seen_all.add(table)
        else:
            self._seen[table].take(layer)

    def close(self) -> None:
        """Remember nothing more."""
        self._paged.close()

    # --- inside -----------------------------------------------------------------------------

    def _add(self, table: str, numbers: Iterable[int], seq: int) -> None:
        if self._seen[table].add_all(numbers, seq):  # a good moment to see what retention took
            sql = f"SELECT min(seq) FROM {table}"  # noqa: S608 our own names
            ((oldest,),) = run(self._database.connection(), sql)
            self._seen[table].forget(oldest or 0)

    def _maybe_stored(self, table: str, number: int) -> bool:
        return table not in self._seen_all or self._seen[table].maybe(number)

    def _without_spans(self, rows: Iterable[RecordRow]) -> Iterator[TraceKey]:
        """The traces of records of which certainly no span is stored."""
        for row in rows:
            trace_id = row.trace_id
            if trace_id and not self._maybe_stored("spans", trace_hash(trace_id)):
                yield row.space, trace_id

    def _look_up_traces(self, tx: Transaction, keys: Iterable[TraceKey]) -> None:
        unknown: set[int] = set()
        for key in keys:
            if key in tx.spans.known:
                continue
            recent = self._recent.get(key)
            tx.spans.known[key] = dict(recent or {})
            if recent is None:
                unknown.add(trace_hash(key[1]))
        columns = "space, trace_id, span_id, end_ns, span_size, checksum"
        for space, trace_id, span_id, end_ns, size, checksum in self._look_up_hashes(
            "spans", columns, "trace_hash", unknown
        ):
            known = tx.spans.known.get((space, trace_id))
            if known is not None:
                known[span_id] = (end_ns, size, checksum)

    def _look_up_hashes(
        self, table: str, columns: str, column: str, numbers: Iterable[int]
    ) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for commits, maybe in self._holding(table, numbers):
            for start in range(0, len(maybe), _LOOKUP_KEYS):
                part = maybe[start : start + _LOOKUP_KEYS]
                sql = (
                    f"SELECT {columns} FROM {table}"  # noqa: S608 our own names
                    f" WHERE seq BETWEEN ? AND ? AND {one_of(column, part)}"
                )
                # No turn of readers is waited for.
                found += run(self._database.connection(), sql, [*commits, *part])
        return found

    def _holding(
        self, table: str, numbers: Iterable[int]
    ) -> Iterable[tuple[Stretch, Sequence[int]]]:
        """Where keys may be stored, and which of them."""
        if table in self._seen_all:
            return self._seen[table].holding(numbers)
        return [(Stretch(0, LAST), list(numbers))]


class _LayerJob:
    """Hands a filter that was loaded in the background to the thread that commits."""

    size = 1

    def __init__(self, known: KnownRows, table: str, layer: Layer | None) -> None:
        self._known, self._table, self._layer = known, table, layer
        self.future: Future[Any] = Future()

    def apply(self, tx: Transaction) -> int:
        """Take it."""
        self._known.take(self._table, self._layer)
        return tx.seq
