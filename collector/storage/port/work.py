"""Work: waiting records, open sessions, late spans, and the evaluations on them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from collector.storage.port.telemetry import TelemetryStore
from collector.store.rows import (
    FIRST_RESULT,
    START,
    EvaluatedRecord,
    EvaluationRow,
    NewTrace,
    OpenSession,
    PendingEvaluation,
    PendingSpace,
    RecordPlace,
    ResultPlace,
    TraceKey,
    WaitingRecord,
    WaitingSpace,
)


class WorkStore(TelemetryStore, Protocol):
    """Lists of what is to be done, of all spaces, and the evaluations that come of it."""

    def append_evaluations(self, evaluations: Sequence[EvaluationRow]) -> "Future[int]":
        """Store evaluations with their task results and totals; returns the commit's number.

        An evaluation that is there already (same record and revision) is passed over and not
        counted. Revision n + 1 of a record takes the place of revision n in listings, counts and
        sheets. An evaluation on a session is treated as one on a record, but is no record's state.
        `TotalName.TASKS`, `RECORDS` and `SESSIONS` count first evaluations only; every task whose
        outcome a revision changed adds to `TotalName.REVISIONS`, in the same commit. Pending tasks
        are in no count that rates are read from.
        """
        ...

    def latest_evaluations(
        self, keys: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], EvaluationRow]:
        """The latest evaluation by space and uid; a key without one is left out."""
        ...

    def evaluated_records(self, space: str, trace_ids: Iterable[str]) -> list[EvaluatedRecord]:
        """Records of these traces whose latest evaluation read spans, without contexts.

        In order of acceptance; used to evaluate again when spans come later than the evaluation.
        """
        ...

    def results_after(
        self, place: ResultPlace, limit: int
    ) -> list[tuple[ResultPlace, EvaluationRow]]:
        """Evaluations of all spaces in the order in which they became durable, every revision.

        A place is never given again, and nothing comes to lie before one that was read: who keeps
        the last place and goes on behind it reads every evaluation once.

        Args:
            place: Only those behind it.
            limit: So many at most.
        """
        ...

    def waiting_records(self, limit: int, after: RecordPlace = START) -> list[WaitingRecord]:
        """Accepted records without an evaluation and without a dead letter, in order of acceptance.

        Args:
            limit: So many at most.
            after: Only those behind this place.
        """
        ...

    def waiting_spaces(self) -> list[WaitingSpace]:
        """The spaces of the records that `waiting_records` would list, each with its oldest."""
        ...

    def waiting_count(self) -> int:
        """Number of records that `waiting_records` would list, in all."""
        ...

    def pending_evaluations(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingEvaluation]:
        """Latest evaluations of which some tasks are pending, in the order of `results_after`.

        Args:
            limit: So many at most.
            after: Only those behind this place.
            profiles: Uids of the profiles that made them; all if not given.
            others: Of all profiles but these.
        """
        ...

    def pending_spaces(self) -> list[PendingSpace]:
        """The spaces with pending tasks, by name; of the latest evaluations only."""
        ...

    def pending_count(self) -> int:
        """Number of pending tasks of all spaces, of the latest evaluations only."""
        ...

    def open_sessions(self, profiles: Collection[tuple[str, str]]) -> list[OpenSession]:
        """Sessions with a record whose commit came after the `input_seq` of all their evaluations.

        Args:
            profiles: Space and uid of the profiles to look at.
        """
        ...

    def new_traces(self, after: int) -> list[NewTrace]:
        """Traces of all spaces with spans that came behind a commit, by their last commits."""
        ...

    def superseded_records(self) -> list[tuple[str, str]]:
        """Space and uid of derived records whose trace has a sender's record of the same alias."""
        ...

    def judged_traces(self, since_ns: int) -> Callable[[str], bool]:
        """Traces of evaluations that read spans and were made from `since_ns` on.

        Those of an evaluation on a session are the traces of its records.

        Returns:
            A test that is true of the ids of these traces. It may be true of a few others, and
            takes a few megabytes however many they are; space is not looked at.
        """
        ...

    def late_traces(self, since_ns: int) -> list[TraceKey]:
        """Traces with spans that the latest evaluation on a record or session has not seen.

        Only evaluations made from `since_ns` on count.
        """
        ...

    def stored_until_ns(self, seq: int) -> int | None:
        """Time at which the newest row of the commits up to `seq` was received or decided.

        None if these commits stored nothing.
        """
        ...
