"""A collector whose judge scores records on a scale."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Service
from tests.collector.judging.test_service import entries, wait_decided

_ANSWER = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}


def judge(task_id: str = "tone", scale: tuple[float, float] | None = (1, 5)) -> LLMJudgeTask:
    """A task that passes from 4 on."""
    prompt = Prompt("Rate ${answer}.", "model-1", "house", output_type=_ANSWER)
    return LLMJudgeTask(task_id, prompt, 4, "score", "GreaterThanOrEqual", scale=scale)


def profile() -> AgentEvalProfile:
    """The desk's profile: `tone` from 1 to 5, `wide` from 0 to 100, and `bare` without a scale."""
    tasks = [judge(), judge("wide", (0, 100)), judge("bare", None)]
    return AgentEvalProfile(tasks, alias="desk")


def _rate(request: LLMRequest) -> dict[str, Any]:
    """The number in the answer."""
    return {"score": int(re.findall("=([1-5])", request.text)[-1])}


@contextmanager
def scored_desk(folder: Path, scores: Sequence[int]) -> Generator[Service]:
    """Serve a collector with one record for each score of the judge: `u0`, `u1`, and so on."""
    file = profile().save_to_json(folder / "desk.json")
    with LLMTestServer(_rate) as server:
        service = Service(folder, profile=[str(file)], providers=entries(server), drain_s="1s")
        try:
            service.send(
                *(
                    {"uid": f"u{at}", "profile": "desk", "context": {"answer": f"no {at} ={score}"}}
                    for at, score in enumerate(scores)
                )
            )
            service.wait_for(len(scores))
            wait_decided(service)
            yield service
        finally:
            service.stop()
