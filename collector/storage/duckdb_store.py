"""The store that needs nothing else to run: one DuckDB file with one writer."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, cast

import duckdb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.metrics import LOG_APPLIED, TotalKey, Totals
from collector.storage import duckdb_read as read
from collector.storage import maintenance as care
from collector.storage.arrow import ArrowError
from collector.storage.database import Database, run
from collector.storage.duckdb_late import read_evaluated_traces, read_late_traces
from collector.storage.duckdb_letters import RemoveLettersJob, read_letters
from collector.storage.duckdb_schema import TABLES
from collector.storage.duckdb_sessions import (
    read_open_sessions,
    read_session_records,
    read_trace_records,
)
from collector.storage.duckdb_write import (
    AlertsJob,
    EvaluationsJob,
    LettersJob,
    MaintenanceJob,
    ProfileJob,
    RecordsJob,
    RefusedSpansJob,
    SpansJob,
    TotalsJob,
    WriteJob,
)
from collector.storage.group_commit import GroupWriter
from collector.storage.journal import Journal
from collector.storage.known_keys import RecentTraces, SeenFilter, TraceKey
from collector.storage.rows import (
    AlertEvent,
    Conservation,
    DeadLetter,
    EvaluationPage,
    EvaluationQuery,
    EvaluationRow,
    LetterQuery,
    LettersRemoved,
    OpenSession,
    ProfileRow,
    RecordRow,
    RecordsAppended,
    SpansAppended,
    StoredLetter,
    TaskCounts,
    TaskQuery,
)
from collector.storage.span_codec import encode_batch, trace_hash
from collector.storage.span_log import LOG_FOLDER, SpanLog
from collector.storage.transaction import Transaction, placeholders
from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import decode_request
from scouter.model.span import Span

_log: Final = logging.getLogger(__name__)
_RECENT_SPANS: Final = 20_000
_LOOKUP_KEYS: Final = 500
_TAKEN_UP_BYTES: Final = 4 * 2**20
"""Of requests that a start stores together."""
_BAD_VALUES: Final = (
    duckdb.DataError,
    duckdb.ProgrammingError,
    duckdb.NotSupportedError,
    ArrowError,
    UnicodeEncodeError,
    OverflowError,
)
_FILTERED: Final = {
    "spans": "SELECT DISTINCT trace_hash FROM spans",
    "records": "SELECT uid_hash FROM records",
    "evaluations": "SELECT uid_hash FROM evaluations",
}


class DuckDBStore:
    """The port `Store` on one DuckDB file.

    Args:
        folder: Where the file is; made if it is not there.
        memory_limit_bytes: What DuckDB may use.
        log_file_bytes: Size of a file of the span log, the least that retention gives back.

    Raises:
        ConfigError: The folder cannot be used, or another process has the file open.
        TransientError: What the span log holds beyond the database cannot be stored now.
    """

    def __init__(
        self,
        folder: Path,
        memory_limit_bytes: int = 80 * 10**6,
        log_file_bytes: int = 16 * 2**20,
    ) -> None:
        self._database = Database(folder, memory_limit_bytes)
        self._totals: Totals = read.read_totals(self._database)
        applied = self._totals.get(LOG_APPLIED, 0)
        try:
            self._log = SpanLog(folder / LOG_FOLDER, applied, log_file_bytes)
        except OSError as error:
            raise ConfigError(f"cannot open the span log in {folder}: {error}") from error
        self._seq = self._last_seq()
        self._recent = RecentTraces(_RECENT_SPANS)
        self._seen = {table: SeenFilter() for table in _FILTERED}
        self._seen_all: set[str] = set()
        """Tables whose filter knows every stored row; the others' "never seen" means nothing."""
        self._is_broken = False
        self._committed_at = time.monotonic()
        self.on_commit: Callable[[float], None] | None = None
        """Is told the seconds that each commit took, in the writer thread."""
        self._take_up(applied)
        self._writer = GroupWriter[WriteJob](self._commit, _instead, _is_promised)
        self._journal = Journal(self._log, self._writer.submit, self.fault)
        self._closing = threading.Event()
        self._loader = threading.Thread(target=self._load_filters, name="scouter-store-filters")
        self._loader.start()

    # --- writing ----------------------------------------------------------------------------

    def append_spans(
        self,
        space: str,
        spans: Sequence[Span],
        received_ns: int,
        *,
        wire: bytes | None = None,
        durable: "Future[None] | None" = None,
    ) -> "Future[SpansAppended]":
        """Store spans, each key once. The rows are made in the calling thread."""
        durable = Future[None]() if durable is None else durable
        try:
            return self._journal.append(space, encode_batch(spans, wire), received_ns, durable)
        except (DataError, TransientError) as error:
            durable.set_exception(error)
            return _failed(error)

    def append_records(self, records: Sequence[RecordRow]) -> "Future[RecordsAppended]":
        """Accept records, each key once. The rows are made in the calling thread."""
        return self._submit(RecordsJob.made_of(records, self._database.schemas))

    def append_evaluations(self, evaluations: Sequence[EvaluationRow]) -> "Future[int]":
        """Store verdicts, each record and revision once, made in the calling thread."""
        return self._submit(EvaluationsJob.made_of(evaluations, self._database.schemas))

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> "Future[int]":
        """Put things aside."""
        return self._submit(LettersJob(rows=letters))

    def remove_dead_letters(
        self, space: str, letter_ids: Sequence[str]
    ) -> "Future[LettersRemoved]":
        """Take letters out."""
        return self._submit(
            RemoveLettersJob(database=self._database, space=space, letter_ids=letter_ids)
        )

    def append_alert_events(self, events: Sequence[AlertEvent]) -> "Future[int]":
        """Keep changes of alert states."""
        return self._submit(AlertsJob(rows=events))

    def append_profile(self, profile: ProfileRow) -> "Future[int]":
        """Register a profile."""
        return self._submit(ProfileJob(row=profile))

    def add_totals(self, deltas: Mapping[TotalKey, int]) -> "Future[int]":
        """Add to counts."""
        return self._submit(TotalsJob(deltas=deltas))

    def _submit(self, job: WriteJob) -> "Future[Any]":
        try:
            self._writer.submit(job)
        except TransientError as error:
            return _failed(error)
        return job.future

    # --- reading ----------------------------------------------------------------------------

    def catch_up(self, timeout_s: float = 2.0) -> bool:
        """Wait until reads see every span that was durable before this call."""
        return self._journal.catch_up(timeout_s)

    def totals(self) -> Totals:
        """All counts as of the last commit."""
        return self._totals

    @property
    def is_broken(self) -> bool:
        """True once DuckDB refuses everything; only opening the file anew helps then."""
        return self._is_broken

    def fault(self) -> str:
        """Why the last commit failed for now; empty if it did not."""
        return self._writer.fault

    def last_seq(self) -> int:
        """Number of the last commit."""
        return self._seq

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Read whole traces."""
        return read.read_spans(self._database, self._log, space, trace_ids)

    def evaluations(self, query: EvaluationQuery) -> EvaluationPage:
        """List evaluations, newest first."""
        return read.read_evaluations(self._database, query)

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count outcomes per profile and task."""
        return read.read_task_counts(self._database, query)

    def last_outcomes(self, space: str, profile_uid: str, count: int) -> list[Outcome]:
        """Outcomes of a profile's last first verdicts, oldest first."""
        return read.read_last_outcomes(self._database, space, profile_uid, count)

    def waiting_records(self) -> list[RecordRow]:
        """Accepted records that nothing was decided about."""
        return read.read_waiting(self._database)

    def evaluated_records(
        self, space: str, trace_ids: Iterable[str]
    ) -> list[tuple[RecordRow, EvaluationRow]]:
        """Records of these traces whose latest verdict read spans, each with that verdict."""
        return read.read_evaluated(self._database, space, trace_ids)

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Accepted records by their uids."""
        return read.read_records(self._database, space, uids)

    def latest_verdicts(
        self, keys: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], EvaluationRow]:
        """The latest verdict by space and uid."""
        return read.read_latest(self._database, set(keys)) if keys else {}

    def session_records(self, space: str, session_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some sessions."""
        return read_session_records(self._database, space, session_ids)

    def trace_records(self, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some traces."""
        return read_trace_records(self._database, space, trace_ids)

    def open_sessions(self, profiles: Collection[tuple[str, str]]) -> list[OpenSession]:
        """Sessions with a record that their latest verdict has not seen."""
        return read_open_sessions(self._database, profiles)

    def evaluated_traces(self, since_ns: int) -> Iterator[list[TraceKey]]:
        """Traces of verdicts that read spans, in parts."""
        return read_evaluated_traces(self._database, since_ns)

    def late_traces(self, since_ns: int) -> list[TraceKey]:
        """Traces with spans that a latest verdict has not seen."""
        return read_late_traces(self._database, since_ns)

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles."""
        return read.read_profiles(self._database)

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert."""
        return read.read_last_alert_events(self._database)

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        return read_letters(self._database, query)

    def conservation(self, space: str) -> Conservation:
        """Count states from the tables."""
        return read.read_conservation(self._database, space)

    # --- care -------------------------------------------------------------------------------

    def remove_before(self, before_ns: int) -> "Future[int]":
        """Take out what is older than a time; answers with the number of records and spans."""
        return self._remove(lambda tx: care.remove_before(tx, self._database, before_ns))

    def keep_within(self, max_bytes: int) -> "Future[int]":
        """Take out the oldest that came in, and what was made of it, if the store is too large.

        A tenth more than the excess goes, so that the next call need not do it again. Room is
        given back by the row group, 8,192 rows, and by the file of the span log.
        """

        def work(tx: Transaction) -> int:
            used = self.size_bytes()
            if used <= max_bytes:
                return 0
            cut = care.age_at(self._database, min(1.0, 1.1 * (1 - max_bytes / used)))
            return 0 if cut is None else care.remove_before(tx, self._database, cut + 1)

        return self._remove(work)

    def compact(self) -> "Future[Any]":
        """Add the changes of every count up; happens by itself now and then."""
        return self._care(lambda tx: care.add_up(tx, self._database))

    def checkpoint(self) -> None:
        """Write the log into the file proper, which frees the blocks of what was taken out.

        Raises:
            TransientError: It cannot be done now; the next commits do it.
        """
        try:
            run(self._database.connection(), "CHECKPOINT store")
        except duckdb.Error as error:
            raise TransientError(f"no checkpoint: {error}") from error

    def backup(self, folder: Path) -> Path:
        """Copy the store as it is now into a folder that `--data` can open; writes go on."""
        return care.back_up(self._database, self._log, folder)

    def export(self, folder: Path) -> list[Path]:
        """Write every table as it is now into a Parquet file; writes go on."""
        return care.export_parquet(self._database, self._log, folder)

    def size_bytes(self) -> int:
        """Bytes of the store that hold rows."""
        return care.used_bytes(self._database) + self._log.size_bytes

    def file_bytes(self) -> int:
        """Size on disk, all logs included."""
        return self._database.file_bytes() + self._log.size_bytes

    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""
        return time.monotonic() - self._committed_at

    def _care(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        return self._submit(MaintenanceJob(work=work))

    def _remove(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        """Care that takes out rows; then the files go that no row points into."""
        future = self._care(work)
        future.add_done_callback(self._release)
        return future

    def _release(self, removed: "Future[Any]") -> None:
        if removed.exception() is None and removed.result():
            self._log.release(care.first_frame(self._database, self._totals.get(LOG_APPLIED, 0)))

    def close(self) -> None:
        """Commit what was appended, then close the files."""
        self._closing.set()
        self._loader.join()
        self._journal.close()
        self._writer.close()
        self._database.close()
        self._log.close()

    # --- the writer thread ------------------------------------------------------------------

    def _commit(self, group: Sequence[WriteJob]) -> Sequence[object]:
        """Store a group of jobs in one transaction."""
        began = time.monotonic()
        tx = Transaction(self._database, self._seq + 1, self._totals)
        connection = self._database.connection()
        try:
            run(connection, "BEGIN")
            # What it takes out must not be looked up, nor followed by revisions.
            care_answers = {
                at: job.apply(tx) for at, job in enumerate(group) if isinstance(job, MaintenanceJob)
            }
            self._look_up(tx, group)
            answers = [
                care_answers[at] if at in care_answers else job.apply(tx)
                for at, job in enumerate(group)
            ]
            totals = tx.write()
            self._finish(connection)
        except _BAD_VALUES as error:
            self._roll_back(connection)
            raise DataError(f"rows that the store cannot hold: {error}") from error
        except (duckdb.Error, OSError, MemoryError) as error:
            self._is_broken = self._is_broken or "invalidated" in str(error)
            self._roll_back(connection)
            raise TransientError(f"the store cannot write: {error}") from error
        except BaseException:
            self._roll_back(connection)
            raise
        self._seq, self._totals = tx.seq, totals
        self._remember(tx)
        self._committed_at = time.monotonic()
        if self.on_commit is not None:
            self.on_commit(self._committed_at - began)
        return answers

    def _finish(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Commit; a checkpoint that fails behind a commit takes nothing back from it."""
        try:
            run(connection, "COMMIT")
        except duckdb.Error as error:
            if "COMMIT succeeded and is durable" not in str(error):
                raise
            self._is_broken = True
            _log.critical("the store took its last commit: %s", error)

    def _roll_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            run(connection, "ROLLBACK")
        except duckdb.Error:
            return  # there was no transaction: BEGIN itself or the commit had failed

    def _remember(self, tx: Transaction) -> None:
        """Take over the keys of a transaction that is durable now."""
        for key, spans in tx.spans.known.items():
            self._recent.put(key, spans)
        self._seen["spans"].add_all([trace_hash(trace_id) for _, trace_id in tx.spans.known])
        self._seen["records"].add_all(tx.record_hashes)
        self._seen["evaluations"].add_all(tx.evaluation_hashes)

    def _maybe_stored(self, table: str, number: int) -> bool:
        return table not in self._seen_all or self._seen[table].maybe(number)

    def _look_up(self, tx: Transaction, group: Sequence[WriteJob]) -> None:
        """Tell the transaction what is stored already of everything that the group brings."""
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
        tx.evaluated.update(
            cast(tuple[str, str, int], row)
            for row in self._look_up_hashes(
                "evaluations", "space, record_uid, revision", "uid_hash", evaluations
            )
        )
        revised = {
            (row.space, row.record_uid)
            for job in group
            if isinstance(job, EvaluationsJob)
            for row in job.rows
            if row.revision > 1
        }
        if revised:
            tx.latest.update(read.read_latest(self._database, revised))

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
            sql = f"SELECT {columns} FROM {table} WHERE {column} IN ({placeholders(part)})"  # noqa: S608
            found += self._database.read(sql, part)
        return found

    # --- start ------------------------------------------------------------------------------

    def _take_up(self, applied: int) -> None:
        """Store what an earlier process had put into the log, and not yet into the database."""
        group: list[SpansJob] = []
        size = 0
        for frame, place in self._log.frames(applied):
            request = ExportTraceServiceRequest.FromString(frame.body)
            encoded = encode_batch(decode_request(request).spans, frame.body)
            group.append(
                SpansJob(
                    space=frame.space,
                    batch=encoded,
                    received_ns=frame.received_ns,
                    place=place,
                )
            )
            size += len(frame.body)
            if size >= _TAKEN_UP_BYTES:
                self._commit_or_put_aside(group)
                group, size = [], 0
        if group:
            self._commit_or_put_aside(group)

    def _commit_or_put_aside(self, group: Sequence[SpansJob]) -> None:
        """Commit batches that were acknowledged; one that never fits must not stop every start."""
        try:
            self._commit(group)
        except DataError as error:
            if len(group) == 1:
                self._commit([RefusedSpansJob(spans=group[0], error=error)])
                return
            for job in group:
                self._commit_or_put_aside([job])

    def _last_seq(self) -> int:
        numbers = (
            self._database.read(f"SELECT coalesce(max(seq), 0) FROM {table}")[0][0]  # noqa: S608
            for table in TABLES
        )
        return max(numbers)

    def _load_filters(self) -> None:
        """Fill the filters from the store, beside everything else; until then it is asked."""
        try:
            for table, sql in _FILTERED.items():
                loaded = SeenFilter()
                cursor = self._database.connection().execute(sql)
                while rows := cursor.fetchmany(10_000):
                    for row in rows:
                        loaded.add(row[0])
                    if self._closing.is_set():
                        return
                self._submit(_FilterJob(self, table, loaded)).result()
        except (duckdb.Error, TransientError) as error:
            _log.warning("no filter of known keys, every key is looked up: %s", error)

    def take_filter(self, table: str, loaded: SeenFilter) -> None:
        """Merge a filter in the writer thread, which alone changes filters."""
        self._seen[table].merge(loaded)
        self._seen_all.add(table)


class _FilterJob:
    """Hands a filter that was loaded in the background to the writer thread."""

    size = 1

    def __init__(self, store: DuckDBStore, table: str, loaded: SeenFilter) -> None:
        self._store, self._table, self._loaded = store, table, loaded
        self.future: Future[Any] = Future()

    def apply(self, tx: Transaction) -> int:
        """Merge it."""
        self._store.take_filter(self._table, self._loaded)
        return tx.seq


def _is_promised(job: WriteJob) -> bool:
    return isinstance(job, SpansJob)


def _instead(job: WriteJob, error: DataError) -> WriteJob | None:
    return RefusedSpansJob(spans=job, error=error) if isinstance(job, SpansJob) else None


def _failed(error: Exception) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
