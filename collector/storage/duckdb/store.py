"""The store that needs nothing else to run: one DuckDB file with one writer."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.metrics import LOG_APPLIED, UNCOUNTED, TotalKey, TotalName, Totals
from collector.storage.care import maintenance as care
from collector.storage.care.losses import Losses, LostDataError
from collector.storage.care.tally import Tally
from collector.storage.duckdb import read
from collector.storage.duckdb.block_filters import BlockFilters, BlockQuery
from collector.storage.duckdb.committer import Committer, last_seq
from collector.storage.duckdb.database import DamagedBlockError
from collector.storage.duckdb.dead_letters import (
    RemoveLettersJob,
    read_letters,
    read_refused_spans,
)
from collector.storage.duckdb.dedup import KnownRows
from collector.storage.duckdb.drift import (
    DriftJob,
    read_decided,
    read_drift_alerts,
    read_drift_history,
    read_drift_states,
    read_slices,
)
from collector.storage.duckdb.drops import DropsJob
from collector.storage.duckdb.erase import LOG_STEP, erase, forget_steps
from collector.storage.duckdb.evaluations import (
    read_evaluation,
    read_evaluations,
)
from collector.storage.duckdb.group_commit import GroupWriter
from collector.storage.duckdb.judges import (
    CalibrationsJob,
    GoldJob,
    read_calibrations,
    read_gold,
)
from collector.storage.duckdb.known_keys import SeenFilter, TraceKey
from collector.storage.duckdb.late import read_judged_traces, read_late_traces, read_stored_until
from collector.storage.duckdb.pending import read_pending
from collector.storage.duckdb.records import (
    read_history,
    read_record_page,
    read_session,
    read_session_traces,
    read_sessions,
)
from collector.storage.duckdb.search import read_span_page, read_trace_page
from collector.storage.duckdb.sessions import (
    read_open_sessions,
    read_session_records,
    read_trace_records,
)
from collector.storage.duckdb.settle import settle_records, superseded_sql
from collector.storage.duckdb.span_fill import SpanFill
from collector.storage.duckdb.tail_traces import TailTraces
from collector.storage.duckdb.tasks import read_task_counts, read_task_series
from collector.storage.duckdb.trace import read_trace
from collector.storage.duckdb.transaction import Transaction
from collector.storage.duckdb.usage import read_usage
from collector.storage.duckdb.waiting import count_waiting, read_waiting
from collector.storage.duckdb.write import (
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
from collector.storage.log.journal import Journal
from collector.storage.log.scrub import LogScrub
from collector.storage.log.span_codec import encode_batch
from collector.storage.log.span_log import LOG_FOLDER, SpanLog
from collector.storage.log.trace_places import PLACES_FOLDER, TracePlaces
from collector.storage.port.counts import (
    Conservation,
    SeriesItem,
    SeriesQuery,
    TaskCounts,
    TaskQuery,
)
from collector.storage.port.dead_letters import (
    DeadLetter,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
)
from collector.storage.port.drift import DriftEvent, DriftState, SliceQuery
from collector.storage.port.erase import Erased, EraseTarget
from collector.storage.port.judges import CalibrationRow, GoldQuery, GoldVerdict
from collector.storage.port.lists import (
    EvaluationPage,
    EvaluationQuery,
    RecordHistory,
    RecordPage,
    RecordQuery,
    SessionPage,
    SessionQuery,
    SessionSummary,
)
from collector.storage.port.rows import (
    FIRST_RESULT,
    START,
    AlertEvent,
    EvaluatedRecord,
    EvaluationRow,
    NewTrace,
    OpenSession,
    PendingVerdict,
    ProfileChange,
    ProfileRow,
    RecordPlace,
    RecordRow,
    RecordsAppended,
    ResultPlace,
    SettledRecord,
    SpansAppended,
    StoredTrace,
    WaitingRecord,
)
from collector.storage.port.search import (
    SpanPage,
    SpanQuery,
    TracePage,
    UsagePage,
    UsageQuery,
)
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import Observed, Place
from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.drops import Dropped

_log: Final = logging.getLogger(__name__)
_FILES_S: Final = 30.0
"""How long somebody waits who would change or copy whole files while somebody else does."""
_OLDEST_S: Final = 10.0
_TAKEN_UP_BYTES: Final = 4 * 2**20
"""Of requests that a start stores together."""


class DuckDBStore:
    """The port `Store` on one DuckDB file.

    Args:
        folder: Where the file is; made if it is not there.
        memory_limit_bytes: What DuckDB may use.
        log_file_bytes: Size of a file of the span log, the least that retention gives back.
        commit_pause_s: Spans, which are durable before, wait up to this long after the last commit
            for others to be committed with them, unless a query or a record waits for that.
        accept_loss: Go on with what is left, where something is gone or damaged.

    Raises:
        ConfigError: The folder cannot be used, or another process has the file open.
        LostDataError: Something that was acknowledged is gone or damaged; nothing was changed.
        TransientError: What the span log holds beyond the database cannot be stored now.
    """

    def __init__(
        self,
        folder: Path,
        memory_limit_bytes: int = 128 * 10**6,
        log_file_bytes: int = 16 * 2**20,
        commit_pause_s: float = 0.0,
        *,
        accept_loss: bool = False,
    ) -> None:
        self._losses = Losses(folder, accept=accept_loss)
        self._database = self._losses.open(memory_limit_bytes)
        try:
            stored_seq = last_seq(self._database)
            totals = read.read_totals(self._database)
            self._losses.check_commits(stored_seq, totals)
            applied = totals.get(LOG_APPLIED, 0)
            self._log = _open_log(folder, applied, log_file_bytes)
            gaps = care.gaps(self._database, self._log, applied)
            self._losses.check_bytes(care.spans_in(self._database, gaps))
        except (LostDataError, DamagedBlockError) as error:
            self._database.abandon()
            self._losses.undo()
            if isinstance(error, DamagedBlockError):
                raise LostDataError(folder, str(error)) from error
            raise
        self._known = KnownRows(self._database)
        self._filters = BlockFilters(self._database)
        end, *blocks = self._filters.stretches(BlockQuery(table="spans"))
        tail = TailTraces(self._database, end.first)
        try:
            self._places = TracePlaces(folder / PLACES_FOLDER, blocks)
        except OSError as error:
            raise ConfigError(f"cannot use {folder / PLACES_FOLDER}: {error}") from error
        self._tally = Tally(folder, self._losses.missed_files)
        self._committer = Committer(
            self._database,
            self._known,
            self._filters,
            self._places,
            tail,
            self._tally,
            totals,
            stored_seq,
            max(stored_seq, self._losses.seq),
        )
        self._spans = read.StoredSpans(self._database, self._filters, self._places, tail, self._log)
        self._take_up(applied)
        self._settle(gaps)
        self._writer = GroupWriter[WriteJob](
            self._committer.commit, _instead, _is_promised, self._committer.tend, commit_pause_s
        )
        self._journal = Journal(
            self._log,
            self._writer.submit,
            self._writer.hurry,
            self.fault,
            self._known.tombstones,
            self._committer.recovery.suspect,
        )
        self._files = threading.Lock()
        """Over whole files: held by who writes them anew, and by who copies them."""
        self._closing = threading.Event()
        self._oldest: tuple[float, int | None] = (0.0, None)
        """When `oldest_ns` was looked for last, and what was found."""
        self._loader = threading.Thread(
            target=self._known.load,
            args=(self._submit, self._closing),
            name="scouter-store-filters",
        )
        self._loader.start()
        self._fill = SpanFill(self._database, self._filters, self._log, self._care, self._closing)
        self._filler = threading.Thread(target=self._fill.run, name="scouter-store-columns")
        self._filler.start()

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

    def settle_records(self, settled: Sequence[SettledRecord]) -> "Future[None]":
        """Write what traces told of accepted records."""
        work: Callable[[Transaction], None] = lambda tx: settle_records(  # noqa: E731
            self._database.connection(), self._filters, settled
        )
        return self._care(work)

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

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names."""
        work: Callable[[Transaction], Erased] = lambda tx: erase(tx, self._database, target)  # noqa: E731
        return self._care(work)

    def append_alert_events(self, events: Sequence[AlertEvent]) -> "Future[int]":
        """Keep changes of alert states."""
        return self._submit(AlertsJob(rows=events))

    def append_calibrations(self, calibrations: Sequence[CalibrationRow]) -> "Future[int]":
        """Keep what is known of judges."""
        return self._submit(CalibrationsJob(rows=calibrations))

    def append_gold_verdicts(self, verdicts: Sequence[GoldVerdict]) -> "Future[int]":
        """Keep verdicts on gold items."""
        return self._submit(GoldJob(rows=verdicts))

    def save_drift(
        self, states: Sequence[DriftState], events: Sequence[DriftEvent]
    ) -> "Future[int]":
        """Keep states and events of detectors in one commit."""
        return self._submit(DriftJob(database=self._database, states=states, events=events))

    def append_profile(self, profile: ProfileRow) -> "Future[int]":
        """Register a profile."""
        return self._submit(ProfileJob(row=profile))

    def add_totals(self, deltas: Mapping[TotalKey, int]) -> "Future[int]":
        """Add to counts."""
        return self._submit(TotalsJob(deltas=deltas))

    def add_drops(self, space: str, dropped: Dropped, now_ns: int) -> "Future[int]":
        """Count what senders dropped."""
        return self._submit(
            DropsJob(database=self._database, space=space, dropped=dropped, now_ns=now_ns)
        )

    def _submit(self, job: WriteJob) -> "Future[Any]":
        try:
            self._writer.submit(job)
        except TransientError as error:
            return _failed(error)
        return job.future

    # --- reading ----------------------------------------------------------------------------

    def catch_up(self, timeout_s: float = 2.0, *, trace_id: str | None = None) -> bool:
        """Wait until reads see every span that was durable before this call."""
        return self._journal.catch_up(timeout_s, trace_id)

    def totals(self) -> Totals:
        """All counts as of the last commit."""
        return self._committer.totals

    @property
    def is_broken(self) -> bool:
        """True once DuckDB refuses everything; only a new process helps then."""
        return self._committer.is_broken

    @property
    def columns_filled(self) -> threading.Event:
        """Set once the spans of an earlier version have all columns."""
        return self._fill.done

    @property
    def missing_files(self) -> frozenset[str]:
        """Files beside the database that were there at the last start, and not at this one."""
        return self._losses.missing_files

    def fault(self) -> str:
        """Why the store takes nothing now; empty if it does."""
        return self._database.fault or self._committer.recovery.fault or self._writer.fault

    def last_seq(self) -> int:
        """Number of the last commit."""
        return self._committer.seq

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Read whole traces."""
        return read.read_spans(self._spans, space, trace_ids)

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the verdicts on its records."""
        return read_trace(self._spans, space, trace_id, limit)

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first."""
        return read_span_page(self._spans, query)

    def traces(self, query: SpanQuery) -> TracePage:
        """List traces that have a matching span."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_trace_page(self._spans, query)

    def usage(self, query: UsageQuery) -> UsagePage:
        """Sum up the use of models, tools and agents."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_usage(self._database, self._filters, query)

    def evaluations(self, query: EvaluationQuery) -> EvaluationPage:
        """List evaluations, newest first."""
        if query.as_of is None:  # or a revision that is stored meanwhile hides both
            query = replace(query, as_of=self.last_seq())
        return read_evaluations(self._database, self._filters, query)

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """A verdict by its id."""
        return read_evaluation(self._database, space, evaluation_id)

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count outcomes per profile and task."""
        return read_task_counts(self._database, query)

    def task_series(self, query: SeriesQuery) -> list[SeriesItem]:
        """Count outcomes per bucket, profile and task."""
        return read_task_series(self._database, query)

    def records(self, query: RecordQuery) -> RecordPage:
        """List accepted records, newest first."""
        return read_record_page(self._database, self._filters, query)

    def record_history(self, space: str, uid: str) -> RecordHistory | None:
        """A record and all that was decided about it."""
        return read_history(self._database, space, uid)

    def sessions(self, query: SessionQuery) -> SessionPage:
        """List sessions, the one with the newest record first."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_sessions(self._database, self._filters, query)

    def session(self, space: str, session_id: str) -> SessionSummary | None:
        """One session, counted."""
        return read_session(self._database, self._filters, space, session_id)

    def session_traces(self, space: str, session_id: str, limit: int) -> list[str]:
        """Traces of a session's records."""
        return read_session_traces(self._database, self._filters, space, session_id, limit)

    def new_traces(self, after: int) -> list[NewTrace]:
        """Traces with spans that came behind a commit."""
        rows = self._database.read(
            "SELECT space, trace_id, max(seq) AS last FROM spans WHERE seq > ?"
            " GROUP BY space, trace_id ORDER BY last, space, trace_id",
            [after],
        )
        return [NewTrace(*row) for row in rows]

    def superseded_records(self) -> list[tuple[str, str]]:
        """Derived records whose trace has a sender's record of the same alias."""
        return [(space, uid) for space, uid in self._database.read(superseded_sql())]

    def last_outcomes(self, space: str, profile_uid: str, count: int) -> list[Outcome]:
        """Outcomes of a profile's last first verdicts, oldest first."""
        return read.read_last_outcomes(self._database, space, profile_uid, count)

    def waiting_records(self, limit: int, after: RecordPlace = START) -> list[WaitingRecord]:
        """Accepted records that nothing was decided about, by their places."""
        return read_waiting(self._database, after, limit)

    def pending_verdicts(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingVerdict]:
        """Latest verdicts of which some tasks are pending, by their places."""
        return read_pending(self._database, after, limit, profiles, others=others)

    def pending_count(self) -> int:
        """How many tasks are pending, latest verdicts only."""
        return sum(n for key, n in self.totals().items() if key.name is TotalName.PENDING)

    def waiting_count(self) -> int:
        """How many `waiting_records` would list, in all."""
        return count_waiting(self._database)

    def evaluated_records(self, space: str, trace_ids: Iterable[str]) -> list[EvaluatedRecord]:
        """Records of these traces whose latest verdict read spans, without contexts."""
        return read.read_evaluated(self._database, space, trace_ids)

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Accepted records by their uids."""
        return read.read_records(self._database, space, uids)

    def context_sizes(self, space: str, uids: Iterable[str]) -> dict[str, int]:
        """By uid the bytes of a record's context."""
        return read.read_context_sizes(self._database, space, uids)

    def latest_verdicts(
        self, keys: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], EvaluationRow]:
        """The latest verdict by space and uid."""
        return read.read_latest(self._database, set(keys)) if keys else {}

    def verdicts_of_ids(
        self, space: str, record_ids: Collection[str], limit: int
    ) -> tuple[EvaluationRow, ...] | None:
        """The latest verdict on each record that bears one of some ids."""
        return read.read_of_ids(self._database, space, record_ids, limit)

    def results_after(
        self, place: ResultPlace, limit: int
    ) -> list[tuple[ResultPlace, EvaluationRow]]:
        """Verdicts behind a place, in the order of commits."""
        return read.read_results(self._database, place, limit)

    def session_records(
        self, space: str, session_ids: Iterable[str], limit: int
    ) -> list[RecordRow]:
        """Accepted records of some sessions, without contexts; any of more than `limit`."""
        return read_session_records(self._database, space, session_ids, limit)

    def trace_records(self, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some traces, without contexts."""
        return read_trace_records(self._database, space, trace_ids)

    def open_sessions(self, profiles: Collection[tuple[str, str]]) -> list[OpenSession]:
        """Sessions with a record that their latest verdict has not seen."""
        return read_open_sessions(self._database, profiles)

    def judged_traces(self, since_ns: int) -> SeenFilter:
        """Hashes of the traces of verdicts that read spans."""
        return read_judged_traces(self._database, since_ns)

    def late_traces(self, since_ns: int) -> list[TraceKey]:
        """Traces with spans that a latest verdict has not seen."""
        return read_late_traces(self._database, since_ns)

    def stored_until_ns(self, seq: int) -> int | None:
        """When the newest came or was decided of what some commits stored."""
        return read_stored_until(self._database, seq)

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles."""
        return read.read_profiles(self._database)

    def profile_changes(self) -> list[ProfileChange]:
        """Everything that became of profiles."""
        return read.read_profile_changes(self._database)

    def calibrations(self) -> list[CalibrationRow]:
        """All calibrations."""
        return read_calibrations(self._database)

    def gold_verdicts(self, query: GoldQuery) -> list[GoldVerdict]:
        """Verdicts on gold items."""
        return read_gold(self._database, query)

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert."""
        return read.read_last_alert_events(self._database)

    def decided_after(self, place: Place, limit: int) -> list[Observed]:
        """First final results behind a place, in the order of completion."""
        return read_decided(self._database, place, limit)

    def drift_states(self) -> list[DriftState]:
        """The latest state under each name."""
        return read_drift_states(self._database)

    def drift_alerts(self, space: str | None = None) -> list[DriftEvent]:
        """The latest event of each alert, the newest first."""
        return read_drift_alerts(self._database, space)

    def drift_history(self, space: str, alert_id: str) -> list[DriftEvent]:
        """All events of one alert, the oldest first."""
        return read_drift_history(self._database, space, alert_id)

    def slices(self, query: SliceQuery) -> tuple[list[Slice], int]:
        """Passes and fails by tag, tool and model, before and since a moment."""
        return read_slices(self._database, query)

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        return read_letters(self._database, query)

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> dict[str, str]:
        """Say which traces lack a span that was refused."""
        return read_refused_spans(self._database, space, trace_ids)

    def conservation(self, space: str) -> Conservation:
        """Count states from the tables."""
        return read.read_conservation(self._database, space)

    # --- care -------------------------------------------------------------------------------

    def remove_before(self, before_ns: int) -> int:
        """Take out what is older than a time; returns the number of records and spans.

        Done in slices, each in a commit of its own: what was taken out stays so if one fails.
        """
        removed = 0
        for cut_ns in care.slices(self._database, before_ns):
            work = partial(care.remove_before, database=self._database, before_ns=cut_ns)
            removed += self._remove(work).result()
        return removed

    def keep_within(self, max_bytes: int) -> int:
        """Take out the oldest that came in, and what was made of it, if the store is too large.

        A tenth more than the excess goes, so that the next call need not do it again. Room is
        given back by the row group (`database.ROW_GROUP`) and by the file of the span log.

        Returns:
            The number of records and spans.
        """
        used = self.size_bytes()
        if used <= max_bytes:
            return 0
        cut = care.age_at(self._database, min(1.0, 1.1 * (1 - max_bytes / used)))
        return 0 if cut is None else self.remove_before(cut + 1)

    def compact(self) -> "Future[Any]":
        """Add the changes of every count up; happens by itself now and then."""
        return self._care(lambda tx: care.add_up(tx, self._database))

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be in the files."""
        return bool(self._database.read("SELECT 1 FROM erasures LIMIT 1"))

    def remove_rests(self) -> None:
        """Take the bytes of what was erased out of the files; a start after a crash repeats it.

        The span log's files that hold such spans are written anew, then the database file.

        Raises:
            TransientError: It cannot be done now; it is still to be done then.
        """
        with self._alone_with_files():
            self._scrub_log()
            rewritten = self._committer.rewrite_next()
            self._care(lambda tx: None).result()
            rewritten.result()

    @contextmanager
    def _alone_with_files(self) -> Generator[None]:
        if not self._files.acquire(timeout=_FILES_S):
            raise TransientError("the files of the store are being copied or written anew", 5)
        try:
            yield
        finally:
            self._files.release()

    def _scrub_log(self) -> None:
        """Take the bytes of what was erased out of the span log."""
        # What came before the erasure, and was not filtered, is in the log behind this.
        self.append_spans("", [], 0).result()
        lost = self._database.read(
            "SELECT seq, space, trace_id, span_id FROM erasures WHERE step = ?", [LOG_STEP]
        )
        if lost:
            scrub = LogScrub((space, trace_id, span_id) for _, space, trace_id, span_id in lost)
            try:
                self._log.rewrite(scrub.concerns, scrub.clean, self._has_spans)
            except OSError as error:
                raise TransientError(f"the span log cannot be written: {error}") from error
            done = max(seq for seq, *_ in lost)
            self._care(lambda tx: forget_steps(tx, self._database, LOG_STEP, done)).result()

    def _has_spans(self, begin: int, end: int) -> bool:
        """Say whether spans have their frame between two places of the log."""
        sql = "SELECT 1 FROM spans WHERE frame >= ? AND frame < ? LIMIT 1"
        return bool(self._database.read(sql, [begin, end]))

    def checkpoint(self) -> None:
        """Write the log into the file proper, which frees the blocks of what was taken out.

        Raises:
            TransientError: It cannot be done now; the next commits do it.
        """
        try:
            with self._database.in_use():
                self._database.checkpoint()
        except duckdb.Error as error:
            self._writer.hurry()  # the thread that commits opens the file again, if it has to
            raise TransientError(f"no checkpoint: {error}") from error

    def backup(self, folder: Path) -> Path:
        """Copy the store as it is now into a folder that `--data` can open; writes go on.

        What was erased before is not in it.
        """
        care.refuse_store(folder)
        with self._alone_with_files():
            self._scrub_log()  # of the database only rows are copied
            return care.back_up(self._database, self._log, folder)

    def export(self, folder: Path, tell: Callable[[str], None] = lambda text: None) -> list[Path]:
        """Write every table as it is now into a Parquet file; `tell` is told how far it is."""
        from collector.storage.care.table_export import (
            export_tables,  # 20 MB that a collector lacks
        )

        with self._alone_with_files():
            return export_tables(self._database, self._log, folder, tell)

    def size_bytes(self) -> int:
        """Bytes of the store that hold rows."""
        return care.used_bytes(self._database) + self._places.size_bytes + self._log.size_bytes

    def file_bytes(self) -> int:
        """Size on disk, all logs included."""
        return self._database.file_bytes() + self._places.size_bytes + self._log.size_bytes

    def oldest_ns(self) -> int | None:
        """When the oldest record or span came; None in an empty store, and while it is closed.

        While there are rows, the answer may be ten seconds old: scrapes ask for it, and it moves by
        the hour.
        """
        asked_at, oldest = self._oldest
        if oldest is not None and time.monotonic() < asked_at + _OLDEST_S:
            return oldest
        try:
            oldest = read.read_received(self._database)[0]
        except TransientError:
            return None
        self._oldest = time.monotonic(), oldest
        return oldest

    def newest_ns(self) -> int | None:
        """When the newest record or span came; None in an empty store.

        Raises:
            TransientError: It cannot be read now.
        """
        return read.read_received(self._database)[1]

    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""
        return time.monotonic() - self._committer.committed_at

    def _care(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        return self._submit(MaintenanceJob(work=work))

    def _remove(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        """Care that takes out rows; then the files go that no row points into."""
        future = self._care(work)
        future.add_done_callback(self._release)
        return future

    def _release(self, removed: "Future[Any]") -> None:
        if removed.exception() is None and removed.result():
            self._log.release(care.first_frame(self._database, self.totals().get(LOG_APPLIED, 0)))

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each commit takes, in the writer thread."""
        self._committer.on_commit = observe

    def observe_syncs(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each sync of the span log takes, in its thread."""
        self._journal.on_sync = observe

    def pending_bytes(self) -> int:
        """Of requests of spans that were acknowledged, but are not in the database yet."""
        return self._journal.pending_bytes

    def close(self) -> None:
        """Commit what was appended, then close the files."""
        self._closing.set()
        self._loader.join()
        self._filler.join()
        self._journal.close()
        self._writer.close()
        self._known.close()
        self._filters.close()
        self._committer.write_tally()
        self._tally.close()
        self._database.close()
        self._log.close()
        self._oldest = 0.0, None

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
                self._committer.commit_or_put_aside(group)
                group, size = [], 0
        if group:
            self._committer.commit_or_put_aside(group)

    def _settle(self, gaps: Sequence[tuple[int, int]]) -> None:
        """Count what is missing, now that everything is back that comes back."""
        found = self._losses.found
        spaces = {key.space for key in self.totals()}
        if self._losses.told is not None:
            spaces |= {space for space, _ in self._losses.told.held}
        sheets = {space: self.conservation(space) for space in spaces - {""}} if found else {}
        deltas = self._losses.deltas(sheets, self._log.damaged)
        if deltas or (found and gaps):
            work = partial(care.remove_stretches, database=self._database, gaps=gaps)
            self._committer.commit([MaintenanceJob(work=work), TotalsJob(deltas=deltas)])
            _log.warning("counted as lost: %s", _lost_words(deltas))
        self._committer.write_tally()


def _lost_words(deltas: Mapping[TotalKey, int]) -> str:
    """Say for people what was lost."""
    words = [
        f"{n} {key.label}s of space {key.space!r}"
        for key, n in deltas.items()
        if key.name is TotalName.LOST and key != UNCOUNTED
    ]
    if UNCOUNTED in deltas:
        words.append("some, of which nobody knows how many")
    return ", ".join(words) or "nothing"


def _open_log(folder: Path, applied: int, file_bytes: int) -> SpanLog:
    try:
        return SpanLog(folder / LOG_FOLDER, applied, file_bytes)
    except OSError as error:
        raise ConfigError(f"cannot open the span log in {folder}: {error}") from error


def _is_promised(job: WriteJob) -> bool:
    return isinstance(job, SpansJob)


def _instead(job: WriteJob, error: DataError) -> WriteJob | None:
    return RefusedSpansJob(spans=job, error=error) if isinstance(job, SpansJob) else None


def _failed(error: Exception) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
