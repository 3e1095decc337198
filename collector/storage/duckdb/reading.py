"""The questions of the port, each answered by a module of its own."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from collector.metrics import TotalName
from collector.storage.duckdb import read
from collector.storage.duckdb.dead_letters import (
    read_letters,
    read_refused_spans,
)
from collector.storage.duckdb.drift import (
    read_decided,
    read_deliveries_of,
    read_drift_alerts,
    read_drift_history,
    read_drift_states,
    read_last_deliveries,
    read_slices,
    read_version_results,
    read_whole,
)
from collector.storage.duckdb.evaluation_facets import read_evaluation_facets
from collector.storage.duckdb.evaluations import (
    read_evaluation,
    read_evaluations,
    read_versions,
)
from collector.storage.duckdb.judges import (
    read_calibrations,
    read_gold,
)
from collector.storage.duckdb.labels import read_label_counts, read_label_raters, read_labels
from collector.storage.duckdb.late import read_judged_traces, read_late_traces, read_stored_until
from collector.storage.duckdb.newest_results import read_newest_results
from collector.storage.duckdb.opened import Opened
from collector.storage.duckdb.outcomes import read_outcomes
from collector.storage.duckdb.pending import read_pending, read_pending_spaces
from collector.storage.duckdb.record_facets import read_record_facets
from collector.storage.duckdb.record_text import read_text_page
from collector.storage.duckdb.records import read_history, read_record_page
from collector.storage.duckdb.runs import read_run, read_runs
from collector.storage.duckdb.search import read_span_page
from collector.storage.duckdb.session_facets import read_session_facets
from collector.storage.duckdb.session_list import (
    read_session,
    read_session_traces,
    read_sessions,
)
from collector.storage.duckdb.session_text import read_session_text_page
from collector.storage.duckdb.sessions import (
    read_open_sessions,
    read_session_records,
    read_trace_records,
)
from collector.storage.duckdb.settle import superseded_sql
from collector.storage.duckdb.task_values import read_task_values
from collector.storage.duckdb.tasks import (
    read_extent,
    read_rate_lines,
    read_task_counts,
    read_task_series,
)
from collector.storage.duckdb.trace import read_trace
from collector.storage.duckdb.trace_facets import read_trace_facets
from collector.storage.duckdb.trace_search import read_trace_page
from collector.storage.duckdb.trace_steps import read_trace_steps
from collector.storage.duckdb.trace_text import read_trace_text_page
from collector.storage.duckdb.trace_totals import read_trace_totals
from collector.storage.duckdb.usage import read_usage
from collector.storage.duckdb.waiting import count_waiting, read_waiting, read_waiting_spaces
from collector.store.alerts import DriftDelivery, DriftEvent, DriftState
from collector.store.decided import DecidedQuery, VersionQuery
from collector.store.evaluation_queries import (
    EvaluationPage,
    EvaluationQuery,
    NewestResult,
    NewestResultsQuery,
    OutcomeRow,
    TaskValue,
    TaskValuesQuery,
    VersionRow,
)
from collector.store.facets import Facets
from collector.store.judges import CalibrationRow, GoldOutcome, GoldQuery
from collector.store.labels import LabelCount, LabelQuery, LabelRow
from collector.store.letters import (
    LetterQuery,
    StoredLetter,
)
from collector.store.record_queries import (
    RecordHistory,
    RecordPage,
    RecordQuery,
    SessionPage,
    SessionQuery,
    SessionSummary,
    TextPage,
)
from collector.store.rows import (
    FIRST_RESULT,
    START,
    AlertEvent,
    EvaluatedRecord,
    EvaluationRow,
    NewTrace,
    OpenSession,
    PendingEvaluation,
    PendingSpace,
    ProfileChange,
    ProfileRow,
    RecordPlace,
    RecordRow,
    ResultPlace,
    StoredTrace,
    TraceKey,
    WaitingRecord,
    WaitingSpace,
)
from collector.store.runs import RunRow
from collector.store.slices import SliceQuery
from collector.store.span_queries import SpanPage, SpanQuery, TracePage, TraceQuery, TraceTotals
from collector.store.task_counts import (
    Extent,
    RateLine,
    SeriesItem,
    SeriesQuery,
    TaskCounts,
    TaskQuery,
)
from collector.store.trace_summaries import Step
from collector.store.usage import UsagePage, UsageQuery
from scouter.drift.canary import Result
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import Observed, Place
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Span


class Reading(Opened):
    """Reads; any thread asks."""

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Read whole traces."""
        return read.read_spans(self._spans, space, trace_ids)

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the evaluations on its records."""
        return read_trace(self._spans, space, trace_id, limit)

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_span_page(self._spans, query)

    def traces(self, query: TraceQuery) -> TracePage:
        """List traces that meet all conditions."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_trace_page(self._spans, query)

    def search_traces(self, query: TraceQuery, text: str, is_over: Callable[[], bool]) -> TracePage:
        """List traces with a text in a span."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_trace_text_page(self._spans, query, text, is_over)

    def trace_facets(self, query: TraceQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count traces by the values of their spans."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_trace_facets(self._spans, query, is_over)

    def usage(self, query: UsageQuery) -> UsagePage:
        """Sum up the use of models, tools and agents."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_usage(self._database, query)

    def evaluations(self, query: EvaluationQuery) -> EvaluationPage:
        """List evaluations, newest first."""
        if query.as_of is None:  # or a revision that is stored meanwhile hides both
            query = replace(query, as_of=self.last_seq())
        return read_evaluations(self._database, query)

    def outcomes(self, query: EvaluationQuery) -> list[OutcomeRow]:
        """Outcomes of the newest evaluations, without any text."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_outcomes(self._database, query)

    def evaluation_facets(self, query: EvaluationQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count evaluations by value."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_evaluation_facets(self._database, query, is_over)

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """An evaluation by its id."""
        return read_evaluation(self._database, space, evaluation_id)

    def versions(self, space: str, profile: str) -> list[VersionRow]:
        """Versions of the service behind a profile's newest evaluations, the newest first."""
        return read_versions(self._database, space, profile)

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count outcomes per profile and task."""
        return read_task_counts(self._database, query)

    def extent(self, query: TaskQuery, few: int) -> Extent | None:
        """Find the time that has results."""
        return read_extent(self._database, query, few)

    def task_series(self, query: SeriesQuery) -> list[SeriesItem]:
        """Count outcomes per bucket, profile and task."""
        return read_task_series(self._database, query)

    def rate_lines(self, query: SeriesQuery) -> list[RateLine]:
        """Count outcomes per bucket as a line for each profile and task."""
        return read_rate_lines(self._database, query)

    def newest_results(self, query: NewestResultsQuery) -> list[NewestResult]:
        """The newest results of a task on records."""
        return read_newest_results(self._database, query)

    def task_values(self, query: TaskValuesQuery) -> list[TaskValue]:
        """Scores and durations of the newest results of a task."""
        return read_task_values(self._spans, query)

    def trace_steps(self, space: str, trace_ids: Collection[str]) -> dict[str, list[Step]]:
        """Tool calls and errors of traces, in the order in which they began."""
        return read_trace_steps(self._spans, space, trace_ids)

    def trace_totals(self, space: str, trace_ids: Collection[str]) -> dict[str, TraceTotals]:
        """Sum up time and tokens of traces."""
        return read_trace_totals(self._spans, space, trace_ids)

    def records(self, query: RecordQuery) -> RecordPage:
        """List accepted records, newest first."""
        return read_record_page(self._database, query)

    def record_facets(self, query: RecordQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count records by value."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_record_facets(self._database, query, is_over)

    def search_records(
        self, query: RecordQuery, text: str, is_over: Callable[[], bool]
    ) -> TextPage:
        """List records with a text in their context."""
        return read_text_page(self._database, query, text, is_over)

    def record_history(self, space: str, uid: str) -> RecordHistory | None:
        """A record and all that was decided about it."""
        return read_history(self._database, space, uid)

    def sessions(
        self, query: SessionQuery, is_over: Callable[[], bool] = lambda: False
    ) -> SessionPage:
        """List sessions, the one with the newest record first."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_sessions(self._spans, query, is_over)

    def search_sessions(
        self, query: SessionQuery, text: str, is_over: Callable[[], bool]
    ) -> SessionPage:
        """List sessions with a text in a record or a span."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_session_text_page(self._spans, query, text, is_over)

    def session_facets(self, query: SessionQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count sessions by value."""
        if query.as_of is None:
            query = replace(query, as_of=self.last_seq())
        return read_session_facets(self._database, query, is_over)

    def session(self, space: str, session_id: str) -> SessionSummary | None:
        """One session, counted."""
        return read_session(self._spans, space, session_id)

    def session_traces(self, space: str, session_id: str, limit: int) -> list[str]:
        """Traces of a session's records."""
        return read_session_traces(self._database, space, session_id, limit)

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

    def last_outcomes(
        self, space: str, profile_uid: str, count: int, since_ns: int = 0
    ) -> list[Outcome]:
        """Outcomes of a profile's last first evaluations since a time, oldest first."""
        return read.read_last_outcomes(self._database, space, profile_uid, count, since_ns)

    def waiting_records(self, limit: int, after: RecordPlace = START) -> list[WaitingRecord]:
        """Accepted records that nothing was decided about, by their places."""
        return read_waiting(self._database, after, limit)

    def pending_evaluations(
        self,
        limit: int,
        after: ResultPlace = FIRST_RESULT,
        profiles: Collection[str] | None = None,
        *,
        others: bool = False,
    ) -> list[PendingEvaluation]:
        """Latest evaluations of which some tasks are pending, by their places."""
        return read_pending(self._database, after, limit, profiles, others=others)

    def pending_spaces(self) -> list[PendingSpace]:
        """By space how many tasks wait for their judge, and the oldest evaluation."""
        return read_pending_spaces(self._database)

    def pending_count(self) -> int:
        """Number of pending tasks, of the latest evaluations only."""
        return sum(n for key, n in self.totals().items() if key.name is TotalName.PENDING)

    def waiting_spaces(self) -> list[WaitingSpace]:
        """By space how many records wait, and the oldest one."""
        return read_waiting_spaces(self._database)

    def waiting_count(self) -> int:
        """Number of records that `waiting_records` would list, in all."""
        return count_waiting(self._database)

    def evaluated_records(self, space: str, trace_ids: Iterable[str]) -> list[EvaluatedRecord]:
        """Records of these traces whose latest evaluation read spans, without contexts."""
        return read.read_evaluated(self._database, space, trace_ids)

    def records_of(self, space: str, uids: Iterable[str]) -> list[RecordRow]:
        """Accepted records by their uids."""
        return read.read_records(self._database, space, uids)

    def context_sizes(self, space: str, uids: Iterable[str]) -> dict[str, int]:
        """By uid the bytes of a record's context."""
        return read.read_context_sizes(self._database, space, uids)

    def latest_evaluations(
        self, keys: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], EvaluationRow]:
        """The latest evaluation by space and uid."""
        return read.read_latest(self._database, set(keys)) if keys else {}

    def results_after(
        self, place: ResultPlace, limit: int
    ) -> list[tuple[ResultPlace, EvaluationRow]]:
        """Evaluations behind a place, in the order of commits."""
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
        """Sessions with a record that their latest evaluation has not seen."""
        return read_open_sessions(self._database, profiles)

    def judged_traces(self, since_ns: int) -> Callable[[str], bool]:
        """A test for the traces of evaluations that read spans."""
        return read_judged_traces(self._database, since_ns)

    def late_traces(self, since_ns: int) -> list[TraceKey]:
        """Traces with spans that a latest evaluation has not seen."""
        return read_late_traces(self._database, since_ns)

    def stored_until_ns(self, seq: int) -> int | None:
        """Time at which the newest row of the commits up to `seq` was received or decided."""
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

    def gold_outcomes(self, query: GoldQuery) -> list[GoldOutcome]:
        """Outcomes of gold items."""
        return read_gold(self._database, query)

    def labels(self, query: LabelQuery) -> Sequence[LabelRow]:
        """Labels that count, the newest first."""
        return read_labels(self._database, query)

    def label_raters(self, space: str) -> Sequence[str]:
        """Names of people by their first use, each as it was spelt first."""
        return read_label_raters(self._database, space)

    def label_counts(self, space: str) -> Sequence[LabelCount]:
        """Count labels by task."""
        return read_label_counts(self._database, space)

    def runs(self, space: str) -> Sequence[RunRow]:
        """All runs of a space without their bodies, the newest first."""
        return read_runs(self._database, space)

    def run(self, space: str, run_id: str) -> RunRow | None:
        """A run with its body."""
        return read_run(self._database, space, run_id)

    def last_alert_events(self) -> list[AlertEvent]:
        """The latest event of every alert."""
        return read.read_last_alert_events(self._database)

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        return read_letters(self._database, query)

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> dict[str, str]:
        """Say which traces lack a span that was refused."""
        return read_refused_spans(self._database, space, trace_ids)

    def decided_after(
        self, place: Place, limit: int, within: DecidedQuery | None = None
    ) -> list[Observed]:
        """First final results behind a place, in the order of completion."""
        return read_decided(self._database, place, limit, within)

    def version_results(self, query: VersionQuery, limit: int) -> list[tuple[str, Result]]:
        """First final results of two versions, in the order of completion."""
        return read_version_results(self._database, query, limit)

    def drift_states(self) -> list[DriftState]:
        """The latest state under each name."""
        return read_drift_states(self._database)

    def drift_alerts(self, space: str | None = None) -> list[DriftEvent]:
        """The latest event of each alert, the newest first."""
        return read_drift_alerts(self._database, space)

    def drift_history(self, space: str, alert_id: str) -> list[DriftEvent]:
        """All events of one alert, the oldest first."""
        return read_drift_history(self._database, space, alert_id)

    def last_deliveries(self, channel: str) -> list[DriftDelivery]:
        """The latest step of a channel for each alert."""
        return read_last_deliveries(self._database, channel)

    def deliveries_of(self, space: str, alert_id: str) -> list[DriftDelivery]:
        """The latest step for each channel and state of an alert, the oldest first."""
        return read_deliveries_of(self._database, space, alert_id)

    def whole(self, query: SliceQuery) -> Slice:
        """Passes and fails of all results, before and since a moment."""
        return read_whole(self._database, query)

    def slices(self, query: SliceQuery) -> tuple[list[Slice], int]:
        """Passes and fails by tag, tool, model, agent, route and version."""
        return read_slices(self._database, query)
