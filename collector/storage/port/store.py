"""The port between the collector and whatever keeps its data."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from collector.metrics import TotalKey, Totals
from collector.storage.duckdb.known_keys import SeenFilter, TraceKey
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
from collector.storage.port.drift import DriftStore
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
from collector.storage.port.search import SpanPage, SpanQuery, TracePage, UsagePage, UsageQuery
from scouter.errors import TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Span
from scouter.transport.drops import Dropped


class NoMemoryError(TransientError):
    """A read needs more memory than is free; one that asks for less may find it."""


class TooLargeError(NoMemoryError):
    """A read asks for more than is ever read at once; to ask for the same again is useless."""


MOST_SPANS: Final = 100_000
"""Spans that are read at once: about 200 MB in memory."""
MOST_SPAN_BYTES: Final = 64 * 2**20
"""The same in bytes, as they are stored."""


class Store(DriftStore, Protocol):
    """Append-only tables of everything that was received and decided.

    Every append answers through a future, after the commit that made its rows durable; commits are
    numbered without gaps in time, and callbacks of futures run in commit order. A batch is stored
    as a whole or (the future then raises) not at all. Reads see every commit whose future is done,
    from any thread. A write raises TransientError where a later try can work (disk full) and
    DataError where these rows can never be stored. A read raises `NoMemoryError` where it may work
    if it asks for less: fewer traces, fewer records.
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
            space: Where they belong.
            spans: The spans.
            received_ns: When they came.
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

    def append_evaluations(self, evaluations: Sequence[EvaluationRow]) -> "Future[int]":
        """Store verdicts with their task results and totals; returns the commit's number.

        A verdict that is there already (same record and revision) is passed over and not counted.
        Revision n + 1 of a record takes the place of revision n in listings, counts and sheets.
        A verdict on a session is treated as one on a record, but is no record's state.
        `TotalName.TASKS`, `RECORDS` and `SESSIONS` count first verdicts only; every task whose
        outcome a revision changed adds to `TotalName.REVISIONS`, in the same commit. Pending tasks
        are in no count that rates are read from.
        """
        ...

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> "Future[int]":
        """Put things aside; the same letter from the same place is kept once."""
        ...

    def remove_dead_letters(
        self, space: str, letter_ids: Sequence[str]
    ) -> "Future[LettersRemoved]":
        """Take letters out, as what they hold was accepted after all.

        A letter that was the state of an accepted record leaves the record waiting.
        """
        ...

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names, and what was made of it; no read sees it then.

        Everything that was durable before this call goes. A trace goes with the last of its
        records. A verdict that stays, although it has read something that goes, keeps its outcomes
        and loses its texts. What comes again later is a duplicate, whatever it says.
        `TotalName.ERASED` counts records and spans; other counts stay, rates lose the verdicts.
        """
        ...

    def append_alert_events(self, events: Sequence[AlertEvent]) -> "Future[int]":
        """Keep changes of alert states."""
        ...

    def append_calibrations(self, calibrations: Sequence[CalibrationRow]) -> "Future[int]":
        """Keep what is known of judges; the same digest again changes nothing."""
        ...

    def append_gold_verdicts(self, verdicts: Sequence[GoldVerdict]) -> "Future[int]":
        """Keep verdicts on gold items; they are about no record, and no count has them."""
        ...

    def append_profile(self, profile: ProfileRow) -> "Future[int]":
        """Register a profile, or its newer body.

        `is_active` makes it its alias' active one; without, it is not, and others stay as they are.
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

    def catch_up(self, timeout_s: float = 2.0, *, trace_id: str | None = None) -> bool:
        """Wait until reads see every span that was durable before this call.

        Args:
            timeout_s: At most so long.
            trace_id: Only spans of this trace matter; mostly there is nothing to wait for then.

        Returns:
            False if they do not after that time, or if the store takes nothing now.
        """
        ...

    def totals(self) -> Totals:
        """All counts as of the last commit."""
        ...

    def fault(self) -> str:
        """Why the last commit failed for now; empty if it did not."""
        ...

    def last_seq(self) -> int:
        """Number of the last commit."""
        ...

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Read whole traces as they are judged; a trace without spans is left out.

        Log events are among them, but for results of evaluators: `trace` has those.
        """
        ...

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the latest verdict on each of its records.

        Args:
            space: Where it belongs.
            trace_id: The trace.
            limit: Verdicts that are read at most, superseded ones included; the newest ones.
        """
        ...

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first; of one commit, what began last."""
        ...

    def traces(self, query: SpanQuery) -> TracePage:
        """List traces that have a matching span, once each, in the order of the newest ones.

        Without `as_of` the listing is as of now.
        """
        ...

    def usage(self, query: UsageQuery) -> UsagePage:
        """Sum up the use of models, tools and agents, those with the most calls first.

        Without `as_of` the sums are as of now.
        """
        ...

    def evaluations(self, query: EvaluationQuery) -> EvaluationPage:
        """List evaluations, newest first, each record's latest revision only.

        Without `as_of` the listing is as of now.
        """
        ...

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count outcomes per profile and task, latest revisions only, sorted by alias and task."""
        ...

    def task_series(self, query: SeriesQuery) -> list[SeriesItem]:
        """Count outcomes per bucket, profile and task, latest revisions only.

        Sorted by time, alias and task; a bucket without any result is left out.
        """
        ...

    def last_outcomes(self, space: str, profile_uid: str, count: int) -> list[Outcome]:
        """Outcomes of a profile's last `count` first verdicts, oldest first.

        The first verdict on a record is its first one that is not pending. It is left out if a
        judge was not asked, for its budget or its sample.
        """
        ...

    def records(self, query: RecordQuery) -> RecordPage:
        """List accepted records, newest first, each with its state."""
        ...

    def record_history(self, space: str, uid: str) -> RecordHistory | None:
        """A record and all that was decided about it; None if it is not, or no longer, stored."""
        ...

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """A verdict by its id, be it the latest of its record or not."""
        ...

    def sessions(self, query: SessionQuery) -> SessionPage:
        """List sessions, the one with the newest record that is asked for first.

        A record without a session id is a session of its own, called by the record's uid. Without
        `as_of` the listing is as of now.
        """
        ...

    def session(self, space: str, session_id: str) -> SessionSummary | None:
        """One session; None without any record of it."""
        ...

    def session_traces(self, space: str, session_id: str, limit: int) -> list[str]:
        """Traces of a session's records, in the order in which their first records came."""
        ...

    def waiting_records(self, limit: int, after: RecordPlace = START) -> list[WaitingRecord]:
        """Accepted records without a verdict and without a dead letter, in order of acceptance.

        Args:
            limit: So many at most.
            after: Only those behind this place.
        """
        ...

    def pending_verdicts(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingVerdict]:
        """Latest verdicts of which some tasks are pending, in the order of `results_after`.

        Args:
            limit: So many at most.
            after: Only those behind this place.
            profiles: Uids of the profiles that made them; all if not given.
            others: Of all profiles but these.
        """
        ...

    def pending_count(self) -> int:
        """How many tasks are pending, in all spaces, latest verdicts only."""
        ...

    def waiting_count(self) -> int:
        """How many `waiting_records` would list, in all."""
        ...

    def evaluated_records(self, space: str, trace_ids: Iterable[str]) -> list[EvaluatedRecord]:
        """Records of these traces whose latest verdict read spans, without contexts.

        In order of acceptance; used to judge again when spans come later than the verdict.
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

    def latest_verdicts(
        self, keys: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], EvaluationRow]:
        """The latest verdict by space and uid; a key without one is left out."""
        ...

    def verdicts_of_ids(
        self, space: str, record_ids: Collection[str], limit: int
    ) -> tuple[EvaluationRow, ...] | None:
        """The latest verdict on each record that bears one of some ids, in any order.

        Args:
            space: Where they belong.
            record_ids: The users' names for records; any number of records may bear one.
            limit: Verdicts that are read at most, superseded ones included.

        Returns:
            None where there are more.
        """
        ...

    def results_after(
        self, place: ResultPlace, limit: int
    ) -> list[tuple[ResultPlace, EvaluationRow]]:
        """Verdicts of all spaces in the order in which they became durable, every revision.

        A place is never given again, and nothing comes to lie before one that was read: who keeps
        the last place and goes on behind it reads every verdict once.

        Args:
            place: Only those behind it.
            limit: So many at most.
        """
        ...

    def session_records(
        self, space: str, session_ids: Iterable[str], limit: int
    ) -> list[RecordRow]:
        """Accepted records of some sessions, without contexts, in order of acceptance.

        A record without a session id is a session of its own, called by the record's uid. Records
        of every profile are listed.

        Args:
            space: Where they belong.
            session_ids: The sessions.
            limit: Records that are read at most; of more, any are given.
        """
        ...

    def new_traces(self, after: int) -> list[NewTrace]:
        """Traces of all spaces with spans that came behind a commit, by their last commits."""
        ...

    def superseded_records(self) -> list[tuple[str, str]]:
        """Space and uid of derived records whose trace has a sender's record of the same alias."""
        ...

    def trace_records(self, space: str, trace_ids: Iterable[str]) -> list[RecordRow]:
        """Accepted records of some traces, without contexts, in order of acceptance."""
        ...

    def open_sessions(self, profiles: Collection[tuple[str, str]]) -> list[OpenSession]:
        """Sessions with a record whose commit came after the `input_seq` of all their verdicts.

        Args:
            profiles: Space and uid of the profiles to look at.
        """
        ...

    def judged_traces(self, since_ns: int) -> SeenFilter:
        """Traces of verdicts that read spans and were made from `since_ns` on.

        Those of a verdict on a session are the traces of its records.

        Returns:
            A filter of their `trace_hash`.
        """
        ...

    def late_traces(self, since_ns: int) -> list[TraceKey]:
        """Traces with spans that the latest verdict on a record or session has not seen.

        Only verdicts made from `since_ns` on count.
        """
        ...

    def stored_until_ns(self, seq: int) -> int | None:
        """When the newest came or was decided of what commits up to this one stored, if any did."""
        ...

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles with their latest body, in order of registration."""
        ...

    def profile_changes(self) -> list[ProfileChange]:
        """Everything that became of profiles, in order."""
        ...

    def calibrations(self) -> list[CalibrationRow]:
        """All calibrations, each digest once, in the order in which they came."""
        ...

    def gold_verdicts(self, query: GoldQuery) -> list[GoldVerdict]:
        """Verdicts on gold items by one judge, by slot; of two on one slot the first."""
        ...

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert."""
        ...

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        ...

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> dict[str, str]:
        """Say of traces that lack a span, as it was refused, why it was; of one span each."""
        ...

    def conservation(self, space: str) -> Conservation:
        """Count states from the tables, beside what was counted at acceptance.

        A span is `late` while the latest verdict on a record of its trace, or on that record's
        session, has not seen it: its commit came after that verdict's `input_seq`.
        """
        ...

    def close(self) -> None:
        """Commit what was appended, then close; later calls raise TransientError."""
        ...
