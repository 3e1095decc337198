"""Judges and reports for the evaluators of VSS."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scouter.evaluate.judge.ask import Backoff, JudgeCaller
from scouter.evaluate.judge.port import Answer, Judge, JudgeRequest, as_judge

JudgeFunction = Callable[[JudgeRequest], Answer]


def caller_of(judge: JudgeFunction | Judge, max_retries: int = 2) -> JudgeCaller:
    """A judge that is called again without a pause."""
    return JudgeCaller(
        judge=as_judge(judge), max_retries=max_retries, backoff=Backoff(base_s=0.0, cap_s=0.0)
    )


class Replies:
    """Gives these answers, in this order, and keeps the questions."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self.left = list(replies)
        self.prompts: list[str] = []

    def __call__(self, request: JudgeRequest) -> Answer:
        self.prompts.append(request.messages[-1]["content"])
        return self.left.pop(0)


def field_judge(fake: Mapping[str, Any] | None) -> JudgeFunction:
    """A judge that scores a value `fake["single"]`, and discovered fields by their names."""

    def judge(request: JudgeRequest) -> Answer:
        assert fake is not None, "the judge is called, and the vector has none"
        if request.response_schema is None:
            return str(fake["single"])
        names = json.loads(json.dumps(request.response_schema))["properties"]
        return {name: fake[name] for name in names if fake.get(name) is not None}

    return judge
