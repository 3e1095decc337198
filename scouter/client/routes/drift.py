"""Routes of the drift detectors."""

from scouter.client.call import Call, Moment, PagedCall, QueryValue, get, pages
from scouter.client.models.drift import DriftResult, DriftSeriesList, DriftSlices


def drift_series(profile: str | None = None) -> Call[DriftSeriesList]:
    """The standing of every task of every active profile, with its reference.

    Args:
        profile: Alias, name, uid or digest; None for all.
    """
    return get("/drift/series", DriftSeriesList, query=dict(locals()))


def drift_results(
    *,
    profile: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[DriftResult]:
    """First final results in the order of completion, as the detectors take them.

    Args:
        profile: Alias, name, uid or digest.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return pages("/drift/results", DriftResult, dict(locals()))


def drift_slices(
    uid: str,
    since: Moment | None = None,
    task: str = "",
    service: str | None = None,
    environment: str | None = None,
) -> Call[DriftSlices]:
    """Passes and fails by tag, tool and model, before and since a moment.

    Args:
        uid: Of one version of a profile.
        since: The moment; without it no result is before.
        task: Empty for the whole record.
        service: Of its results only; the empty text stands for those without one.
        environment: The same.
    """
    query: dict[str, QueryValue] = {
        "since": since, "task": task, "service": service, "environment": environment,
    }  # fmt: skip
    return get("/drift/slices/{uid}", DriftSlices, at={"uid": uid}, query=query)
