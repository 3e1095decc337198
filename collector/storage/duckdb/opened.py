"""A DuckDB store that is open: its parts, what is left from the process before, and its end."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.metrics import LOG_APPLIED, UNCOUNTED, TotalKey, TotalName, Totals
from collector.storage.care import maintenance as care
from collector.storage.care.losses import Losses
from collector.storage.care.tally import Tally
from collector.storage.duckdb import read
from collector.storage.duckdb.committer import Committer, last_seq
from collector.storage.duckdb.conservation import read_conservation, read_record_sheet
from collector.storage.duckdb.database import DamagedBlockError
from collector.storage.duckdb.dedup import KnownRows
from collector.storage.duckdb.group_commit import GroupWriter
from collector.storage.duckdb.journal import Journal
from collector.storage.duckdb.span_fill import SpanFill
from collector.storage.duckdb.transaction import Transaction
from collector.storage.duckdb.write import (
    MaintenanceJob,
    RefusedSpansJob,
    SpansJob,
    TotalsJob,
    WriteJob,
)
from collector.storage.log.span_codec import encode_batch
from collector.storage.log.span_log import LOG_FOLDER, SpanLog
from collector.store.opening import LostDataError
from collector.store.sheets import Conservation, RecordSheet
from scouter.errors import ConfigError, DataError, TransientError
from scouter.model.otlp import decode_request

_log: Final = logging.getLogger(__name__)
_TAKEN_UP_BYTES: Final = 4 * 2**20
"""Bytes of requests that a start stores together."""


class Opened:
    """One DuckDB file with the span log beside it.

    Args:
        folder: Folder of the file; made if it is not there.
        memory_limit_bytes: Most memory that DuckDB may use.
        log_file_bytes: Size of a file of the span log, the least that retention gives back.
        commit_pause_s: Spans, which are durable before, wait up to this long after the last commit
            for others to be committed with them, unless a query or a record waits for that.
        accept_loss: Go on with what is left, where something is gone or damaged.

    Raises:
        ConfigError: The folder cannot be used, or another process has the file open.
        LostDataError: Something that was acknowledged is gone or damaged; nothing was changed.
        TransientError: Spans that only the span log holds cannot be stored now.
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
        _remove_old_index(folder / "traces")
        self._known = KnownRows(self._database, max(stored_seq, self._losses.seq))
        self._tally = Tally(folder, self._losses.missed_files)
        self._committer = Committer(
            self._database,
            self._known,
            self._tally,
            totals,
            stored_seq,
            max(stored_seq, self._losses.seq),
        )
        self._spans = read.StoredSpans(
            self._database, self._known.traces, self._known.evaluation_traces, self._log
        )
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
        """Time at which `oldest_ns` was last looked up, and the result."""
        self._loader = threading.Thread(
            target=self._known.load, args=(self._closing,), name="scouter-store-keys"
        )
        self._loader.start()
        self._fill = SpanFill(self._database, self._log, self._care, self._closing)
        self._filler = threading.Thread(target=self._fill.run, name="scouter-store-columns")
        self._filler.start()

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
        """Reason that the store takes nothing now; empty if it takes jobs."""
        return self._database.fault or self._committer.recovery.fault or self._writer.fault

    def last_seq(self) -> int:
        """Number of the last commit."""
        return self._committer.seq

    def record_sheet(self, space: str) -> RecordSheet:
        """Count the records of a space by what became of them."""
        return read_record_sheet(self._database, space)

    def conservation(self, space: str) -> Conservation:
        """Count states from the tables."""
        return read_conservation(self._database, space)

    def _submit(self, job: WriteJob) -> "Future[Any]":
        try:
            self._writer.submit(job)
        except TransientError as error:
            return failed(error)
        return job.future

    def _care(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        return self._submit(MaintenanceJob(work=work))

    def close(self) -> None:
        """Commit what was appended, then close the files."""
        self._closing.set()
        self._loader.join()
        self._filler.join()
        self._journal.close()
        self._writer.close()
        self._committer.write_tally()
        self._tally.close()
        self._database.close()
        self._log.close()
        self._oldest = 0.0, None

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


def _remove_old_index(folder: Path) -> None:
    """Remove the files in which an earlier version kept the places of spans."""
    for file in folder.glob("*.places"):
        with suppress(OSError):
            file.unlink()
    with suppress(OSError):  # it is not there, or holds something else
        folder.rmdir()


def _open_log(folder: Path, applied: int, file_bytes: int) -> SpanLog:
    try:
        return SpanLog(folder / LOG_FOLDER, applied, file_bytes)
    except OSError as error:
        raise ConfigError(f"cannot open the span log in {folder}: {error}") from error


def _is_promised(job: WriteJob) -> bool:
    return isinstance(job, SpansJob)


def _instead(job: WriteJob, error: DataError) -> WriteJob | None:
    return RefusedSpansJob(spans=job, error=error) if isinstance(job, SpansJob) else None


def failed(error: Exception) -> "Future[Any]":
    """A future that an error has ended."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
