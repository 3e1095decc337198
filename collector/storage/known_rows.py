"""What a commit has to know of the rows that are stored already."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

import duckdb

from collector.storage import duckdb_read as read
from collector.storage.database import Database, run
from collector.storage.duckdb_write import EvaluationsJob, RecordsJob, SpansJob, WriteJob
from collector.storage.known_keys import RecentTraces, SeenFilter, TraceKey
from collector.storage.rows import RecordRow
from collector.storage.span_codec import trace_hash
from collector.storage.tombstones import Tombstones
from collector.storage.transaction import Transaction, one_of
from scouter.errors import TransientError

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
        self._seen = {table: SeenFilter() for table in _FILTERED}
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
        self._seen["spans"].add_all([trace_hash(trace_id) for _, trace_id in tx.spans.known])
        self._seen["records"].add_all(tx.record_hashes)
        self._seen["evaluations"].add_all(tx.evaluation_hashes)

    def load(self, submit: "Callable[[WriteJob], Future[Any]]", closing: threading.Event) -> None:
        """Fill the filters from the store, beside everything else; until then it is asked.

        Args:
            submit: Gives a job to the thread that commits.
            closing: Is set when nobody needs them any more.
        """
        try:
            for table, column in _FILTERED.items():
                if closing.is_set():
                    return
                loaded = SeenFilter.load(self._database.read, column, table)
                submit(_FilterJob(self, table, loaded)).result()
        except (duckdb.Error, TransientError) as error:
            _log.warning("no filter of known keys, every key is looked up: %s", error)

    def take_filter(self, table: str, loaded: SeenFilter) -> None:
        """Merge a filter that was loaded."""
        self._seen[table].merge(loaded)
        self._seen_all.add(table)

    # --- inside -----------------------------------------------------------------------------

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
            number = trace_hash(key[1])
            tx.spans.known[key] = dict(recent or {})
            if recent is None and self._maybe_stored("spans", number):
                unknown.add(number)
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
        is_known = table in self._seen_all
        maybe = self._seen[table].among(numbers) if is_known else list(numbers)
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(maybe), _LOOKUP_KEYS):
            part = maybe[start : start + _LOOKUP_KEYS]
            sql = f"SELECT {columns} FROM {table} WHERE {one_of(column, part)}"  # noqa: S608
            found += run(self._database.connection(), sql, part)  # no turn of readers
        return found


class _FilterJob:
    """Hands a filter that was loaded in the background to the thread that commits."""

    size = 1

    def __init__(self, known: KnownRows, table: str, loaded: SeenFilter) -> None:
        self._known, self._table, self._loaded = known, table, loaded
        self.future: Future[Any] = Future()

    def apply(self, tx: Transaction) -> int:
        """Merge it."""
        self._known.take_filter(self._table, self._loaded)
        return tx.seq
