"""Pass rates and scores of tasks: over all time, and bucket by bucket."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.api.answers import json_response
from collector.api.buckets import Buckets
from collector.api.judge_standing import Span
from collector.api.parameters import (
    NOT_FOUND,
    Bucket,
    Profile,
    Reader,
    Text,
    Time,
    caught_up_router,
    read_time,
)
from collector.api.parts import TheNames, TheStandings, TheStore
from collector.items.times import format_time
from collector.problem import ProblemError
from collector.store.rates import SeriesItem, SeriesQuery, TaskCounts, TaskQuery
from collector.store.store import Store
from scouter.client.models.tasks import RatedTask, RateLine, TaskRate, TaskRates
from scouter.evaluate.intervals import wilson

_MOST_ITEMS: Final = 50_000
MOST_PLACES: Final = 500_000
"""Buckets of all lines together; one takes a twentieth of what an item does."""

LineBucket = Annotated[
    str | None,
    Query(
        max_length=8,
        description="Seconds, minutes, hours or days, such as 1h: each task has its `line` then, "
        "its rate over time. It needs `since`.",
    ),
]
Points = Annotated[
    int | None,
    Query(
        ge=2,
        le=200,
        description="In place of `bucket`: so many buckets at most from the first result on, of a "
        "length that the answer tells. It needs `since`.",
    ),
]


class SeriesPoint(TaskRate):
    """Outcomes of one task in one bucket, and its pass rate with a 95 % Wilson interval."""

    model_config = ConfigDict(frozen=True)

    start: str
    """Start of the bucket; buckets are multiples of their length since 1970, in UTC."""


class TaskSeries(BaseModel):
    """Points by time, alias and task; a bucket without results has none."""

    model_config = ConfigDict(frozen=True)

    items: list[SeriesPoint]
    bucket_s: int = Field(description="Length of a bucket in seconds.")


async def task_query(
    caller: Reader,
    profile: Profile = None,
    service_version: Text = None,
    environment: Text = None,
    since: Time = None,
    until: Time = None,
) -> TaskQuery:
    """A dependency of routes: reads which results are counted."""
    return TaskQuery(
        space=caller.space,
        profile=profile,
        service_version=service_version,
        environment=environment,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


Counted = Annotated[TaskQuery, Depends(task_query)]


@cache
def tasks_router() -> APIRouter:
    """Make the routes below `/api/v1/tasks`."""
    router = caught_up_router()

    @router.get("/tasks", responses=NOT_FOUND)
    def tasks(
        store: TheStore,
        standings: TheStandings,
        names: TheNames,
        query: Counted,
        bucket: LineBucket = None,
        points: Points = None,
    ) -> TaskRates:
        """Outcomes and pass rate of every task; times are those of evaluation."""
        span = Span(
            since_ns=query.since_ns,
            until_ns=query.until_ns,
            service_version=query.service_version,
        )
        found = store.task_counts(query)
        if not found:
            names.check(query.space, query.profile)
        buckets = _buckets(store, query, bucket, points)
        line_of = None if buckets is None else _lines(store, query, buckets, len(found))
        return TaskRates(
            items=tuple(
                RatedTask(
                    **_rate(each),
                    judge=standings.of(query.space, each, span),
                    line=line_of and line_of(each.profile_uid, each.task_id),
                )
                for each in found
            ),
            bucket_s=None if buckets is None else buckets.bucket_ns // 10**9,
        )

    @router.get("/tasks/series", response_model=TaskSeries, responses=NOT_FOUND)
    def series(
        store: TheStore,
        standings: TheStandings,
        names: TheNames,
        query: Counted,
        task_id: Text = None,
        bucket: Bucket = "1h",
        points: Points = None,
    ) -> Response:
        """Outcomes and pass rate of every task over time; times are those of evaluation.

        Without `until` it ends with the bucket of now, without `since` it is the last 24 buckets.
        """
        buckets = (
            Buckets.read(bucket, query.since_ns, query.until_ns)
            if points is None
            else Buckets.chosen(store, query, points)
        )
        wanted = _series(query, buckets)
        found = store.task_series(replace(wanted, task_id=task_id, limit=_MOST_ITEMS + 1))
        if not found:
            names.check(query.space, query.profile, task_id)
        if len(found) > _MOST_ITEMS:
            raise ProblemError(
                400, f"more than {_MOST_ITEMS:,} points: name a profile or a task, or a later since"
            )

        def point(each: SeriesItem) -> dict[str, JsonValue]:
            span = Span(
                since_ns=max(buckets.since_ns, each.start_ns),
                until_ns=min(buckets.until_ns, each.start_ns + buckets.bucket_ns),
                service_version=query.service_version,
            )
            judge = standings.of(query.space, each.counts, span)
            return {
                "start": format_time(each.start_ns),
                **_rate(each.counts),
                "judge": None if judge is None else judge.model_dump(mode="json"),
            }

        # Not checked against the model: that takes half of the time for a thousand points.
        return json_response(
            {"items": [point(each) for each in found], "bucket_s": buckets.bucket_ns // 10**9}
        )

    return router


def _buckets(
    store: Store, query: TaskQuery, bucket: str | None, points: int | None
) -> Buckets | None:
    """Cut the time of a rate over time; None where none is asked for."""
    if bucket is None:
        return None if points is None else Buckets.chosen(store, query, points)
    if query.since_ns is None:
        raise ProblemError(400, "bucket: a rate over time needs since, too")
    return Buckets.read(bucket, query.since_ns, query.until_ns)


def _series(query: TaskQuery, buckets: Buckets) -> SeriesQuery:
    return SeriesQuery(
        space=query.space,
        profile=query.profile,
        service_version=query.service_version,
        environment=query.environment,
        **buckets._asdict(),
    )


def _lines(
    store: Store, query: TaskQuery, buckets: Buckets, tasks: int
) -> Callable[[str, str], RateLine]:
    """The rates over time of the tasks that a query counts, by profile uid and task."""
    if tasks * buckets.number > MOST_PLACES:
        raise ProblemError(
            400,
            f"bucket: {buckets.number:,} buckets for each of {tasks:,} tasks are more than "
            f"{MOST_PLACES:,}: take longer buckets, a later since, or name a profile",
        )
    lines = store.rate_lines(_series(query, buckets))
    found = {(each.profile_uid, each.task_id): each for each in lines}

    def line(profile_uid: str, task_id: str) -> RateLine:
        each = found.get((profile_uid, task_id))
        if each is None:
            return RateLine(start_s=(), pass_rate=(), total=())
        return RateLine(
            start_s=tuple(start_ns // 10**9 for start_ns in each.start_ns),
            pass_rate=tuple(
                passed / total for passed, total in zip(each.passed, each.total, strict=True)
            ),
            total=tuple(each.total),
        )

    return line


def _rate(counts: TaskCounts) -> dict[str, Any]:
    """The fields of a `TaskRate`, but what is known of its judge."""
    total = counts.passed + counts.failed + counts.errored + counts.gated
    lower, upper = wilson(counts.passed, total)
    n, mean, sd = counts.scores
    return {
        "profile": counts.alias,
        "profile_name": counts.profile_name,
        "profile_version": counts.profile_digest,
        "alias": counts.alias,
        "task_id": counts.task_id,
        "passed": counts.passed,
        "failed": counts.failed,
        "errored": counts.errored,
        "skipped": counts.skipped,
        "total": total,
        "pass_rate": counts.passed / total if total else None,
        "lower": lower,
        "upper": upper,
        "score": {"mean": mean, "sd": sd, "n": n, "n_error": counts.errored},
    }
