"""Traces: listed by what their spans are like, and one with all its spans and evaluations."""

import time
from dataclasses import replace
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from collector.api import models
from collector.api.answers import json_response, match_answer
from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    NOT_FOUND,
    SEARCH_S,
    Limit,
    Reader,
    caught_up_router,
    read_trace_id,
)
from collector.api.parts import TheJudges, TheNames, TheStore
from collector.api.span_search import check_judged, trace_query, write_span_cursor
from collector.items.times import format_time
from collector.problem import ProblemError
from collector.store import span_queries
from collector.store.rows import EvaluationRow, StoredTrace, TaskRow
from collector.store.span_queries import TraceQuery, TraceSummary
from collector.store.store import Store
from scouter.client.models.text_match import TextMatch
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.trace_view import ResultView, TraceView, view_trace
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.evaluation_event import ForeignResult, foreign_results
from scouter.model.otlp_json import spans_to_flat_json

_TRACE_ID: Final = "^[0-9A-Fa-f]{32}$"
MOST_EVALUATIONS: Final = 1000
_SEARCHED_NS: Final = 24 * 3600 * 10**9
"""Time that a search for a text looks at where none is given."""
_VIEWS: Final = TypeAdapter(TraceView)
TraceId = Annotated[
    str, Path(description="32 hex digits.", json_schema_extra={"pattern": _TRACE_ID})
]


class ForeignResultItem(BaseModel):
    """Another evaluator's result for a span; null or empty where it does not say."""

    model_config = ConfigDict(frozen=True)

    span_id: str
    time: str
    name: str = Field(description="Of what was evaluated.")
    score: float | None
    label: str
    explanation: str
    response_id: str
    error: str = Field(description="Why there is no result.")


class Trace(BaseModel):
    """A trace with all of its spans and the evaluations of its records."""

    model_config = ConfigDict(frozen=True)

    trace_id: str
    spans: list[dict[str, JsonValue]] = Field(
        description="With OTLP-JSON field names, by start time."
    )
    spanless_events: list[dict[str, JsonValue]] = Field(
        description="Log events whose span is not stored, each as a span below it, by time."
    )
    evaluations: list[models.Evaluation] = Field(
        description=f"The {MOST_EVALUATIONS} newest at most, each record once."
    )
    foreign_results: list[ForeignResultItem] = Field(
        description="Events `gen_ai.evaluation.result` of its spans that are not ours, by time."
    )


class TraceTree(BaseModel):
    """A trace as people read it, and the evaluations of its records."""

    model_config = ConfigDict(frozen=True)

    trace_id: str
    view: TraceView = Field(description="Its spans as a tree, as far as `limit` goes.")
    evaluations: list[models.Evaluation] = Field(
        description=f"The {MOST_EVALUATIONS} newest at most, each record once."
    )


class TraceItem(BaseModel):
    """A trace, counted over all of its spans."""

    model_config = ConfigDict(frozen=True)

    trace_id: str
    name: str = Field(description="Of the root; without one, of the span that began first.")
    service_name: str
    service_version: str
    start: str
    duration_ms: float
    spans: int
    errors: int = Field(description="Spans with the status error.")
    input_tokens: int | None = Field(description="Of its model calls.")
    output_tokens: int | None
    tools: list[str] = Field(
        description="Of its first 200 calls, each once, in the order of their first calls."
    )
    records: int = Field(description="Evaluated ones.")
    uid: str | None = Field(description="Of the record that was evaluated last.")
    record_id: str | None = Field(description="Of that record.")
    outcomes: list[Outcome] = Field(
        description="That the latest evaluation of at least one record has."
    )
    match: TextMatch | None = Field(
        description="The place of the text that was searched; null without one."
    )


