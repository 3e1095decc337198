"""Judges: their stored answers, which release checks share, and how they decide gold items."""

import json
from typing import Annotated, Final

from fastapi import Body, Path
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import NOT_FOUND, Profiler, Reader, api_router
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.judging.gold import GoldTask
from collector.judging.gold_items import GoldWindow as Window
from collector.problem import ProblemError
from scouter.agent.cache import MAX_CHARACTERS
from scouter.client.models.labels import (
    GoldAgreement,
    GoldJudge,
    GoldJudges,
    GoldWindow,
    JudgeAnswer,
    KeptJudgeAnswer,
)
from scouter.evaluate.files.json_text import load_strictly
from scouter.evaluate.intervals import Interval
from scouter.evaluate.judge.port import JudgeReply

_KEY: Final = "The SHA-256 of a question, as `scouter.agent.cached_judge` makes it."

Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description=_KEY)]


class JudgeAnswerBody(BaseModel):
    """Answer of a judge to one question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    response: str = Field(
        max_length=MAX_CHARACTERS,
        description="The answer, written as JSON: as it stands, whatever JSON can say.",
    )
    model: str = Field(default="", max_length=512, description="The model that answered.")


answers = api_router("/judge-answers", tag="judges", is_caught_up=False)


@answers.get("/{key}", responses=NOT_FOUND)
async def answer(parts: TheParts, caller: Reader, key: Key) -> JudgeAnswer:
    """Answer to a question that the collector's own judges, or a client, sent before."""
    found = (
        None
        if parts.answers is None
        else await parts.answers.find(caller.space, bytes.fromhex(key))
    )
    if found is None:
        raise ProblemError(404, "nobody has sent this question, or it was too long ago")
    return JudgeAnswer(response=json.dumps(found.response), model=found.model)


@answers.put("/{key}")
async def keep(
    parts: TheParts, caller: Profiler, key: Key, body: Annotated[JudgeAnswerBody, Body()]
) -> KeptJudgeAnswer:
    """Keep an answer for other clients; the collector's own judges do not read it."""
    try:
        reply = JudgeReply(response=load_strictly(body.response), model=body.model)
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, "response: expected a text that is JSON (RFC 8259)") from error
    if parts.answers is None:
        return KeptJudgeAnswer(kept=False)
    await parts.answers.keep(caller.space, bytes.fromhex(key), reply)
    return KeptJudgeAnswer(kept=True)


gold = api_router(is_caught_up=False)


@gold.get("/judges/gold")
def gold_judges(parts: TheParts, caller: Reader) -> GoldJudges:
    """Agreement of judges with people on gold items over time; no other answer has it."""
    if parts.gold is None:
        return GoldJudges(items=())
    tasks = [task for task in parts.gold.tasks() if task.space == caller.space]
    return GoldJudges(items=tuple(_judge(task, parts.gold.windows(task)) for task in tasks))


def _judge(task: GoldTask, windows: list[Window]) -> GoldJudge:
    return GoldJudge(
        profile=task.alias,
        profile_version=task.identity.profile_digest,
        task_id=task.task.id,
        provider=task.identity.provider,
        model=task.identity.model,
        items=len(task.items),
        per_day=task.schedule.per_day,
        window=task.schedule.window,
        windows=tuple(_point(each) for each in windows),
    )


def _point(window: Window) -> GoldWindow:
    counts, drift = window.confusion, window.drift
    return GoldWindow(
        start=time_at(window.start_ns),
        end=time_at(window.end_ns),
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
