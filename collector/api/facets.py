"""Facets: how many items of a list have which value, within the filter and a bound of time."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Final

from fastapi import Depends

from collector.api.evaluations import evaluation_filter
from collector.api.parameters import NOT_FOUND, api_router
from collector.api.parts import TheParts
from collector.api.records import record_filter
from collector.api.sessions import session_filter
from collector.api.spans import check_judged, trace_filter
from collector.items.times import time_at
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.facets import Facets
from collector.store.record_queries import RecordQuery, SessionQuery
from collector.store.span_queries import TraceQuery
from scouter.client.models.answer import Facet, FacetList, FacetValue

_VALUES: Final = 20
_LOOK_S: Final = 0.3
"""Time after which nothing more is counted. A part that was started is finished."""


router = api_router("/facets")


@router.get("/evaluations", responses=NOT_FOUND)
def evaluations(
    parts: TheParts, query: Annotated[EvaluationQuery, Depends(evaluation_filter)]
) -> FacetList:
    """Evaluations by outcome, profile, task, service, version, environment and tag.

    The newest are counted first. After 0.3 s the answer is what was counted so far.
    """
    found = parts.store.evaluation_facets(query, Pace(time.monotonic))
    if not found.counts:
        parts.names.check(query.space, query.profile, query.task_id)
    return _answer(found)


@router.get("/records", responses=NOT_FOUND)
def records(parts: TheParts, query: Annotated[RecordQuery, Depends(record_filter)]) -> FacetList:
    """Records by profile and state.

    The newest are counted first. After 0.3 s the answer is what was counted so far.
    """
    found = parts.store.record_facets(query, Pace(time.monotonic))
    if not found.counts:
        parts.names.check(query.space, query.profile)
    return _answer(found)


@router.get("/sessions", responses=NOT_FOUND)
def sessions(parts: TheParts, query: Annotated[SessionQuery, Depends(session_filter)]) -> FacetList:
    """Sessions by profile, outcome, task, tag, tool and model.

    The newest are counted first. After 0.3 s the answer is what was counted so far.
    """
    found = parts.store.session_facets(query, Pace(time.monotonic))
    if not found.counts:
        parts.names.check(query.space, query.profile, query.task_id)
    return _answer(found)


@router.get("/traces", responses=NOT_FOUND)
def traces(parts: TheParts, query: Annotated[TraceQuery, Depends(trace_filter)]) -> FacetList:
    """Traces by status, service, agent, tool, model and error of their spans.

    And by profile, outcome, task and tag of the evaluations on their records. The newest are
    counted first. After 0.3 s the answer is what was counted so far.
    """
    found = parts.store.trace_facets(query, Pace(time.monotonic))
    if not found.counts:
        check_judged(parts.names, query)
    return _answer(found)


class Pace:
    """Ends a search whose next step would take it over its time, as the last steps tell.

    A part of what a step takes does not grow with it. Two steps tell how large that part is.

    Args:
        clock: Seconds that pass.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._end = self._started + _LOOK_S
        self._before = 0.0, 0.0
        """Seconds of the step before the last one, and its size if that of the last one is 1."""

    def __call__(self, growth: float) -> bool:
        """Say whether the next step is too long.

        Args:
            growth: Its size, if that of the last one is 1; at least 1.
        """
        now = self._clock()
        took, self._started = now - self._started, now
        before_s, size = self._before
        self._before = took, 1 / growth
        slope_s = max(0.0, took - before_s) / (1 - size) if size < 1 else took
        return now + took + slope_s * (growth - 1) > self._end


def _answer(found: Facets) -> FacetList:
    at = found.looked_until_ns
    return FacetList(
        items=tuple(_facet(name, counts) for name, counts in sorted(found.counts.items())),
        is_partial=at is not None,
        looked_until=None if at is None else time_at(at),
    )


def _facet(name: str, counts: Mapping[str, int]) -> Facet:
    by_count = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return Facet(
        name=name,
        values=tuple(FacetValue(value=value, count=count) for value, count in by_count[:_VALUES]),
        others=len(by_count[_VALUES:]),
    )
