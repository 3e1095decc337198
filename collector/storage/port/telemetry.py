"""Telemetry: spans and records as they come, what could not be used, and counts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from collector.metrics import TotalKey, Totals
from collector.storage.port.commits import CommittedStore
from collector.store.letters import (
    DeadLetter,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
)
from collector.store.rows import RecordRow, RecordsAppended, SettledRecord, SpansAppended
from scouter.model.span import Span
from scouter.transport.drops import Dropped


class TelemetryStore(CommittedStore, Protocol):
    """Append-only rows of everything that was received.

    Every append answers through a future, after the commit that made its rows durable. A batch is
    stored as a whole or (the future then raises) not at all. A write raises TransientError where a
    later try can work (disk full) and DataError where these rows can never be stored. A read raises
    `NoMemoryError` where it may work if it asks for less: fewer traces, fewer records.
    """

    def append_spans(
        self,
        space: str,
        spans: Sequence[Span],
        received_ns: int,
        *,
        wire: bytes | None = None,
        durable: "Future[None] | None" = None,
    ) -> "Future[SpansAppended]":
        """Store spans, each key (space, trace id, span id) once.

        Of two different spans with one key the one with the later end is kept, then the one with
        more bytes, then the one with the larger checksum: the order of arrival does not matter.

        Args:
            space: Their space.
            spans: The spans.
            received_ns: Time of arrival, nanoseconds since the epoch.
            wire: The OTLP request that they were decoded from, if it holds these in this order
                and nothing else; saves writing one.
            durable: Is done once the spans cannot be lost any more, which is before the commit.
                From then on a fault puts the commit off, but does not fail it.
        """
        ...

    def append_records(self, records: Sequence[RecordRow]) -> "Future[RecordsAppended]":
        """Accept records, each key (space, uid) once; another payload becomes a dead letter."""
        ...

    def settle_records(self, settled: Sequence[SettledRecord]) -> "Future[None]":
        """Write what traces told of accepted records: sessions, and contexts of derived ones.

        Of a record that was appended before this call and is stored.
        """
        ...

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Read whole traces as they are evaluated; a trace without spans is left out.

        Log events are among them, but for results of evaluators: `trace` has those.
        """
        ...

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Read accepted records back, in any order; a uid that was never accepted is left out.

        All of their contexts are in memory together: see `context_sizes`.
        """
        ...

    def context_sizes(self, space: str, uids: Iterable[str]) -> Mapping[str, int]:
        """By uid the bytes of a record's context as JSON; uids as for `records_of`."""
        ...

    def trace_records(self, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some traces, without contexts, in order of acceptance."""
        ...

    def session_records(
        self, space: str, session_ids: Iterable[str], limit: int
    ) -> list[RecordRow]:
        """Accepted records of some sessions, without contexts, in order of acceptance.

        A record without a session id is a session of its own, called by the record's uid. Records
        of every profile are listed.

        Args:
            space: Their space.
            session_ids: The sessions.
            limit: Records that are read at most; of more, any are given.
        """
        ...

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> dict[str, str]:
        """Say of traces that lack a span, as it was refused, why it was; of one span each."""
        ...

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> "Future[int]":
        """Put things aside; the same letter from the same place is kept once."""
        ...

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        ...

    def remove_dead_letters(
        self, space: str, letter_ids: Sequence[str]
    ) -> "Future[LettersRemoved]":
        """Take letters out, as what they hold was accepted after all.

        A letter that was the state of an accepted record leaves the record waiting.
        """
        ...

    def add_totals(self, deltas: Mapping[TotalKey, int]) -> "Future[int]":
        """Add to counts that no row stands behind, such as drops reported by senders."""
        ...

    def add_drops(self, space: str, dropped: Dropped, now_ns: int) -> "Future[int]":
        """Count what senders dropped, each drop once however often it is told.

        A sender without a name (`NOBODY`) cannot be known again: what it tells is added each time.
        Senders are forgotten a day after their last report, or once 10,000 others came behind
        them; of what they tell later, that which they know to be told is not added again.
        """
        ...

    def totals(self) -> Totals:
        """All counts as of the last commit."""
        ...
