"""Routes of the rates of tasks."""

from scouter.client.call import Call, Moment, get
from scouter.client.models.failures import Failures
from scouter.client.models.tasks import Distributions, TaskRates, TaskSeries


def tasks(
    *,
    profile: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    bucket: str | None = None,
    points: int | None = None,
) -> Call[TaskRates]:
    """Outcomes and pass rate of every task.

    Args:
        profile: Alias, name, uid or digest.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        bucket: Length of a bucket, such as `1h`: each rate has its `line` over time then. It needs
            `since`.
        points: In place of `bucket`: so many buckets at most from the first result on.
    """
    return get("/tasks", TaskRates, query=dict(locals()))


def task_series(
    *,
    profile: str | None = None,
    task_id: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    bucket: str | None = None,
    points: int | None = None,
) -> Call[TaskSeries]:
    """The same, in buckets of time.

    Args:
        profile: Alias, name, uid or digest.
        task_id: One task.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        bucket: Length of a bucket in seconds, minutes, hours or days, such as `1h`.
        points: In place of `bucket`: so many buckets at most from the first result on. It needs
            `since`.
    """
    return get("/tasks/series", TaskSeries, query=dict(locals()))


def task_distributions(
    profile: str,
    task_id: str,
    *,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    split: Moment | None = None,
) -> Call[Distributions]:
    """Scores of a task and durations of its traces, of the newest 2,000 results.

    Args:
        profile: Alias, name, uid or digest.
        task_id: The task.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        split: Results before this time are counted apart.
    """
    return get("/tasks/distributions", Distributions, query=dict(locals()))


def task_failures(
    profile: str,
    task_id: str,
    *,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    split: Moment | None = None,
) -> Call[Failures]:
    """Groups of a task's results that failed or errored, with their share before and since a time.

    Args:
        profile: Alias, name, uid or digest.
        task_id: The task.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        split: Results before this time are counted apart.
    """
    return get("/tasks/failures", Failures, query=dict(locals()))
