"""Reading: listings, searches and counts for people."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from collector.storage.port.commits import CommittedStore
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
from collector.store.record_queries import (
    RecordHistory,
    RecordPage,
    RecordQuery,
    SessionPage,
    SessionQuery,
    SessionSummary,
    TextPage,
)
from collector.store.rows import EvaluationRow, StoredTrace
from collector.store.sheets import Conservation, RecordSheet
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


class ReadStore(CommittedStore, Protocol):
    """Answers as of a commit."""

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the latest evaluation on each of its records.

        Args:
            space: Its space.
            trace_id: The trace.
            limit: Evaluations that are read at most, superseded ones included; the newest ones.
        """
        ...

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first; of one commit, what began last."""
        ...

    def traces(self, query: TraceQuery) -> TracePage:
        """List traces that meet all conditions, once each, as their newest spans came.

        These are the spans that meet the first condition. Without `as_of` the listing is as of now.
        """
        ...

    def search_traces(self, query: TraceQuery, text: str, is_over: Callable[[], bool]) -> TracePage:
        """List traces that meet all conditions with a text in a span, as the newest such came.

        The text may be in a span's name or status, in the value of an attribute, in an event or a
        log event; of values that are JSON, in a name or a value inside.

        Args:
            query: The other conditions.
            text: Not empty; upper and lower case are the same.
            is_over: Asked between two parts; true ends the search there.
        """
        ...

    def trace_facets(self, query: TraceQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count what `traces` lists, by status, service, agent, tool, model and error of spans.

        And by profile, outcome, task and tag of the latest evaluations on their records.

        Args:
            query: The filter; its limit and its place are not looked at. Attributes that share the
                hash of one that is asked for count, too.
            is_over: Asked before each step, but the first, with how many times as many spans as
                the one before it the step looks at; true ends the search, once it has looked at a
                few.
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

    def outcomes(self, query: EvaluationQuery) -> list[OutcomeRow]:
        """Outcomes of the newest evaluations that `evaluations` lists, `limit` of them at most.

        Without `as_of` they are as of now.
        """
        ...

    def evaluation_facets(self, query: EvaluationQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count what `evaluations` lists, by outcome, profile, task, service and tag.

        A value's count is the length of the list that it leaves where it joins the filter.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: As of `trace_facets`.
        """
        ...

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """An evaluation by its id, be it the latest of its record or not."""
        ...

    def versions(self, space: str, profile: str) -> list[VersionRow]:
        """Versions of the service behind a profile's 20,000 newest evaluations.

        Args:
            space: Whose.
            profile: Alias, name, uid or digest.

        Returns:
            The one that was evaluated first last comes first; an evaluation of which nothing tells
            the version is in none.
        """
        ...

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count outcomes per profile and task, latest revisions only, sorted by alias and task."""
        ...

    def extent(self, query: TaskQuery, few: int) -> Extent | None:
        """The time that has the results which `task_counts` counts; None without any.

        Args:
            query: The results.
            few: Up to so many, the time of the first one is exact.
        """
        ...

    def task_series(self, query: SeriesQuery) -> list[SeriesItem]:
        """Count outcomes per bucket, profile and task, latest revisions only.

        Sorted by time, alias and task; a bucket without any result is left out.
        """
        ...

    def rate_lines(self, query: SeriesQuery) -> list[RateLine]:
        """Count as `task_series` does, without scores: a line for each profile and task."""
        ...

    def newest_results(self, query: NewestResultsQuery) -> list[NewestResult]:
        """The newest results of a task on records, latest revisions only, newest first.

        Results that are left out, as another revision took their place or they are on a session,
        count against the limit.
        """
        ...

    def task_values(self, query: TaskValuesQuery) -> list[TaskValue]:
        """Scores and durations of the newest results of a task, latest revisions only."""
        ...

    def trace_steps(self, space: str, trace_ids: Collection[str]) -> Mapping[str, list[Step]]:
        """Tool calls and errors of traces, in the order of their beginning; the first 200 of each.

        A trace without any is left out.
        """
        ...

    def trace_totals(self, space: str, trace_ids: Collection[str]) -> Mapping[str, TraceTotals]:
        """Time and tokens of traces, over all of their spans; one without any is left out."""
        ...

    def records(self, query: RecordQuery) -> RecordPage:
        """List accepted records, newest first, each with its state."""
        ...

    def record_facets(self, query: RecordQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count what `records` lists, by profile and state.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: As of `trace_facets`.
        """
        ...

    def search_records(
        self, query: RecordQuery, text: str, is_over: Callable[[], bool]
    ) -> TextPage:
        """List accepted records whose context has a text in a value or a name, newest first.

        Args:
            query: The other filters.
            text: Not empty; upper and lower case are the same.
            is_over: Asked between two parts; true ends the search there.
        """
        ...

    def record_history(self, space: str, uid: str) -> RecordHistory | None:
        """A record and all that was decided about it; None if it is not, or no longer, stored."""
        ...

    def sessions(
        self, query: SessionQuery, is_over: Callable[[], bool] = lambda: False
    ) -> SessionPage:
        """List sessions, the one with the newest record that is asked for first.

        A record without a session id is a session of its own, called by the record's uid. Without
        `as_of` the listing is as of now.

        Args:
            query: The filter.
            is_over: Asked between two parts; true ends a search by a condition on whole sessions
                there.
        """
        ...

    def search_sessions(
        self, query: SessionQuery, text: str, is_over: Callable[[], bool]
    ) -> SessionPage:
        """List sessions, the one with the newest record first that has a text and is asked for.

        The text may be in the record's context, as of `search_records`, or in a span of its trace,
        as of `search_traces`. Without `as_of` the listing is as of now.

        Args:
            query: The other filters.
            text: Not empty; upper and lower case are the same.
            is_over: Asked between two parts; true ends the search there.
        """
        ...

    def session_facets(self, query: SessionQuery, is_over: Callable[[float], bool]) -> Facets:
        """Count what `sessions` lists, by profile, outcome, task, tag, tool and model.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: As of `trace_facets`.
        """
        ...

    def session(self, space: str, session_id: str) -> SessionSummary | None:
        """One session; None without any record of it."""
        ...

    def session_traces(self, space: str, session_id: str, limit: int) -> list[str]:
        """Traces of a session's records, in the order in which their first records came."""
        ...

    def record_sheet(self, space: str) -> RecordSheet:
        """The records' part of `conservation`, which looks at no spans."""
        ...

    def conservation(self, space: str) -> Conservation:
        """Count states from the tables, beside what was counted at acceptance.

        A span is `late` while the latest evaluation on a record of its trace, or on that record's
        session, has not seen it: its commit came after that evaluation's `input_seq`.
        """
        ...
