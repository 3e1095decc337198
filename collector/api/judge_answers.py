"""Routes for kept answers of judges: a cache that release checks share."""

import json
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict, Field

from collector.api.parameters import COMMON, NOT_FOUND, PROBLEMS, Profiler, Reader
from collector.api.parts import TheAnswers
from collector.problem import ProblemError
from scouter.agent.cache.port import MAX_CHARACTERS
from scouter.client.models.judges import KeptJudgeAnswer
from scouter.evaluate.files.json_text import load_strictly
from scouter.evaluate.judge.port import JudgeReply

_KEY: Final = "The SHA-256 of a question, as `scouter.agent.cache.keys` makes it."

Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description=_KEY)]


class JudgeAnswer(BaseModel):
    """Answer of a judge to one question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    response: str = Field(
        max_length=MAX_CHARACTERS,
        description="The answer, written as JSON: as it stands, whatever JSON can say.",
    )
    model: str = Field(default="", max_length=512, description="The model that answered.")


@cache
def judge_answers_router() -> APIRouter:
    """Make the routes of the cache."""
    router = APIRouter(
        prefix="/api/v1/judge-answers", tags=["judges"], responses=PROBLEMS, dependencies=COMMON
    )

    @router.get("/{key}", responses=NOT_FOUND)
    async def answer(answers: TheAnswers, caller: Reader, key: Key) -> JudgeAnswer:
        """Answer to a question that the collector's own judges, or a client, asked before."""
        found = None if answers is None else await answers.find(caller.space, bytes.fromhex(key))
        if found is None:
            raise ProblemError(404, "nobody has asked this, or it was too long ago")
        return JudgeAnswer(response=json.dumps(found.response), model=found.model)

    @router.put("/{key}")
    async def keep(
        answers: TheAnswers, caller: Profiler, key: Key, body: Annotated[JudgeAnswer, Body()]
    ) -> KeptJudgeAnswer:
        """Keep an answer for other clients; the collector's own judges do not read it."""
        try:
            reply = JudgeReply(response=load_strictly(body.response), model=body.model)
        except (ValueError, RecursionError) as error:
            raise ProblemError(400, "response: expected a text that is JSON (RFC 8259)") from error
        if answers is None:
            return KeptJudgeAnswer(kept=False)
        await answers.keep(caller.space, bytes.fromhex(key), reply)
        return KeptJudgeAnswer(kept=True)

    return router
