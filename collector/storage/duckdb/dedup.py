"""Knowledge of a commit about the rows that are stored already."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from collector.storage.duckdb import read
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.stored_keys import TRACE_HASH, StoredKeys
from collector.storage.duckdb.tombstones import Tombstones
from collector.storage.duckdb.transaction import Transaction, one_of
from collector.storage.duckdb.write import EvaluationsJob, RecordsJob, SpansJob, WriteJob
from collector.storage.log.span_codec import Preference, trace_hash
from collector.store.rows import RecordRow, TraceKey

_RECENT_SPANS: Final = 20_000
_LOOKUP_KEYS: Final = 500
_FORGET_COMMITS: Final = 1000
"""After so many it is looked for what retention took."""


class KnownRows:
    """Looks keys up: in memory those that are certainly new or came lately, else in the store.

    All but `load` and questions for traces belong to the thread that commits.

    Args:
        database: The open file.
        seq: Number of the last commit.
    """

    def __init__(self, database: Database, seq: int) -> None:
        self._database = database
        self._recent = RecentTraces(_RECENT_SPANS)
        self.traces = StoredKeys("spans", "trace_hash", seq)
        """Hashes of the traces that stored spans belong to."""
        self._records = StoredKeys("records", "uid_hash", seq)
        self._evaluations = StoredKeys("evaluations", "uid_hash", seq)
        self.evaluation_traces = StoredKeys("evaluations", TRACE_HASH, seq)
        """Hashes of the traces that stored evaluations belong to."""
        self._all = (self.traces, self._records, self._evaluations, self.evaluation_traces)
        self.tombstones = Tombstones(database)
        """The rows that were erased."""

    def look_up(self, tx: Transaction, group: Sequence[WriteJob]) -> None:
        """Tell the transaction the keys of the group that are stored already.

        Jobs that take rows out have to be done before.
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
        for space, uid, digest in self._stored(
            "SELECT space, uid, digest FROM records", "uid_hash", self._records, records
        ):
            tx.records[space, uid] = digest
        for space, uid, revision, profile_uid in self._stored(
            "SELECT space, record_uid, revision, profile_uid FROM evaluations",
            "uid_hash",
            self._evaluations,
            evaluations,
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

    def announce(self, tx: Transaction) -> None:
        """Take over the keys of a transaction before its rows can be read."""
        self.traces.add_all([trace_hash(trace_id) for _, trace_id in tx.spans.known], tx.seq)
        self._records.add_all(tx.record_hashes, tx.seq)
        self._evaluations.add_all(tx.evaluation_hashes, tx.seq)
        self.evaluation_traces.add_all(tx.evaluation_traces, tx.seq)

    def remember(self, tx: Transaction) -> None:
        """Take over what else is known of a transaction that is durable now."""
        self.tombstones.add_all(tx.erased)
        for key, spans in tx.spans.known.items():
            self._recent.put(key, spans)
        if not tx.seq % _FORGET_COMMITS:
            for keys in self._all:
                keys.forget(self._read)

    def load(self, closing: threading.Event) -> None:
        """Learn the keys of what is stored, beside everything else; until then it is asked.

        Args:
            closing: Is set when nobody needs them any more.
        """
        for keys in self._all:
            keys.load(self._database.read, closing)

    # --- inside -----------------------------------------------------------------------------

    def _read(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a query in the thread that commits, which waits for no turn of readers."""
        return run(self._database.connection(), sql, parameters)

    def _without_spans(self, rows: Iterable[RecordRow]) -> Iterator[TraceKey]:
        """The traces of records of which certainly no span is stored."""
        for row in rows:
            trace_id = row.trace_id
            if trace_id and not self.traces.maybe(trace_hash(trace_id)):
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
        for space, trace_id, span_id, end_ns, size, checksum in self._stored(
            "SELECT space, trace_id, span_id, end_ns, span_size, checksum FROM spans",
            "trace_hash",
            self.traces,
            unknown,
        ):
            known = tx.spans.known.get((space, trace_id))
            if known is not None:
                known[span_id] = (end_ns, size, checksum)

    def _stored(
        self, select: str, column: str, keys: StoredKeys, numbers: Iterable[int]
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of some keys.

        Args:
            select: SQL up to the condition.
            column: Has the keys.
            keys: Tell the places to look at.
            numbers: Numbers of the keys.
        """
        for commits, maybe in keys.holding(numbers):
            for start in range(0, len(maybe), _LOOKUP_KEYS):
                part = maybe[start : start + _LOOKUP_KEYS]
                where = f"seq BETWEEN ? AND ? AND {one_of(column, part)}"
                yield from self._read(f"{select} WHERE {where}", [*commits, *part])


class RecentTraces:
    """All stored spans of the traces touched last: exact, least recently touched go first.

    Args:
        limit: Spans to remember, about 300 bytes each.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0
        self._traces: OrderedDict[TraceKey, dict[str, Preference]] = OrderedDict()

    def get(self, key: TraceKey) -> Mapping[str, Preference] | None:
        """The trace's spans, or None if it is not remembered."""
        found = self._traces.get(key)
        if found is not None:
            self._traces.move_to_end(key)
        return found

    def put(self, key: TraceKey, spans: dict[str, Preference]) -> None:
        """Remember a trace.

        Args:
            key: The trace.
            spans: All spans of it; belongs to this object from now on.
        """
        self._count += len(spans) - len(self._traces.get(key, ()))
        self._traces[key] = spans
        self._traces.move_to_end(key)
        while self._count > self._limit and len(self._traces) > 1:
            self._count -= len(self._traces.popitem(last=False)[1])
