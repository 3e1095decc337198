"""Pass rates and scores of tasks: over all time, and bucket by bucket."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated, Any, Final, NamedTuple, Self

from fastapi import Depends, Query, Response
from pydantic import JsonValue

from collector.api.parameters import (
    NOT_FOUND,
    Bucket,
    Profile,
    Reader,
    Text,
    Time,
    api_router,
    json_response,
    read_bucket,
    read_time,
)
from collector.api.parts import TheParts
from collector.items.times import format_time
from collector.problem import ProblemError
from collector.store.rates import SeriesItem, SeriesQuery, TaskCounts, TaskQuery
from collector.store.store import Store
from scouter.client.models.evaluations import (
    RatedTask,
    RateLine,
    TaskRates,
    TaskSeries,
    TaskUsage,
)
from scouter.evaluate.intervals import wilson
from scouter.evaluate.judge.port import JudgeUsage

_S: Final = 10**9
_HOUR_NS: Final = 3_600 * _S
_MOST_BUCKETS: Final = 2_000
_USUAL: Final = 24
_STEPS: Final = tuple(
    seconds * _S
    for seconds in (
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200,
        86_400, 2 * 86_400, 7 * 86_400,
    )
)  # fmt: skip
"""Lengths to choose from."""
_SHORT_NS: Final = 2 * _HOUR_NS
_FEW: Final = 10_000
"""Results that may be read one by one in a longer time; buckets of whole hours need none."""


class Buckets(NamedTuple):
    """A time that is cut into buckets."""

    since_ns: int
    until_ns: int
    bucket_ns: int

    @classmethod
    def read(cls, bucket: str, since_ns: int | None, until_ns: int | None) -> Self:
        """Read the length of buckets, and find the time that is not given.

        Raises:
            ProblemError: 400; it is no length, or there are too many buckets.
        """
        bucket_ns = read_bucket(bucket)
        if until_ns is None:
            until_ns = (time.time_ns() // bucket_ns + 1) * bucket_ns
        if since_ns is None:
            since_ns = max(0, (-(-until_ns // bucket_ns) - _USUAL) * bucket_ns)
        buckets = cls(since_ns, until_ns, bucket_ns)
        if buckets.number > _MOST_BUCKETS:
            raise ProblemError(
                400,
                f"bucket: {buckets.number:,} buckets of {bucket}; at most {_MOST_BUCKETS:,} are "
                "computed: take longer buckets, or a later since",
            )
        return buckets

    @classmethod
    def chosen(cls, store: Store, query: TaskQuery, points: int) -> Self:
        """Cut the time from the first result on into so many buckets at most.

        Args:
            store: Has the results.
            query: Its results.
            points: At most, and as many as that allows.

        Raises:
            ProblemError: 400; no `since_ns` is given.

        Cost: that of `Store.extent`.
        """
        if query.since_ns is None:
            raise ProblemError(400, "points: a rate over time needs since, too")
        until_ns = time.time_ns() if query.until_ns is None else query.until_ns
        extent = store.extent(query, _FEW)
        since_ns = max(query.since_ns, extent.first_ns if extent else 0)
        length_ns = max(0, until_ns - since_ns)
        bucket_ns = next((each for each in _STEPS if length_ns <= (points - 1) * each), _STEPS[-1])
        if extent and extent.results > _FEW and length_ns > _SHORT_NS:
            bucket_ns = max(bucket_ns, _HOUR_NS)
        since_ns = max(since_ns // bucket_ns * bucket_ns, query.since_ns)
        if query.until_ns is None:
            until_ns = (until_ns // bucket_ns + 1) * bucket_ns
        return cls(since_ns, until_ns, bucket_ns)

    @property
    def number(self) -> int:
        """The number of buckets, those that are cut included."""
        return -(-self.until_ns // self.bucket_ns) - self.since_ns // self.bucket_ns


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
        "length that the answer has. It needs `since`.",
    ),
]


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


router = api_router()


@router.get("/tasks", responses=NOT_FOUND)
def tasks(
    parts: TheParts,
    query: Counted,
    bucket: LineBucket = None,
    points: Points = None,
    usage: Annotated[bool, Query(description="With what judges took for these results.")] = False,
) -> TaskRates:
    """Outcomes and pass rate of every task; times are those of evaluation."""
    found = parts.store.task_counts(query)
    if not found:
        parts.names.check(query.space, query.profile)
    taken = parts.store.task_usage(query) if usage else {}
    buckets = _buckets(parts.store, query, bucket, points)
    line_of = None if buckets is None else _lines(parts.store, query, buckets, len(found))
    return TaskRates(
        items=tuple(
            RatedTask(
                **_rate(each),
                judge=parts.standings.of(each, query),
                line=line_of and line_of(each.profile_uid, each.task_id),
                usage=_usage(taken.get((each.profile_uid, each.task_id))),
            )
            for each in found
        ),
        bucket_s=None if buckets is None else buckets.bucket_ns // 10**9,
    )


@router.get("/tasks/series", response_model=TaskSeries, responses=NOT_FOUND)
def series(
    parts: TheParts,
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
        else Buckets.chosen(parts.store, query, points)
    )
    wanted = _series(query, buckets)
    found = parts.store.task_series(replace(wanted, task_id=task_id, limit=_MOST_ITEMS + 1))
    if not found:
        parts.names.check(query.space, query.profile, task_id)
    if len(found) > _MOST_ITEMS:
        raise ProblemError(
            400, f"more than {_MOST_ITEMS:,} points: name a profile or a task, or a later since"
        )

    def point(each: SeriesItem) -> dict[str, JsonValue]:
        part = replace(
            query,
            since_ns=max(buckets.since_ns, each.start_ns),
            until_ns=min(buckets.until_ns, each.start_ns + buckets.bucket_ns),
        )
        judge = parts.standings.of(each.counts, part)
        return {
            "start": format_time(each.start_ns),
            **_rate(each.counts),
            "judge": None if judge is None else judge.model_dump(mode="json"),
        }

    # Not checked against the model: that takes half of the time for a thousand points.
    return json_response(
        {"items": [point(each) for each in found], "bucket_s": buckets.bucket_ns // 10**9}
    )


def _usage(found: JudgeUsage | None) -> TaskUsage | None:
    return None if found is None else TaskUsage.model_validate(found)


def _buckets(
    store: Store, query: TaskQuery, bucket: str | None, points: int | None
) -> Buckets | None:
    """Cut the time of a rate over time; None where none is requested."""
    if bucket is None:
        return None if points is None else Buckets.chosen(store, query, points)
    if query.since_ns is None:
        raise ProblemError(400, "bucket: a rate over time needs since, too")
    return Buckets.read(bucket, query.since_ns, query.until_ns)


def _series(query: TaskQuery, buckets: Buckets) -> SeriesQuery:
    return SeriesQuery(**{**asdict(query), **buckets._asdict()})


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
