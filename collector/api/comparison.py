"""Offline runs, and two versions, two periods or a run compared with each other."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from collector.api.parameters import (
    NOT_FOUND,
    Admin,
    Reader,
    Sender,
    Text,
    Time,
    answer_of,
    api_router,
    read_time,
)
from collector.api.parts import TheParts
from collector.comparing.comparison import (
    Compared,
    Flip,
    FlippedRecord,
    Pairing,
    compare_sides,
    figures_of,
    kinds_of,
)
from collector.comparing.live import explain
from collector.comparing.looks import looks_of, record_place
from collector.comparing.runs import RunSummary, row_of, stored_summary
from collector.comparing.side import MOST, Side, Wanted, read_side
from collector.items.times import time_at
from collector.problem import ProblemError, problems
from collector.store.runs import RunRow
from collector.store.store import Store
from scouter.client.models.answer import Page
from scouter.client.models.comparison import (
    AlikeChange,
    ComparedChange,
    ComparedPart,
    ComparedRate,
    ComparedSetup,
    ComparedSide,
    ComparedTrait,
    Comparison,
    Explanation,
    Look,
    RemovedRun,
    RunItem,
    TraceFigures,
    VersionItem,
    Versions,
)
from scouter.errors import ConfigError
from scouter.evaluate.compare.rows import RateComparison
from scouter.evaluate.statistics.explained import Explained

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


def _item(row: RunRow, summary: RunSummary) -> RunItem:
    fields = summary.model_dump(exclude={"ended_ns"})
    return RunItem(
        run_id=row.run_id,
        name=row.name,
        added_at=time_at(row.added_ns),
        added_by=row.added_by,
        ended_at=time_at(summary.ended_ns) if summary.ended_ns else None,
        **fields,
    )


_CHANGES: Final = 20
_LOOK_AT_TRAFFIC: Final = (
    "look at what users ask first: other traffic explains the fall, and no change of behaviour is "
    "seen"
)
_ALIKE: Final = 20
_ComparedRun = Annotated[
    str | None, Query(max_length=64, description="As `GET /api/v1/runs` has it.")
]


router = api_router()


@router.get("/versions")
def versions(
    parts: TheParts, caller: Reader, profile: Annotated[str, Query(max_length=512)]
) -> Versions:
    """Versions of the service behind the newest 20,000 records of a profile, by the hour."""
    return Versions(
        items=tuple(
            answer_of(
                VersionItem, each, first_at=time_at(each.first_ns), last_at=time_at(each.last_ns)
            )
            for each in parts.store.versions(caller.space, profile)
        )
    )


@router.get("/comparison", responses={**NOT_FOUND, **problems(409)})
def comparison(
    parts: TheParts,
    caller: Reader,
    profile: Text = None,
    before_version: Text = None,
    before_since: Time = None,
    before_until: Time = None,
    before_run: _ComparedRun = None,
    version: Text = None,
    since: Time = None,
    until: Time = None,
    run: _ComparedRun = None,
    environment: Text = None,
    require_ruled_out: Annotated[
        float | None,
        Query(ge=0, le=100, description="Inconclusive where a larger fall, in points, may be."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 2000,
) -> Comparison:
    """Compare two versions, two periods, or an offline run with what is live.

    `before_…` name the baseline: a run, or the evaluations of a version in a period; the
    others the side in question. The newest `limit` records of each live side are compared.
    `profile` is needed where a side is live.
    """
    now_ns = time.time_ns()
    before = Wanted(
        run_id=before_run,
        version=before_version,
        since_ns=read_time("before_since", before_since),
        until_ns=read_time("before_until", before_until),
        environment=environment,
        limit=limit,
        now_ns=now_ns,
    )
    after = Wanted(
        run_id=run,
        version=version,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
        environment=environment,
        limit=limit,
        now_ns=now_ns,
    )
    if not profile and None in (before_run, run):
        raise ProblemError(400, "profile: needed, as a side is live")
    if before == after:
        raise ProblemError(400, "both sides are the same; name two versions, periods or runs")
    is_whole = before_run is not None and run is not None
    sides = (
        read_side(parts.store, caller.space, profile or "", before, is_whole=is_whole),
        read_side(parts.store, caller.space, profile or "", after, is_whole=is_whole),
    )
    found = compare_sides(*sides, require_ruled_out)
    kinds = kinds_of(parts.store, caller.space, sides, found.flips)[:_CHANGES]
    looks = looks_of(parts.store, caller.space, sides, [first for first, *_ in kinds])
    changes = [_change(kind, look, sides) for kind, look in zip(kinds, looks, strict=True)]
    explained = None
    if found.pairing is Pairing.APART:
        explained = explain(parts.store, caller.space, sides)
    figures, costs = figures_of(parts.store, caller.space, sides, parts.prices)
    found = replace(found, notes=(*found.notes, *costs))
    shown = tuple(map(_side, sides, (before_run, run), figures))
    return _answer(found, explained, shown, changes, sum(map(len, kinds)))


def _kept(store: Store, space: str, name: str, body: bytes, token_id: str) -> tuple[RunItem, bool]:
    try:
        row, summary = row_of(space, name, body, added_ns=time.time_ns(), added_by=token_id)
    except (ConfigError, UnicodeDecodeError) as error:
        raise ProblemError(422, str(error)[:_MOST_PROBLEM]) from error
    is_new = store.append_run(row)
    return _item(row, summary), is_new


@router.get("/runs")
def runs(parts: TheParts, caller: Reader) -> Page[RunItem]:
    """Runs that can be compared."""
    return Page[RunItem](
        items=tuple(_item(row, stored_summary(row)) for row in parts.store.runs(caller.space))
    )


@router.post(
    "/runs",
    status_code=201,
    responses={200: {"model": RunItem}, **problems(422)},
    openapi_extra=_BODY,
)
async def push(
    parts: TheParts,
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
        _kept, parts.store, caller.space, name, body, caller.token_id
    )
    response.status_code = 201 if is_new else 200
    return item


@router.post("/runs/{run_id}/remove", responses=NOT_FOUND)
def remove(parts: TheParts, caller: Admin, run_id: _RunId) -> RemovedRun:
    """Take a run out."""
    if not parts.store.remove_run(caller.space, run_id):
        raise ProblemError(404, f"no run {run_id!r} is stored; see GET /api/v1/runs")
    return RemovedRun(run_id=run_id)


def _change(
    kind: Sequence[Flip], look: tuple[Look, Look], sides: tuple[Side, Side]
) -> ComparedChange:
    before, after = look
    alike = [each for each in kind[1 : 1 + _ALIKE] if isinstance(each, FlippedRecord)]
    return ComparedChange(
        name=kind[0].name,
        is_worse=kind[0].is_worse,
        before=before,
        after=after,
        alike=tuple(
            AlikeChange(
                name=each.name,
                before=record_place(each.before, is_live=sides[0].run is None),
                after=record_place(each.after, is_live=sides[1].run is None),
            )
            for each in alike
        ),
        more_alike=len(kind) - 1 - len(alike),
    )


def _answer(
    found: Compared,
    explained: Explained | None,
    sides: tuple[ComparedSide, ...],
    changes: list[ComparedChange],
    shown: int,
) -> Comparison:
    before, after = sides
    advice = found.decision.advice
    if advice and explained is not None and explained.is_traffic_alone:
        advice = (_LOOK_AT_TRAFFIC,)
    return Comparison(
        word=found.decision.word,
        headline=found.decision.headline,
        reasons=tuple(found.decision.reasons),
        advice=tuple(advice),
        exit_code=found.decision.exit_code,
        ruled_out=found.ruled_out,
        pairing=found.pairing,
        before=before,
        after=after,
        is_every_look=found.is_open,
        state=found.state,
        explanation=None if explained is None else explanation_of(explained),
        rates=tuple(_rate(row) for row in found.rates),
        changes=tuple(changes),
        more_changes=len(found.flips) - shown,
        notes=tuple(found.notes),
    )


def explanation_of(found: Explained) -> Explanation:
    """Show the parts of a change and its traits."""
    split = found.split
    parts = (("traffic", split.traffic), ("route", split.route), ("behaviour", split.within))
    return Explanation(
        sentence=found.sentence,
        parts=tuple(
            ComparedPart(
                name=name,
                difference=each.difference,
                lower=each.interval[0],
                upper=each.interval[1],
                fell=each.fell,
            )
            for name, each in parts
        ),
        alone_before=split.alone_before,
        alone_after=split.alone_after,
        traits=tuple(
            ComparedTrait(
                name=each.trait,
                before_passed=each.before[0],
                before_count=each.before[1],
                after_passed=each.after[0],
                after_count=each.after[1],
                within=each.within.difference,
                lower=each.within.interval[0],
                upper=each.within.interval[1],
                adjusted_p=each.adjusted_p,
                is_named=each.is_named,
            )
            for each in found.traits
        ),
        setup=tuple(answer_of(ComparedSetup, each) for each in found.setup),
    )


def _side(side: Side, run_id: str | None, figures: TraceFigures | None) -> ComparedSide:
    run = side.run
    parts = [side.results] if run is None else run.dataset_results.values()
    return ComparedSide(
        label=side.label,
        records=sum(len(each) for each in parts),
        scenarios=None if run is None or side.is_bare else len(run.scenario_ids),
        is_cut=side.is_cut,
        is_open=side.is_open,
        run_id=run_id,
        figures=figures,
    )


def _rate(row: RateComparison) -> ComparedRate:
    lower, upper = row.interval if row.has_interval else (None, None)
    return answer_of(
        ComparedRate,
        row,
        profile=row.alias,
        task_id=None if row.is_sum else row.task_id,
        before_passed=row.baseline_passed,
        before_count=row.baseline_count,
        after_passed=row.comparison_passed,
        after_count=row.comparison_count,
        before_rate=row.baseline_pass_rate,
        after_rate=row.comparison_pass_rate,
        lower=lower,
        upper=upper,
    )
