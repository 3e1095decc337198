"""Either database of the store with appends as its contract writes them: what the worker does.

Each append is a commit of its own and its future is done: contracts that say `.result()` read as
they would with a store that another thread writes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

from collector.fleet.schema import DAY_NS
from collector.fleet.share import Share
from collector.fleet.store import FleetStore
from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit, RecordId, SpanId
from collector.store.file_store import FileStore
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow
from collector.store.store import Store
from collector.store.totals import span_label
from collector.worker.letters import letter_of_conflict
from scouter.model.log_event import is_log_event
from scouter.model.span import Span
from tests.support.store_commits import best_of, body_of, rank, row_of
from tests.support.store_engines import PostgresqlStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpansAppended:
    """Result of storing a batch of spans."""

    space: str
    seq: int
    stored: tuple[Span, ...]
    """The spans that are new, or better than what was there."""
    stored_bytes: int
    """Size of the stored spans, as they are stored."""
    duplicates: int
    known_traces: frozenset[str]
    """Traces of the batch that already had spans in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAppended:
    """Result of storing a batch of records; duplicates and conflicts are positions in the batch."""

    seq: int
    accepted: tuple[RecordRow, ...]
    duplicates: tuple[int, ...]
    conflicts: tuple[int, ...]


def _done(action: Callable[[], T]) -> "Future[T]":
    future: Future[T] = Future()
    try:
        future.set_result(action())
    except Exception as error:  # noqa: BLE001 it is raised by `result`
        future.set_exception(error)
    return future


class Appends(Store):
    """Appends for contracts; a subclass has `commit`."""

    def commit(self, rows: Commit) -> int:
        """Store rows."""
        raise NotImplementedError

    def appending(self) -> AbstractContextManager[None]:
        """Nobody else appends."""
        return self.alone()

    def append_spans(
        self, space: str, spans: Sequence[Span], received_ns: int
    ) -> "Future[SpansAppended]":
        """Store spans, each key once, the better one of two."""
        return _done(lambda: self._append_spans(space, spans, received_ns))

    def _append_spans(self, space: str, spans: Sequence[Span], received_ns: int) -> SpansAppended:
        with self.appending():
            known = self.stored_spans(space, {span.trace_id for span in spans})
            best = best_of(spans)
            fresh = [
                span
                for (trace_id, span_id), span in best.items()
                if span_id not in known.get(trace_id, {}) or rank(span) > known[trace_id][span_id]
            ]
            replaced = [
                SpanId(space, span.trace_id, span.span_id)
                for span in fresh
                if span.span_id in known.get(span.trace_id, {})
            ]
            by_trace: dict[str, list[Span]] = {}
            again = Counter[TotalKey]()
            for span in fresh:
                by_trace.setdefault(span.trace_id, []).append(span)
            for span in spans:
                is_new = best[
                    span.trace_id, span.span_id
                ] is span and span.span_id not in known.get(span.trace_id, {})
                if not is_new:
                    label = span_label(is_event=is_log_event(span))
                    again[TotalKey(TotalName.DUPLICATES, space, label=label)] += 1
            rows = [row_of(space, span, received_ns) for span in fresh]
            seq = self.commit(
                Commit(
                    spans=rows, bodies=[body_of(space, each) for each in by_trace.values()],
                    replaced=replaced, totals=again,
                )
            )  # fmt: skip
        return SpansAppended(
            space=space, seq=seq, stored=tuple(fresh),
            stored_bytes=sum(row.size_bytes for row in rows),
            duplicates=len(spans) - len(fresh) + len(replaced), known_traces=frozenset(known),
        )  # fmt: skip

    def append_records(self, records: Sequence[RecordRow]) -> "Future[RecordsAppended]":
        """Accept records, each key once; another payload becomes a letter."""
        return _done(lambda: self._append_records(records))

    def _append_records(self, records: Sequence[RecordRow]) -> RecordsAppended:
        accepted: list[RecordRow] = []
        duplicates: list[int] = []
        conflicts: list[int] = []
        with self.appending():
            spaces = {row.space for row in records}
            digests = {
                RecordId(space, uid): digest
                for space in spaces
                for uid, digest in self.stored_records(
                    space, [row.uid for row in records if row.space == space]
                ).items()
            }
            again = Counter[TotalKey]()
            for at, row in enumerate(records):
                digest = digests.setdefault(RecordId(row.space, row.uid), row.digest)
                is_new = digest == row.digest and not any(
                    (row.space, row.uid) == (each.space, each.uid) for each in accepted
                )
                if digest != row.digest:
                    conflicts.append(at)
                elif is_new and not self.stored_records(row.space, [row.uid]):
                    accepted.append(row)
                else:
                    duplicates.append(at)
                    again[TotalKey(TotalName.DUPLICATES, row.space, label="record")] += 1
            letters = [letter_of_conflict(records[at]) for at in conflicts]
            seq = self.commit(Commit(records=accepted, letters=letters, totals=again))
        return RecordsAppended(
            seq=seq, accepted=tuple(accepted), duplicates=tuple(duplicates),
            conflicts=tuple(conflicts),
        )  # fmt: skip

    def append_evaluations(self, evaluations: Sequence[EvaluationRow]) -> "Future[int]":
        """Store evaluations with their results."""
        return _done(lambda: self.commit(Commit(evaluations=list(evaluations))))

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> "Future[int]":
        """Put things aside."""
        return _done(lambda: self.commit(Commit(letters=list(letters))))

    def catch_up(self) -> bool:
        """True: what was appended is stored."""
        return True

    def add_totals(self, deltas: Mapping[TotalKey, int]) -> "Future[int]":
        """Add to counts that no row stands behind."""
        return _done(lambda: self.commit(Commit(totals=deltas)))


class AppendingStore(Appends, FileStore):
    """The store on DuckDB."""

    unit: Final = 1
    """Nanoseconds of the shortest time that retention tells apart."""

    def commit(self, rows: Commit) -> int:
        """Store rows."""
        return FileStore.commit(self, rows)


class AppendingPostgresql(Appends, PostgresqlStore):
    """The store of a fleet, with one partition."""

    unit: Final = DAY_NS
    """Nanoseconds of the shortest time that retention tells apart."""

    def commit(self, rows: Commit) -> int:
        """Store rows."""
        return PostgresqlStore.commit(self, rows)

    def appending(self) -> AbstractContextManager[None]:
        """Nobody else appends."""
        return PostgresqlStore.appending(self)


class AppendingShare(Appends, Share):
    """The one partition of a fleet, as its owner sees it."""

    unit: Final = DAY_NS
    """Nanoseconds of the shortest time that retention tells apart."""

    def __init__(self, url: str) -> None:
        fleet = FleetStore(url)
        fleet.fix_partitions(1)
        vars(self).update(vars(fleet.take(0, "contract")))

    def commit(self, rows: Commit) -> int:
        """Store rows."""
        return Share.commit(self, rows)

    def close(self) -> None:
        """Close the fleet's store, too."""
        super().close()
        self.whole.close()
