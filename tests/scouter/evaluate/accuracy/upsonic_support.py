"""Agents and judges for the evaluators of Upsonic."""

from collections.abc import Callable, Sequence
from typing import Any

from scouter.evaluate.judge.port import JudgeRequest


def judge_of(scores: Sequence[float]) -> Callable[[JudgeRequest], dict[str, Any]]:
    """A judge that gives these scores, in this order."""
    left = list(scores)

    def judge(request: JudgeRequest) -> dict[str, Any]:
        assert request.response_schema is not None
        score = left.pop(0)
        return {"score": score, "reasoning": f"why{score}", "is_met": score > 5, "critique": "c"}

    return judge


class Agent:
    """Answers `R1`, then `R2`."""

    def __init__(self) -> None:
        self.queries: list[object] = []

    async def __call__(self, query: object) -> str:
        self.queries.append(query)
        return f"R{len(self.queries)}"
