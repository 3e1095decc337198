"""Traces: listed by what their spans are like, and one of any size, as a whole and in parts."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated, Final

from fastapi import Depends, Query, Response
from pydantic import JsonValue, TypeAdapter, ValidationError

from collector.api.evaluations import evaluation_answer
from collector.api.halves import MOST_EVALUATIONS, Joined, TraceId, read_stored, trace_item
from collector.api.parameters import (
    MOST_TEXTS,
    NOT_FOUND,
    SEARCH_S,
    Limit,
    Reader,
    Texts,
    answer_of,
    api_router,
    json_response,
)
from collector.api.parts import TheParts
from collector.api.spans import check_judged, trace_query, write_span_cursor
from collector.items.times import time_at
from collector.judging.calibrations import KnownJudges
from collector.problem import ProblemError
from collector.store import span_queries
from collector.store.rows import EvaluationRow, StoredTrace, TaskRow
from collector.store.span_queries import TraceQuery, TraceSummary
from collector.store.store import Store
from scouter.client.models.answer import Searched
from scouter.client.models.traces import (
    ForeignResultItem,
    Trace,
    TraceAgents,
    TraceItem,
    TraceMatches,
    TraceRows,
    TraceTree,
    TraceTurn,
)
from scouter.errors import ConfigError
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.show.agent_lines import TurnText, agent_lines, view_question, view_turn
from scouter.evaluate.show.trace_view import (
    ResultView,
    TraceColumns,
    TraceView,
    trace_columns,
    view_trace,
)
from scouter.evaluate.spans.filters import compile_filter
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.model.log_event import foreign_results
from scouter.model.otlp_json import spans_to_flat_json, spans_to_otlp_json
from scouter.model.span import Span

_SEARCHED_NS: Final = 24 * 3600 * 10**9
"""Time that a search for a text looks at where none is given."""
_MOST_READ: Final = 2_000
"""Spans that are read for the questions of a list."""
_VIEWS: Final = TypeAdapter(TraceView)


router = api_router()


@router.get("/traces", responses=NOT_FOUND)
def traces(
    parts: TheParts,
    query: Annotated[TraceQuery, Depends(trace_query)],
    text: Annotated[
        Texts,
        Query(
            max_length=MOST_TEXTS,
            description="In a span's name, its status, the value of an attribute, or an event; "
            "in upper or lower case. All of several have to be in spans of the trace.",
        ),
    ] = [],  # noqa: B006 FastAPI copies it
    questions: Annotated[
        bool, Query(description="With what the user asked, of traces that are not long.")
    ] = False,
) -> Searched[TraceItem]:
    """Traces that have, for each filter by spans, a span that meets it.

    It need not be the same span, but for service, version and environment; `same_span` wants
    one that meets all. Only spans that began in the period count. `profile`, `outcome`,
    `task_id`, `task_outcome` and `tag` are of the latest evaluation on a record of the trace,
    all of the same one. A search for a text looks at the 24 hours before `until`, or before
    now, unless `since` is given. It ends after a second: the answer then is partial and says
    how far the search looked.
    """
    page = _search(parts.store, query, text) if text else parts.store.traces(query)
    if not page.items and query.before is None:
        check_judged(parts.names, query)
    at = page.looked_until_ns
    by_trace = _questions(parts.store, query.space, page.items if questions else ())
    return Searched[TraceItem](
        items=tuple(
            trace_item(each, parts.prices, by_trace.get(each.trace_id)) for each in page.items
        ),
        next_cursor=write_span_cursor(page.next_before, page.as_of),
        is_partial=at is not None,
        looked_until=None if at is None else time_at(at),
    )


@router.get("/traces/{trace_id}", response_model=Trace, responses=NOT_FOUND)
def trace(parts: TheParts, caller: Reader, trace_id: TraceId) -> Response:
    """One trace with all its spans, and the evaluations of its records."""
    wanted, found = read_stored(parts.store, caller.space, trace_id)
    tree = SpanTree(found.spans)
    # Not checked against the model: that takes half a second for ten thousand spans.
    return json_response(
        {
            "trace_id": wanted,
            "spans": spans_to_flat_json(tree.spans),
            "spanless_events": spans_to_flat_json(tree.strays),
            "evaluations": _evaluations(found, parts.judges),
            "foreign_results": [
                answer_of(ForeignResultItem, each, time=time_at(each.time_ns)).model_dump(
                    mode="json"
                )
                for each in foreign_results(tree.spans)
            ],
        }
    )


@router.get("/traces/{trace_id}/view", response_model=TraceTree, responses=NOT_FOUND)
def trace_view(
    parts: TheParts,
    caller: Reader,
    trace_id: TraceId,
    limit: Limit = MOST_EVALUATIONS,
    joined: Joined = False,
) -> Response:
    """One trace as people read it: a tree with values, and results beside their spans."""
    wanted, found = read_stored(parts.store, caller.space, trace_id, joined=joined)
    view = view_trace(found.spans, results_of(found), limit)
    return json_response(
        {
            "trace_id": wanted,
            "view": _VIEWS.dump_python(view, mode="json"),
            "evaluations": _evaluations(found, parts.judges),
        }
    )


def _evaluations(found: StoredTrace, judges: KnownJudges) -> list[JsonValue]:
    return [evaluation_answer(each, judges).model_dump(mode="json") for each in found.evaluations]


def _search(store: Store, query: TraceQuery, texts: Sequence[str]) -> span_queries.TracePage:
    if query.since_ns is None:
        until_ns = time.time_ns() if query.until_ns is None else query.until_ns
        query = replace(query, since_ns=until_ns - _SEARCHED_NS)
    end = time.monotonic() + SEARCH_S
    return store.search_traces(query, texts[0], lambda: time.monotonic() >= end, texts[1:])


def _questions(
    store: Store, space: str, traces: Sequence[TraceSummary]
) -> Mapping[str, TurnText | None]:
    """Questions of users, by trace, as far as their spans are few enough to be read for a list."""
    left, wanted = _MOST_READ, list[str]()
    for each in traces:
        if each.spans <= left:
            left -= each.spans
            wanted.append(each.trace_id)
    found = store.spans_of(space, wanted)
    return {each: view_question(SpanTree(spans)) for each, spans in found.items()}


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


_MOST_FILTER: Final = 10_000
_RESULTS: Final = TypeAdapter(list[ResultView])


@router.get("/traces/{trace_id}/columns", response_model=TraceRows, responses=NOT_FOUND)
def columns(
    parts: TheParts,
    caller: Reader,
    trace_id: TraceId,
    limit: Annotated[int | None, Query(ge=1)] = None,
    joined: Joined = False,
) -> Response:
    """The rows of a waterfall as one array a field: 30,000 spans are about 1.3 MB.

    Without `limit` all rows are there.
    """
    wanted, found = read_stored(parts.store, caller.space, trace_id, joined=joined)
    results = results_of(found)
    tree = SpanTree(found.spans)
    known = set(tree.span_ids)
    beside = [each for each in results if known.isdisjoint(each.span_ids)]
    resource = tree.true_roots[0].resource
    return json_response(
        {
            "trace_id": wanted,
            "service_name": resource.service_name,
            "service_version": resource.service_version,
            "environment": resource.environment,
            "columns": _written(trace_columns(tree, results, limit)),
            "evaluations": _evaluations(found, parts.judges),
            "tasks": _RESULTS.dump_python(beside, mode="json"),
        }
    )


@router.get("/traces/{trace_id}/agents", responses=NOT_FOUND)
def agents(
    parts: TheParts, caller: Reader, trace_id: TraceId, joined: Joined = False
) -> TraceAgents:
    """The work of each agent: calls, tools, retries, tokens, cost, failures, hand-overs."""
    _, found = read_stored(parts.store, caller.space, trace_id, joined=joined)
    return TraceAgents(items=tuple(agent_lines(SpanTree(found.spans), parts.prices.of_call)))


@router.get("/traces/{trace_id}/turn", responses=NOT_FOUND)
def turn(parts: TheParts, caller: Reader, trace_id: TraceId) -> TraceTurn:
    """The trace as a turn of a conversation: question, calls of tools, answer."""
    wanted, found = read_stored(parts.store, caller.space, trace_id)
    return TraceTurn(trace_id=wanted, turn=view_turn(SpanTree(found.spans)))


@router.get("/traces/{trace_id}/matches", responses=NOT_FOUND)
def matches(
    parts: TheParts,
    caller: Reader,
    trace_id: TraceId,
    filter: Annotated[
        str,
        Query(
            max_length=_MOST_FILTER,
            description="A span filter as profiles write it, as JSON: "
            '`{"WithStatus": {"status": "Error"}}`. Any other text is a pattern that is '
            "searched for in names.",
        ),
    ],
    joined: Joined = False,
) -> TraceMatches:
    """The spans that a filter of the profiles' language selects."""
    select = _read_filter(filter)
    _, found = read_stored(parts.store, caller.space, trace_id, joined=joined)
    try:
        matched = select(SpanTree(found.spans))
        return TraceMatches(span_ids=tuple(span.span_id for span in matched))
    except TaskFault as error:
        raise ProblemError(400, f"filter: {error}") from error


