"""The route that compares two versions, two periods, or an offline run with what is live."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import (
    NOT_FOUND,
    Reader,
    Text,
    Time,
    caught_up_router,
    read_time,
)
from collector.api.parts import TheStore
from collector.comparing.comparison import Compared, FlippedRecord, compare_sides
from collector.comparing.figures import figures_of
from collector.comparing.kinds import Flip, kinds_of
from collector.comparing.looks import looks_of, record_place
from collector.comparing.side import MOST, Side, Wanted, read_side
from collector.items.times import format_time
from collector.problem import ProblemError, problems
from scouter.client.models.comparison import (
    AlikeChange,
    ComparedChange,
    ComparedRate,
    ComparedSide,
    Comparison,
    Look,
    TraceFigures,
)
from scouter.evaluate.compare.rows import RateComparison

_CHANGES: Final = 20
_ALIKE: Final = 20
_RunId = Annotated[str | None, Query(max_length=64, description="As `GET /api/v1/runs` has it.")]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class VersionItem(_Answer):
    """A version of the service behind a profile's records."""

    version: str
    first_at: str = Field(description="When the first of its records was evaluated.")
    last_at: str
    records: int


class VersionList(_Answer):
    """Versions, the one that began last first."""

    items: list[VersionItem]


@cache
def comparison_router() -> APIRouter:
    """Make the routes `/api/v1/comparison` and `/api/v1/versions`."""
    router = caught_up_router()

    @router.get("/versions")
    def versions(
        store: TheStore, caller: Reader, profile: Annotated[str, Query(max_length=512)]
    ) -> VersionList:
        """Versions of the service behind the newest 20,000 evaluations of a profile."""
        return VersionList(
            items=[
                VersionItem(
                    version=each.version,
                    first_at=format_time(each.first_ns),
                    last_at=format_time(each.last_ns),
                    records=each.records,
                )
                for each in store.versions(caller.space, profile)
            ]
        )

    @router.get("/comparison", responses={**NOT_FOUND, **problems(409)})
    def comparison(
        store: TheStore,
        caller: Reader,
        profile: Text = None,
        before_version: Text = None,
        before_since: Time = None,
        before_until: Time = None,
        before_run: _RunId = None,
        version: Text = None,
        since: Time = None,
        until: Time = None,
        run: _RunId = None,
        environment: Text = None,
        require_ruled_out: Annotated[
            float | None,
            Query(ge=0, le=100, description="Inconclusive where a larger fall, in points, may be."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 1000,
    ) -> Comparison:
        """Compare two versions, two periods, or an offline run with what is live.

        `before_…` name the baseline: a run, or the evaluations of a version in a period; the
        others the side in question. The newest `limit` records of each live side are compared, by
        the tests of `scouter compare`. `profile` is needed where a side is live.
        """
        before = Wanted(
            run_id=before_run,
            version=before_version,
            since_ns=read_time("before_since", before_since),
            until_ns=read_time("before_until", before_until),
            environment=environment,
            limit=limit,
        )
        after = Wanted(
            run_id=run,
            version=version,
            since_ns=read_time("since", since),
            until_ns=read_time("until", until),
            environment=environment,
            limit=limit,
        )
        if not profile and None in (before_run, run):
            raise ProblemError(400, "profile: needed, as a side is live")
        if before == after:
            raise ProblemError(400, "both sides are the same; name two versions, periods or runs")
        is_whole = before_run is not None and run is not None
        sides = (
            read_side(store, caller.space, profile or "", before, is_whole=is_whole),
            read_side(store, caller.space, profile or "", after, is_whole=is_whole),
        )
        found = compare_sides(*sides, require_ruled_out)
        kinds = kinds_of(store, caller.space, sides, found.flips)[:_CHANGES]
        looks = looks_of(store, caller.space, sides, [first for first, *_ in kinds])
        changes = [_change(kind, look, sides) for kind, look in zip(kinds, looks, strict=True)]
        figures = figures_of(store, caller.space, sides)
        shown = tuple(map(_side, sides, (before_run, run), figures))
        return _answer(found, shown, changes, sum(map(len, kinds)))

    return router


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
    found: Compared, sides: tuple[ComparedSide, ...], changes: list[ComparedChange], told: int
) -> Comparison:
    before, after = sides
    return Comparison(
        word=found.decision.word,
        headline=found.decision.headline,
        reasons=tuple(found.decision.reasons),
        advice=tuple(found.decision.advice),
        exit_code=found.decision.exit_code,
        ruled_out=found.ruled_out,
        pairing=found.pairing,
        before=before,
        after=after,
        rates=tuple(_rate(row) for row in found.rates),
        changes=tuple(changes),
        more_changes=len(found.flips) - told,
        notes=tuple(found.notes),
    )


def _side(side: Side, run_id: str | None, figures: TraceFigures | None) -> ComparedSide:
    run = side.run
    parts = [side.results] if run is None else run.dataset_results.values()
    return ComparedSide(
        label=side.label,
        records=sum(len(each) for each in parts),
        scenarios=None if run is None or side.is_bare else len(run.scenario_ids),
        is_cut=side.is_cut,
        run_id=run_id,
        figures=figures,
    )


def _rate(row: RateComparison) -> ComparedRate:
    lower, upper = row.interval if row.has_interval else (None, None)
    return ComparedRate(
        label=row.label,
        profile=row.alias,
        task_id=None if row.is_sum else row.task_id,
        before_passed=row.baseline_passed,
        before_count=row.baseline_count,
        after_passed=row.comparison_passed,
        after_count=row.comparison_count,
        before_rate=row.baseline_pass_rate,
        after_rate=row.comparison_pass_rate,
        difference=row.difference,
        lower=lower,
        upper=upper,
        fell=row.fell,
        rose=row.rose,
        p_value=row.p_value,
        adjusted_p=row.adjusted_p,
        word=row.word,
        reason=row.reason,
    )