class TracePage(BaseModel):
    """Traces, newest first: as the newest span came that meets one filter, or has the text.

    It is the same filter on all pages.
    """

    model_config = ConfigDict(frozen=True)

    items: list[TraceItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")
    is_partial: bool = Field(
        default=False,
        description="A search for a text ended for want of time; `next_cursor` goes on with it.",
    )
    looked_until: str | None = Field(
        default=None, description="When the oldest span was received that such a search read."
    )


@cache
def traces_router() -> APIRouter:
    """Make the routes below `/api/v1/traces`."""
    router = caught_up_router()

    @router.get("/traces", responses=NOT_FOUND)
    def traces(
        store: TheStore,
        names: TheNames,
        query: Annotated[TraceQuery, Depends(trace_query)],
        text: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=512,
                description="In a span's name, its status, the value of an attribute, or an event; "
                "in upper or lower case.",
            ),
        ] = None,
    ) -> TracePage:
        """Traces that have, for each filter by spans, a span that meets it.

        It need not be the same span, but for service, version and environment; `same_span` asks for
        one that meets all. Only spans that began in the period count. `profile`, `outcome`,
        `task_id`, `task_outcome` and `tag` are of the latest evaluation on a record of the trace,
        all of the same one. A search for a text looks at the 24 hours before `until`, or before
        now, unless `since` is given. It ends after a second: the answer then is partial and says
        how far the search looked.
        """
        page = store.traces(query) if text is None else _search(store, query, text)
        if not page.items and query.before is None:
            check_judged(names, query)
        at = page.looked_until_ns
        return TracePage(
            items=[_item(each) for each in page.items],
            next_cursor=write_span_cursor(page.next_before, page.as_of),
            is_partial=at is not None,
            looked_until=None if at is None else format_time(at),
        )

    @router.get("/traces/{trace_id}", response_model=Trace, responses=NOT_FOUND)
    def trace(store: TheStore, judges: TheJudges, caller: Reader, trace_id: TraceId) -> Response:
        """One trace with all its spans, and the evaluations of its records."""
        wanted, found = read_stored(store, caller.space, trace_id)
        tree = SpanTree(found.spans)
        # Not checked against the model: that takes half a second for ten thousand spans.
        return json_response(
            {
                "trace_id": wanted,
                "spans": spans_to_flat_json(tree.spans),
                "spanless_events": spans_to_flat_json(tree.strays),
                "evaluations": [
                    evaluation_answer(each, judges).model_dump(mode="json")
                    for each in found.evaluations
                ],
                "foreign_results": [_foreign(each) for each in foreign_results(tree.spans)],
            }
        )

    @router.get("/traces/{trace_id}/view", response_model=TraceTree, responses=NOT_FOUND)
    def trace_view(
        store: TheStore,
        judges: TheJudges,
        caller: Reader,
        trace_id: TraceId,
        limit: Limit = MOST_EVALUATIONS,
    ) -> Response:
        """One trace as people read it: a tree with values, and results beside their spans."""
        wanted, found = read_stored(store, caller.space, trace_id)
        view = view_trace(found.spans, results_of(found), limit)
        return json_response(
            {
                "trace_id": wanted,
                "view": _VIEWS.dump_python(view, mode="json"),
                "evaluations": [
                    evaluation_answer(each, judges).model_dump(mode="json")
                    for each in found.evaluations
                ],
            }
        )

    return router


def _search(store: Store, query: TraceQuery, text: str) -> span_queries.TracePage:
    if query.since_ns is None:
        until_ns = time.time_ns() if query.until_ns is None else query.until_ns
        query = replace(query, since_ns=until_ns - _SEARCHED_NS)
    end = time.monotonic() + SEARCH_S
    return store.search_traces(query, text, lambda: time.monotonic() >= end)


def read_stored(store: Store, space: str, trace_id: str) -> tuple[str, StoredTrace]:
    """Read a trace that a path names; gives its id in lower case, too.

    Raises:
        ProblemError: 400, that is no trace id; 404, no span of it is stored.
    """
    try:
        wanted = read_trace_id(trace_id)
    except ValueError as error:
        raise ProblemError(400, f"trace_id: {error}") from error
    found = store.trace(space, wanted, MOST_EVALUATIONS)
    if not found.spans:
        raise ProblemError(404, f"no span of the trace {wanted} is stored")
    return wanted, found


def results_of(found: StoredTrace) -> list[ResultView]:
    """The results of a trace's records, one for each task."""
    return [_result(row, task) for row in found.evaluations for task in row.tasks]


def _result(row: EvaluationRow, task: TaskRow) -> ResultView:
    return ResultView(
        task_id=task.task_id,
        outcome=task.outcome,
        reason=task.reason or "",
        message=task.message,
        profile=row.alias,
        record=row.record_id or row.record_uid,
        score=task.score,
        actual=task.actual,
        span_ids=task.span_ids,
    )


def _foreign(result: ForeignResult) -> dict[str, JsonValue]:
    return ForeignResultItem(
        span_id=result.span_id,
        time=format_time(result.time_ns),
        name=result.name,
        score=result.score,
        label=result.label,
        explanation=result.explanation,
        response_id=result.response_id,
        error=result.error,
    ).model_dump(mode="json")


def _item(trace: TraceSummary) -> TraceItem:
    records = trace.records
    return TraceItem(
        trace_id=trace.trace_id,
        name=trace.name,
        service_name=trace.service_name,
        service_version=trace.service_version,
        start=format_time(trace.start_ns),
        duration_ms=max(0, trace.end_ns - trace.start_ns) / 1e6,
        spans=trace.spans,
        errors=trace.errors,
        input_tokens=trace.input_tokens,
        output_tokens=trace.output_tokens,
        tools=list(trace.tools),
        records=0 if records is None else records.count,
        uid=None if records is None else records.uid,
        record_id=None if records is None else records.record_id,
        outcomes=[] if records is None else list(records.outcomes),
        match=match_answer(trace.match),
    )
