"""Routes of offline runs and of comparisons."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from scouter.client.call import COMMIT_S, Call, Moment, PagedCall, QueryValue, get, pages, post
from scouter.client.models.comparison import Comparison, Versions
from scouter.client.models.runs import RemovedRun, RunItem

if TYPE_CHECKING:
    from scouter.evaluate.api.records import EvalResults
    from scouter.evaluate.api.replay import ScenarioEvalResults


def runs() -> PagedCall[RunItem]:
    """Results of offline runs that the collector keeps, the one that came last first."""
    return pages("/runs", RunItem, {})


def push_run(
    results: "ScenarioEvalResults | EvalResults | Mapping[str, JsonValue]", name: str = ""
) -> Call[RunItem]:
    """Have the collector keep the results of a run, at most 32 MiB. Needs the scope ingest.

    Args:
        results: Of a replay or of records, or what their `save` writes.
        name: For people; by default agent and version, as far as the results tell.
    """
    query: dict[str, QueryValue] = {"name": name or None}
    body: dict[str, JsonValue] = (
        dict(results)
        if isinstance(results, Mapping)
        else cast("dict[str, JsonValue]", json.loads(results.model_dump_json()))
    )
    return post("/runs", RunItem, query=query, body=body, takes_s=COMMIT_S)


def remove_run(run_id: str) -> Call[RemovedRun]:
    """Take a run out of the collector. Needs the scope admin.

    Args:
        run_id: As a list of runs has it.
    """
    return post("/runs/{run_id}/remove", RemovedRun, at={"run_id": run_id})


def versions(profile: str) -> Call[Versions]:
    """Versions of the service behind the newest evaluations of a profile, the newest first.

    Args:
        profile: Alias, name, uid or digest.
    """
    return get("/versions", Versions, query={"profile": profile})


def comparison(
    profile: str | None = None,
    *,
    before_version: str | None = None,
    before_since: Moment | None = None,
    before_until: Moment | None = None,
    before_run: str | None = None,
    version: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    run: str | None = None,
    environment: str | None = None,
    require_ruled_out: float | None = None,
    limit: int | None = None,
) -> Call[Comparison]:
    """Two versions, two periods, or an offline run and what is live, held against each other.

    Args:
        profile: Alias; needed where a side is live.
        before_version: Of the service, of the baseline.
        before_since: Evaluations of the baseline from this time on.
        before_until: Those before this time.
        before_run: The baseline is this run.
        version: Of the service, of the side in question; and so on.
        since: See `before_since`.
        until: See `before_until`.
        run: See `before_run`.
        environment: Of the live sides.
        require_ruled_out: Inconclusive where a fall of more points is not ruled out.
        limit: Newest records of each live side that are compared; 1,000 by default, at most 2,000.
    """
    return get("/comparison", Comparison, query=dict(locals()))
