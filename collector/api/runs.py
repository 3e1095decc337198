"""Offline runs: kept to be compared with others, and with what is live."""

import time
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from collector.api.parameters import (
    NOT_FOUND,
    Admin,
    Reader,
    Sender,
    caught_up_router,
)
from collector.api.parts import TheStore
from collector.comparing.runs import RunSummary, kept_summary, row_of
from collector.items.times import format_time
from collector.problem import ProblemError, problems
from collector.store.runs import RunRow
from collector.store.store import Store
from scouter.client.models.runs import RemovedRun
from scouter.errors import ConfigError

_MOST_PROBLEM: Final = 2_000
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object", "description": "As `scouter eval --save` writes it."}
            }
        },
    }
}
_RunId = Annotated[str, Path(max_length=64)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class RunItem(_Answer):
    """A stored run."""

    run_id: str = Field(description="Digest of its file: the same file is one run.")
    name: str
    added_at: str
    added_by: str = Field(description="Id of the token; empty where none was asked for.")
    is_replay: bool = Field(description="False of results of records without scenarios.")
    profiles: dict[str, str] = Field(description="Digest of the profile by alias.")
    records: int
    pass_rate: float = Field(description="Of all task results.")
    scenarios: int
    scenarios_passed: int
    agent: str
    agent_version: str
    ended_at: str | None = Field(description="When the run ended, where its file says so.")


class RunList(_Answer):
    """All runs, the one that came last first."""

    items: list[RunItem]
    next_cursor: None = None


@cache
def runs_router() -> APIRouter:
    """Make the routes below `/api/v1/runs`."""
    router = caught_up_router()

    def keep(
        store: Store, space: str, name: str, body: bytes, token_id: str
    ) -> tuple[RunItem, bool]:
        try:
            row, summary = row_of(space, name, body, added_ns=time.time_ns(), added_by=token_id)
        except (ConfigError, UnicodeDecodeError) as error:
            raise ProblemError(422, str(error)[:_MOST_PROBLEM]) from error
        is_new = store.append_run(row)
        return _item(row, summary), is_new

    @router.get("/runs")
    def runs(store: TheStore, caller: Reader) -> RunList:
        """Runs that can be compared."""
        return RunList(items=[_item(row, kept_summary(row)) for row in store.runs(caller.space)])

    @router.post(
        "/runs",
        status_code=201,
        responses={200: {"model": RunItem}, **problems(422)},
        openapi_extra=_BODY,
    )
    async def push(
        store: TheStore,
        caller: Sender,
        request: Request,
        response: Response,
        name: Annotated[str, Query(max_length=200, description="For people.")] = "",
    ) -> RunItem:
        """Keep the results of a run: 201 if they are new, 200 if the same file is stored.

        At most 32 MiB. Retention takes a run as old as anything else; an erasure takes each run
        that speaks of what is erased.
        """
        body = await request.body()
        item, is_new = await run_in_threadpool(
            keep, store, caller.space, name, body, caller.token_id
        )
        response.status_code = 201 if is_new else 200
        return item

    @router.post("/runs/{run_id}/remove", responses=NOT_FOUND)
    def remove(store: TheStore, caller: Admin, run_id: _RunId) -> RemovedRun:
        """Take a run out."""
        if not store.remove_run(caller.space, run_id):
            raise ProblemError(404, f"no run {run_id!r} is stored; see GET /api/v1/runs")
        return RemovedRun(run_id=run_id)

    return router


def _item(row: RunRow, summary: RunSummary) -> RunItem:
    told = summary.model_dump(exclude={"ended_ns"})
    return RunItem(
        run_id=row.run_id,
        name=row.name,
        added_at=format_time(row.added_ns),
        added_by=row.added_by,
        ended_at=format_time(summary.ended_ns) if summary.ended_ns else None,
        **told,
    )
