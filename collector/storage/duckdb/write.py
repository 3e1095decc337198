"""Jobs of each kind of row; a job knows how to add itself to a transaction."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.arrow import Schema
from collector.storage.duckdb.columns import (
    EvaluationColumns,
    RecordColumns,
    evaluation_columns,
    record_columns,
)
from collector.storage.duckdb.job import Job, RowsJob
from collector.storage.duckdb.stored_keys import text_hash
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.span_codec import EncodedBatch
from collector.storage.log.span_log import Place
from collector.store.letters import DeadLetter, LetterKind, letter_of_conflict
from collector.store.rows import (
    AlertEvent,
    EvaluationRow,
    ProfileRow,
    RecordRow,
    RecordsAppended,
    SpansAppended,
    TraceKey,
)
from scouter.errors import DataError
from scouter.model.otlp import encode_request

ColumnsT = TypeVar("ColumnsT")


def _ahead(make: Callable[[], ColumnsT]) -> ColumnsT | None:
    """Make columns before the commit; where that fails, the commit tries it and says why."""
    try:
        return make()
    except Exception:  # noqa: BLE001 a fault belongs to the answer, which the commit gives
        return None


class WriteJob(Protocol):
    """Rows that want to be stored together."""

    @property
    def future(self) -> "Future[Any]":
        """Answered after the commit."""
        ...

    @property
    def size(self) -> int:
        """Number of rows."""
        ...

    def apply(self, tx: Transaction) -> object:
        """Add the rows; the answer is given to the future once they are durable."""
        ...


@dataclass(slots=True, kw_only=True)
class SpansJob(Job):
    """A batch of spans of one space, whose bytes are in the span log."""

    space: str
    batch: EncodedBatch
    received_ns: int
    place: Place
    erased: int = 0
    """Spans that came again after they were erased, and were not written."""

    @property
    def size(self) -> int:
        """Number of spans."""
        return len(self.batch.spans)

    @property
    def trace_keys(self) -> list[TraceKey]:
        """Traces that the batch touches."""
        return [(self.space, trace_id) for trace_id in self.batch.traces]

    def apply(self, tx: Transaction) -> SpansAppended:
        """Add what is new or better."""
        known = frozenset(key[1] for key in self.trace_keys if tx.spans.known[key])
        batch = self.batch
        kept = tx.tombstones.kept(self.space, batch.spans, batch.traces, tx.erased)
        if kept is not None:  # erased after it was written to the log, which is cleaned then
            batch = batch.only(kept)
        erased = self.erased + len(self.batch.spans) - len(batch.spans)
        if erased:
            tx.count(TotalName.DUPLICATES, self.space, erased, label=batch.kind)
        added = tx.add_spans(self.space, self.received_ns, self.place.body, batch)
        tx.applied(self.place.end)
        return SpansAppended(
            space=self.space,
            seq=tx.seq,
            stored=tuple(added.stored),
            stored_bytes=added.stored_bytes,
            duplicates=erased + len(batch.spans) - len(added.stored),
            known_traces=known,
        )


@dataclass(slots=True, kw_only=True)
class RefusedSpansJob(Job):
    """Acknowledged spans that the database cannot hold, put aside one by one."""

    spans: SpansJob
    error: DataError
    size: int = 1

    def apply(self, tx: Transaction) -> int:
        """Add a dead letter for each span, and pass over its place in the log."""
        for span in self.spans.batch.spans:
            tx.add_letter(
                DeadLetter(
                    space=self.spans.space,
                    kind=LetterKind.SPAN,
                    reason="refused_by_store",
                    message=str(self.error),
                    source="span_log",
                    payload=encode_request([span]).SerializeToString(),
                    received_ns=self.spans.received_ns,
                )
            )
        tx.applied(self.spans.place.end)
        return tx.seq


@dataclass(slots=True, kw_only=True)
class RecordsJob(RowsJob[RecordRow]):
    """A batch of records."""

    columns: RecordColumns | None = None
    """The same, where they were made ahead of the commit."""

    @staticmethod
    def made_of(rows: Sequence[RecordRow], schemas: Mapping[str, Schema]) -> "RecordsJob":
        """Make the columns in the calling thread."""
        return RecordsJob(rows=rows, columns=_ahead(lambda: record_columns(rows, schemas)))

    @property
    def hashes(self) -> Sequence[int]:
        """Hashes of the records' uids."""
        if self.columns is not None:
            return self.columns.hashes
        return [text_hash(row.uid) for row in self.rows]

    def apply(self, tx: Transaction) -> RecordsAppended:
        """Accept what is new; another payload under a known uid becomes a dead letter."""
        accepted: list[RecordRow] = []
        new_traces: set[str] = set()
        duplicates: list[int] = []
        conflicts: list[int] = []
        for index, row in enumerate(self.rows):
            digest = tx.records.get((row.space, row.uid))
            if digest is None and tx.is_erased(row.space, row.uid):
                digest = row.digest  # what it said is not known any more: it is taken for the same
            if digest is None:
                tx.records[row.space, row.uid] = row.digest
                accepted.append(row)
                if row.trace_id is not None and tx.is_first_of_trace(row):
                    new_traces.add(row.trace_id)
            elif digest == row.digest:
                if not row.is_derived:  # nobody sent that again
                    tx.count(TotalName.DUPLICATES, row.space, label="record")
                duplicates.append(index)
            else:
                tx.add_letter(letter_of_conflict(row))
                conflicts.append(index)
        if accepted:
            tx.add_records(self._columns_of(accepted, tx))
        return RecordsAppended(
            seq=tx.seq,
            accepted=tuple(accepted),
            duplicates=tuple(duplicates),
            conflicts=tuple(conflicts),
            new_traces=frozenset(new_traces),
        )

    def _columns_of(self, rows: Sequence[RecordRow], tx: Transaction) -> RecordColumns:
        if self.columns is not None and len(rows) == len(self.columns.rows):
            return self.columns
        return record_columns(rows, tx.schemas)


