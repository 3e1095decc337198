"""Sessions: which there are, and what one consists of."""

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from collector.api import models
from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    NOT_FOUND,
    Cursor,
    Limit,
    Profile,
    Reader,
    Time,
    caught_up_router,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import TheJudges, TheNames, TheStore
from collector.api.records import RecordItem, record_item
from collector.problem import ProblemError
from collector.receivers.times import format_time
from collector.storage.port.lists import EvaluationQuery, RecordQuery, SessionQuery, SessionSummary

_MOST: Final = 1000


class SessionItem(BaseModel):
    """A session and its records, counted by the outcome of the latest evaluation on each."""

    model_config = ConfigDict(frozen=True)

    session_id: str = Field(description="Or the uid of a record that has none.")
    records: int
    traces: int
    first_at: str = Field(description="When its first record was made.")
    last_at: str
    passed: int
    failed: int
    errored: int
    skipped: int
    undecided: int = Field(
        description="Records without an evaluation: waiting, pending or dead-lettered."
    )


class SessionPage(BaseModel):
    """Sessions, the one with the newest record first."""

    model_config = ConfigDict(frozen=True)

    items: list[SessionItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class SessionDetail(SessionItem):
    """A session with what it consists of."""

    model_config = ConfigDict(frozen=True)

    items: list[RecordItem] = Field(
        description=f"The {_MOST} newest records; `/records?session_id=` has all."
    )
    evaluations: list[models.Evaluation] = Field(
        description=f"The {_MOST} newest evaluations, on its records and on itself."
    )
    trace_ids: list[str] = Field(description=f"The first {_MOST}, in order of acceptance.")


async def session_filter(
    caller: Reader, profile: Profile = None, since: Time = None, until: Time = None
) -> SessionQuery:
    """A dependency of routes: reads the filter."""
    return SessionQuery(
        space=caller.space,
        profile=profile,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


@cache
def sessions_router() -> APIRouter:
    """Make the routes below `/api/v1/sessions`."""
    router = caught_up_router()

    @router.get("/sessions", responses=NOT_FOUND)
    def sessions(
        store: TheStore,
        names: TheNames,
        query: Annotated[SessionQuery, Depends(session_filter)],
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> SessionPage:
        """Sessions with a record that is asked for, the one with the newest such record first.

        Times are those of acceptance. The counts include all records of a session.
        """
        before, as_of = read_cursor(cursor)
        page = store.sessions(replace(query, as_of=as_of, limit=limit, before=before))
        if not page.items and cursor is None:
            names.check(query.space, query.profile)
        return SessionPage(
            items=[SessionItem(**_counts(each)) for each in page.items],
            next_cursor=write_cursor(page.next_before, page.as_of),
        )

    @router.get("/sessions/{session_id:path}", responses=NOT_FOUND)
    def session(
        store: TheStore,
        judges: TheJudges,
        caller: Reader,
        session_id: Annotated[str, Path(max_length=512)],
    ) -> SessionDetail:
        """One session: its records, evaluations and traces."""
        space = caller.space
        found = store.session(space, session_id)
        if found is None:
            raise ProblemError(404, f"no record of a session {session_id!r} is stored")
        records = store.records(RecordQuery(space=space, session_id=session_id, limit=_MOST))
        newest = store.evaluations(EvaluationQuery(space=space, session_id=session_id, limit=_MOST))
        return SessionDetail(
            **_counts(found),
            items=[record_item(each) for each in records.items],
            evaluations=[evaluation_answer(each, judges) for each in newest.items],
            trace_ids=store.session_traces(space, session_id, _MOST),
        )

    return router


def _counts(summary: SessionSummary) -> dict[str, Any]:
    return {
        "session_id": summary.session_id,
        "records": summary.records,
        "traces": summary.traces,
        "first_at": format_time(summary.first_ns),
        "last_at": format_time(summary.last_ns),
        "passed": summary.passed,
        "failed": summary.failed,
        "errored": summary.errored,
        "skipped": summary.skipped,
        "undecided": summary.undecided,
    }