@router.get("/traces/{trace_id}/export", response_class=Response, responses=NOT_FOUND)
def export(parts: TheParts, caller: Reader, trace_id: TraceId) -> Response:
    """The spans as a file of OTLP JSON."""
    wanted, found = read_stored(parts.store, caller.space, trace_id)
    answer = json_response(spans_to_otlp_json(SpanTree(found.spans).spans))
    answer.headers.update(file_headers(f"{wanted}.otlp.json"))
    return answer


def _written(columns: TraceColumns) -> JsonValue:
    """Columns as they are written: a model would look at each of their numbers."""
    shown = {each.name: getattr(columns, each.name) for each in fields(columns)}
    axis = {each.name: getattr(columns.axis, each.name) for each in fields(columns.axis)}
    return {**shown, "axis": axis}


def _read_filter(text: str) -> Callable[[SpanTree], list[Span]]:
    """Prepare a filter that somebody typed.

    Raises:
        ProblemError: 400; it is no filter.
    """
    try:
        if not text.lstrip().startswith("{"):
            return compile_filter(SpanFilter.by_name_pattern(text.strip()))
        return compile_filter(SpanFilter.parse(json.loads(text)))
    except RecursionError as error:
        raise ProblemError(400, "filter: it is nested too deeply") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ProblemError(400, f"filter: {place} {first['msg']}".replace("  ", " ")) from error
    except (ConfigError, ValueError) as error:
        raise ProblemError(400, f"filter: {error}") from error


def file_headers(name: str) -> dict[str, str]:
    """Headers of an answer that is saved under a name and never shown."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
    }