@dataclass(slots=True, kw_only=True)
class EvaluationsJob(Job):
    """Evaluations with their task results."""

    rows: Sequence[EvaluationRow]
    columns: EvaluationColumns | None = None
    """The same, where they were made ahead of the commit."""

    @staticmethod
    def made_of(rows: Sequence[EvaluationRow], schemas: Mapping[str, Schema]) -> "EvaluationsJob":
        """Make the columns in the calling thread."""
        return EvaluationsJob(rows=rows, columns=_ahead(lambda: evaluation_columns(rows, schemas)))

    @property
    def size(self) -> int:
        """Number of evaluations and task results."""
        return sum(1 + len(row.tasks) for row in self.rows)

    @property
    def hashes(self) -> Sequence[int]:
        """Hashes of the uids of the evaluations' records."""
        if self.columns is not None:
            return self.columns.hashes
        return [text_hash(row.record_uid) for row in self.rows]

    def apply(self, tx: Transaction) -> int:
        """Add the evaluations that are not there yet."""
        rows = [row for row in self.rows if tx.is_new(row)]
        if rows:
            tx.add_evaluations(self._columns_of(rows, tx))
        return tx.seq

    def _columns_of(self, rows: Sequence[EvaluationRow], tx: Transaction) -> EvaluationColumns:
        if self.columns is not None and len(rows) == len(self.columns.rows):
            return self.columns
        return evaluation_columns(rows, tx.schemas)


@dataclass(slots=True, kw_only=True)
class LettersJob(RowsJob[DeadLetter]):
    """Dead letters."""

    def apply(self, tx: Transaction) -> int:
        """Add the letters that are not there yet."""
        for row in self.rows:
            tx.add_letter(row)
        return tx.seq


@dataclass(slots=True, kw_only=True)
class AlertsJob(RowsJob[AlertEvent]):
    """Changes of alert states."""

    def apply(self, tx: Transaction) -> int:
        """Add the events."""
        for row in self.rows:
            tx.add(
                "alert_events", tx.ordinal("alert_events"), row.space, row.profile_uid,
                row.state.value, row.at_ns, row.passed, row.total,
            )  # fmt: skip
        return tx.seq


@dataclass(slots=True, kw_only=True)
class ProfileJob(Job):
    """A registered profile."""

    row: ProfileRow
    size: int = 1

    def apply(self, tx: Transaction) -> int:
        """Add the registration."""
        row = self.row
        tx.add(
            "profiles", tx.ordinal("profiles"), row.space, row.uid, row.digest, row.name,
            row.alias, row.body, row.registered_ns, row.is_active,
        )  # fmt: skip
        return tx.seq


@dataclass(slots=True, kw_only=True)
class TotalsJob(Job):
    """Counts that no row stands behind."""

    deltas: Mapping[TotalKey, int]
    size: int = 1

    def apply(self, tx: Transaction) -> int:
        """Add the counts."""
        tx.deltas.update(self.deltas)
        return tx.seq


@dataclass(slots=True, kw_only=True)
class MaintenanceJob(Job):
    """Work on what is stored already, between two commits' worth of rows."""

    work: Callable[[Transaction], object]
    size: int = 1

    def apply(self, tx: Transaction) -> object:
        """Do the work inside the transaction."""
        return self.work(tx)
