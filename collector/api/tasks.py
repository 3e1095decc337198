"""Pass rates and scores of tasks: over all time, and bucket by bucket."""

import time
from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, JsonValue

from collector.api.answers import json_response
from collector.api.judge_standing import Span
from collector.api.parameters import (
    NOT_FOUND,
    Bucket,
    Profile,
    Reader,
    Text,
    Time,
    caught_up_router,
    read_bucket,
    read_time,
)
from collector.api.parts import TheNames, TheStandings, TheStore
from collector.problem import ProblemError
from collector.receivers.times import format_time
from collector.storage.port.counts import SeriesItem, SeriesQuery, TaskCounts, TaskQuery
from scouter.client.models.tasks import TaskRate, TaskRates
from scouter.evaluate.intervals import wilson

_MOST_BUCKETS: Final = 2_000
_MOST_ITEMS: Final = 50_000
_USUAL_BUCKETS: Final = 24


class SeriesPoint(TaskRate):
    """Outcomes of one task in one bucket, and its pass rate with a 95 % Wilson interval."""

    model_config = ConfigDict(frozen=True)

    start: str
    """Start of the bucket; buckets are multiples of their length since 1970, in UTC."""


class TaskSeries(BaseModel):
    """Points by time, alias and task; a bucket without results has none."""

    model_config = ConfigDict(frozen=True)

    items: list[SeriesPoint]


@cache
def tasks_router() -> APIRouter:
    """Make the routes below `/api/v1/tasks`."""
    router = caught_up_router()

    @router.get("/tasks", responses=NOT_FOUND)
    def tasks(
        store: TheStore,
        standings: TheStandings,
        names: TheNames,
        caller: Reader,
        profile: Profile = None,
        service_version: Text = None,
        environment: Text = None,
        since: Time = None,
        until: Time = None,
    ) -> TaskRates:
        """Outcomes and pass rate of every task; times are those of evaluation."""
        query = TaskQuery(
            space=caller.space,
            profile=profile,
            service_version=service_version,
            environment=environment,
            since_ns=read_time("since", since),
            until_ns=read_time("until", until),
        )
        span = Span(
            since_ns=query.since_ns, until_ns=query.until_ns, service_version=service_version
        )
        found = store.task_counts(query)
        if not found:
            names.check(caller.space, profile)
        judges = standings.reader(caller.space)
        return TaskRates(
            items=tuple(TaskRate(**_rate(each), judge=judges.of(each, span)) for each in found)
        )

    @router.get("/tasks/series", response_model=TaskSeries, responses=NOT_FOUND)
    def series(
        store: TheStore,
        standings: TheStandings,
        names: TheNames,
        caller: Reader,
        profile: Profile = None,
        task_id: Text = None,
        service_version: Text = None,
        environment: Text = None,
        since: Time = None,
        until: Time = None,
        bucket: Bucket = "1h",
    ) -> Response:
        """Outcomes and pass rate of every task over time; times are those of evaluation.

        Without `until` it ends with the bucket of now, without `since` it is the last 24 buckets.
        """
        bucket_ns = read_bucket(bucket)
        until_ns = read_time("until", until)
        if until_ns is None:
            until_ns = (time.time_ns() // bucket_ns + 1) * bucket_ns
        since_ns = read_time("since", since)
        if since_ns is None:
            since_ns = max(0, (-(-until_ns // bucket_ns) - _USUAL_BUCKETS) * bucket_ns)
        buckets = -(-until_ns // bucket_ns) - since_ns // bucket_ns
        if buckets > _MOST_BUCKETS:
            raise ProblemError(
                400,
                f"bucket: {buckets:,} buckets of {bucket}; at most {_MOST_BUCKETS:,} are computed: "
                "take longer buckets, or a later since",
            )
        found = store.task_series(
            SeriesQuery(
                space=caller.space,
                profile=profile,
                task_id=task_id,
                service_version=service_version,
                environment=environment,
                since_ns=since_ns,
                until_ns=until_ns,
                bucket_ns=bucket_ns,
                limit=_MOST_ITEMS + 1,
            )
        )
        if not found:
            names.check(caller.space, profile, task_id)
        if len(found) > _MOST_ITEMS:
            raise ProblemError(
                400, f"more than {_MOST_ITEMS:,} points: name a profile or a task, or a later since"
            )
        judges = standings.reader(caller.space)

        def point(each: SeriesItem) -> dict[str, JsonValue]:
            span = Span(
                since_ns=max(since_ns, each.start_ns),
                until_ns=min(until_ns, each.start_ns + bucket_ns),
                service_version=service_version,
            )
            judge = judges.of(each.counts, span)
            return {
                "start": format_time(each.start_ns),
                **_rate(each.counts),
                "judge": None if judge is None else judge.model_dump(mode="json"),
            }

        # Not checked against the model: that takes half of the time for a thousand points.
        return json_response({"items": [point(each) for each in found]})

    return router


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
