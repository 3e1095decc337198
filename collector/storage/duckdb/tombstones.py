"""Hashes of what was erased, so that a re-delivery does not bring it back."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.stored_keys import text_hash
from collector.storage.log.span_codec import trace_hash
from scouter.model.log_event import is_log_event
from scouter.model.span import Span


class ErasedKind(StrEnum):
    """Kind of thing that was erased; its hash is kept."""

    RECORD = "record"
    """A record; the hash is that of its uid."""
    TRACE = "trace"
    """A whole trace; none of its spans is accepted any more."""
    SPAN = "span"
    """One span of a trace that stays."""


Tombstone = tuple[ErasedKind, str, int]
"""Kind, space and hash."""


def record_tombstone(space: str, uid: str) -> Tombstone:
    """Make the mark that keeps an erased record from coming back."""
    return ErasedKind.RECORD, space, text_hash(uid)


def trace_tombstone(space: str, trace_id: str) -> Tombstone:
    """Make the mark that keeps the spans of an erased trace from coming back."""
    return ErasedKind.TRACE, space, trace_hash(trace_id)


def span_tombstone(space: str, trace_id: str, span_id: str) -> Tombstone:
    """Make the mark that keeps one erased span from coming back."""
    return ErasedKind.SPAN, space, text_hash(trace_id + span_id)


def _of_span(space: str, span: Span) -> Iterator[Tombstone]:
    """The part of a span that may stay; a log event goes with the span that it belongs to."""
    yield span_tombstone(space, span.trace_id, span.span_id)
    if is_log_event(span) and span.parent_span_id:
        yield span_tombstone(space, span.trace_id, span.parent_span_id)


class Tombstones:
    """All of them, in memory: about 200 bytes for each record or trace that was ever erased.

    The thread that commits adds; any thread asks.

    Args:
        database: Has those of earlier processes.
    """

    def __init__(self, database: Database) -> None:
        rows = database.read("SELECT kind, space, key_hash FROM erased")
        self._known = {(ErasedKind(kind), space, number) for kind, space, number in rows}
        self._has_spans = any(kind is ErasedKind.SPAN for kind, _, _ in self._known)

    def add_all(self, tombstones: Iterable[Tombstone]) -> None:
        """Remember what is erased for good."""
        for each in tombstones:
            self._known.add(each)
            self._has_spans = self._has_spans or each[0] is ErasedKind.SPAN

    def __bool__(self) -> bool:
        return bool(self._known)

    def __contains__(self, tombstone: Tombstone) -> bool:
        return tombstone in self._known

    def has_record(self, space: str, uid: str) -> bool:
        """Say whether a record was erased."""
        return bool(self._known) and record_tombstone(space, uid) in self._known

    def kept(
        self,
        space: str,
        spans: Sequence[Span],
        traces: Iterable[str],
        also: Collection[Tombstone] = (),
    ) -> list[int] | None:
        """Say which spans of a batch were not erased.

        Args:
            space: Space of the spans.
            spans: The batch.
            traces: All of its trace ids.
            also: Marks of an erasure in the same commit.

        Returns:
            Their positions; None if that is all of them.
        """
        if not self._known and not also:
            return None

        def is_known(tombstone: Tombstone) -> bool:
            return tombstone in self._known or tombstone in also

        gone = {each for each in traces if is_known(trace_tombstone(space, each))}
        has_spans = self._has_spans or any(kind is ErasedKind.SPAN for kind, _, _ in also)
        if not gone and not has_spans:
            return None
        kept = [
            at
            for at, span in enumerate(spans)
            if span.trace_id not in gone
            and not (has_spans and any(map(is_known, _of_span(space, span))))
        ]
        return None if len(kept) == len(spans) else kept
