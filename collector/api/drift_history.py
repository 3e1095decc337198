"""Stored results as the detectors take them, for replays."""

from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from collector.api import models
from collector.api.parameters import (
    NOT_FOUND,
    Cursor,
    Limit,
    Profile,
    Reader,
    Text,
    Time,
    caught_up_router,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import TheNames, TheStore
from collector.items.times import format_time
from collector.store.decided import DecidedQuery, SliceQuery
from scouter.client.models.drift import DriftNumber, DriftOutcome, DriftSlice, DriftSlices
from scouter.drift.series.observed import BEFORE_ALL, Observed, Place

_NAME: Final = 512


@cache
def drift_history_router() -> APIRouter:
    """Make the routes that a replay reads."""
    router = caught_up_router()

    @router.get("/drift/results", responses=NOT_FOUND)
    def results(
        store: TheStore,
        names: TheNames,
        caller: Reader,
        profile: Profile = None,
        since: Time = None,
        until: Time = None,
        limit: Limit = 1000,
        cursor: Cursor = None,
    ) -> models.DriftResultPage:
        """First final results in the order of completion, as the detectors take them.

        Each record is there once, as it was when no task of it waited for a judge any more. Times
        are those of evaluation.
        """
        behind, _ = read_cursor(cursor)
        query = DecidedQuery(
            space=caller.space,
            profile=profile,
            since_ns=read_time("since", since),
            until_ns=read_time("until", until),
        )
        found = store.decided_after(Place(*behind) if behind else BEFORE_ALL, limit, query)
        if not found and cursor is None:
            names.check(caller.space, profile)
        has_more = len(found) == limit
        return models.DriftResultPage(
            items=[_result(each) for each in found],
            next_cursor=write_cursor(found[-1].place) if has_more else None,
        )

    @router.get("/drift/slices/{uid}")
    def slices(
        store: TheStore,
        caller: Reader,
        uid: Annotated[str, Path(max_length=_NAME, description="Of one version of a profile.")],
        since: Time = None,
        task: Annotated[str, Query(max_length=_NAME, description="Empty for the record.")] = "",
        service: Text = None,
        environment: Text = None,
    ) -> DriftSlices:
        """Passes and fails by tag, tool and model, before and since a moment.

        At most 5,000 results on each side of it are looked at; without `since` there is no side
        before.
        """
        query = SliceQuery(
            space=caller.space,
            profile_uid=uid,
            task=task,
            since_ns=read_time("since", since) or 0,
            service=service,
            environment=environment,
        )
        found, total = store.slices(query)
        return DriftSlices(
            total=total,
            items=tuple(
                DriftSlice(
                    name=each.name, passed_before=each.passed_before,
                    failed_before=each.failed_before, passed=each.passed, failed=each.failed,
                )
                for each in found
            ),
        )  # fmt: skip

    return router


def _result(each: Observed) -> models.DriftResult:
    return models.DriftResult(
        seq=each.place.seq, ordinal=each.place.ordinal, profile_uid=each.profile_uid,
        service=each.agent.service, environment=each.agent.environment,
        version=each.agent.version, session_id=each.session, at=format_time(each.at_ns),
        evaluation_id=each.evaluation_id,
        outcomes=[
            DriftOutcome(task=task, outcome=outcome) for task, outcome in each.outcomes
        ],
        numbers=[DriftNumber(task=task, number=value) for task, value in each.numbers],
    )  # fmt: skip
