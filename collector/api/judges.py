"""The judges of active profiles: who they are, and how they decide gold items."""

from functools import cache

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import COMMON, PROBLEMS, Reader
from collector.api.parts import TheGold
from collector.items.times import format_time
from collector.judging.gold import GoldTask
from collector.judging.gold_windows import GoldWindow
from scouter.client.models.judges import GoldAgreement
from scouter.evaluate.intervals import Interval


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class GoldPoint(_Answer):
    """One window of gold items."""

    start: str
    end: str
    is_complete: bool = Field(description="Its time is over; only then it is tested.")
    sensitivity: GoldAgreement = Field(description="Of items that people pass.")
    specificity: GoldAgreement = Field(description="Of items that people fail.")
    undecided: int = Field(description="Items that the judge neither passed nor failed.")
    has_drifted: bool | None = Field(
        description="Decided otherwise than in the calibration, at a level of 1 % for both rates "
        "together; null while the window goes on, and without a calibration of this judge."
    )
    sensitivity_p: float | None = Field(description="Fisher's exact test, corrected (Holm).")
    specificity_p: float | None


class GoldJudge(_Answer):
    """A judge task of an active profile, and its gold items."""

    profile: str = Field(description="Alias of the profile.")
    profile_version: str
    task_id: str
    provider: str
    model: str
    items: int
    per_day: float
    window: int = Field(description="Items that are held together against the calibration.")
    windows: list[GoldPoint] = Field(description="By time; the last one mostly goes on.")


class GoldJudges(_Answer):
    """By alias, tasks in the profile's order."""

    items: list[GoldJudge]


@cache
def judges_router() -> APIRouter:
    """Make the route `/api/v1/judges/gold`."""
    router = APIRouter(
        prefix="/api/v1", tags=["results"], responses=PROBLEMS, dependencies=[*COMMON]
    )

    @router.get("/judges/gold")
    def gold_judges(gold: TheGold, caller: Reader) -> GoldJudges:
        """Agreement of judges with people on gold items over time; no other answer has it."""
        if gold is None:
            return GoldJudges(items=[])
        tasks = [task for task in gold.tasks() if task.space == caller.space]
        return GoldJudges(items=[_judge(task, gold.windows(task)) for task in tasks])

    return router


def _judge(task: GoldTask, windows: list[GoldWindow]) -> GoldJudge:
    return GoldJudge(
        profile=task.alias,
        profile_version=task.identity.profile_digest,
        task_id=task.task.id,
        provider=task.identity.provider,
        model=task.identity.model,
        items=len(task.items),
        per_day=task.schedule.per_day,
        window=task.schedule.window,
        windows=[_point(each) for each in windows],
    )


def _point(window: GoldWindow) -> GoldPoint:
    counts, drift = window.confusion, window.drift
    return GoldPoint(
        start=format_time(window.start_ns),
        end=format_time(window.end_ns),
        is_complete=window.is_complete,
        sensitivity=_agreed(counts.good_passed, counts.good, counts.sensitivity_interval()),
        specificity=_agreed(counts.bad_failed, counts.bad, counts.specificity_interval()),
        undecided=window.undecided,
        has_drifted=None if drift is None else drift.has_drifted,
        sensitivity_p=None if drift is None else drift.sensitivity_p,
        specificity_p=None if drift is None else drift.specificity_p,
    )


def _agreed(agreed: int, items: int, interval: Interval) -> GoldAgreement:
    lower, upper = interval
    rate = agreed / items if items else None
    return GoldAgreement(items=items, agreed=agreed, rate=rate, lower=lower, upper=upper)
