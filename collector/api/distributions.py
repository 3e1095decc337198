"""Distributions behind the rate of a task: its scores, and the durations of its traces."""

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from collector.api.parameters import (
    COMMON,
    NOT_FOUND,
    PROBLEMS,
    Reader,
    Text,
    Time,
    caught_up,
    read_time,
)
from collector.api.parts import TheNames, TheStore
from collector.store.evaluation_queries import TaskValue, TaskValuesQuery
from scouter.client.models.tasks import Bin, Distribution, Distributions

_Name = Annotated[str, Query(min_length=1, max_length=512)]
_LIMIT: Final = 2_000
_BINS: Final = 10
_STEPS: Final = (
    (1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.4, 2.7, 3, 3.3, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 2, 5),
)
"""Ends of bins in a power of ten, from fine to coarse."""
_MOST_BINS: Final = 20
_MS: Final = 1e6


@cache
def distributions_router() -> APIRouter:
    """Make the route `/api/v1/tasks/distributions`."""
    router = APIRouter(
        prefix="/api/v1/tasks",
        tags=["results"],
        responses=PROBLEMS,
        dependencies=[*COMMON, Depends(caught_up)],
    )

    @router.get("/distributions", responses=NOT_FOUND)
    def distributions(
        store: TheStore,
        names: TheNames,
        caller: Reader,
        profile: _Name,
        task_id: _Name,
        service_version: Text = None,
        environment: Text = None,
        since: Time = None,
        until: Time = None,
        split: Time = None,
    ) -> Distributions:
        """Scores of a task and durations of its traces, before and since a time.

        Of the newest 2,000 results in the time asked for.
        """
        found = store.task_values(
            TaskValuesQuery(
                space=caller.space,
                profile=profile,
                task_id=task_id.lower(),
                service_version=service_version,
                environment=environment,
                since_ns=read_time("since", since),
                until_ns=read_time("until", until),
                limit=_LIMIT + 1,
            )
        )
        if not found:
            names.check(caller.space, profile, task_id)
        values = found[:_LIMIT]
        return Distributions(
            items=tuple(distributions_of(values, read_time("split", split))),
            looked_at=len(values),
            is_partial=len(found) > len(values),
        )

    return router


def distributions_of(values: Sequence[TaskValue], split_ns: int | None) -> list[Distribution]:
    """Count the values of each measure in bins.

    Args:
        values: Results.
        split_ns: Time that parts those before from those since; None for one part.

    Returns:
        Scores in ten bins of the same width: from 0 to 1 where all are, else over their range.
        Durations in bins whose ends are round in each power of ten; the finest of three grids that
        has twenty bins at most, or the coarsest.
    """
    pairs = {
        "score": [(each.at_ns, each.score) for each in values if each.score is not None],
        "duration_ms": [
            (each.at_ns, each.duration_ns / _MS) for each in values if each.duration_ns is not None
        ],
    }
    found: list[Distribution] = []
    for measure, timed in pairs.items():
        if not timed:
            continue
        before = [value for at_ns, value in timed if split_ns is not None and at_ns < split_ns]
        since = [value for at_ns, value in timed if split_ns is None or at_ns >= split_ns]
        every = [*before, *since]
        edges = _even(every) if measure == "score" else _decades(every)
        counts = zip(
            edges, edges[1:], _counted(before, edges), _counted(since, edges), strict=False
        )
        found.append(
            Distribution(
                measure=measure,
                bins=tuple(Bin(low=a, high=b, before=m, since=n) for a, b, m, n in counts),
                before=len(before),
                since=len(since),
                median_before=statistics.median(before) if before else None,
                median_since=statistics.median(since) if since else None,
            )
        )
    return found


def _even(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if low == high:
        high = low + 1
    return [low + (high - low) * number / _BINS for number in range(_BINS)] + [high]


def _decades(values: Sequence[float]) -> list[float]:
    """From the last step at or below the least to the first one above the largest."""
    low = max(min(values), 0.001)
    high = max(low, *values)
    found: list[float] = []
    for grid in _STEPS:
        steps = [float(f"{step}e{power}") for power in range(-4, 13) for step in grid]
        found = steps[bisect_right(steps, low) - 1 : bisect_right(steps, high) + 1]
        if len(found) <= _MOST_BINS + 1:
            break
    return found


def _counted(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[min(max(0, bisect_right(edges, value) - 1), len(counts) - 1)] += 1
    return counts
