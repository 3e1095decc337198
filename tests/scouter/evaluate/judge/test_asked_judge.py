"""A judge is asked again where its answer is of no use, whoever sees that it is."""

import asyncio

import pytest
from pydantic import JsonValue

from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, as_judge
from scouter.evaluate.outcome import Reason


def of(*answers: JsonValue | JudgeError) -> tuple[JudgeCaller, list[JudgeRequest]]:
    asked: list[JudgeRequest] = []

    async def answer(request: JudgeRequest) -> JsonValue:
        asked.append(request)
        found = answers[len(asked) - 1]
        if isinstance(found, JudgeError):
            raise found
        return found

    return JudgeCaller(judge=as_judge(answer)), asked


def number(reply: JudgeReply) -> int:
    if not isinstance(reply.response, int):
        raise JudgeError(Reason.PARSE, "no number")
    return reply.response


@pytest.mark.parametrize("first", ["seven", JudgeError(Reason.PARSE, "no JSON")])
def test_what_cannot_be_read_is_asked_again(first: JsonValue | JudgeError) -> None:
    judge, asked = of(first, 7)
    assert asyncio.run(judge.ask("t", (), number)) == 7
    assert len(asked) == 2


def test_asking_ends_after_three_times() -> None:
    judge, asked = of(*[JudgeError(Reason.PARSE, "no JSON")] * 3)
    with pytest.raises(JudgeError, match=r"no JSON \(asked 3 times\)"):
        asyncio.run(judge.ask("t", (), number))
    assert len(asked) == 3


@pytest.mark.parametrize("reason", [Reason.REFUSAL, Reason.BUDGET])
def test_what_another_time_does_not_mend_is_asked_once(reason: Reason) -> None:
    judge, asked = of(JudgeError(reason, "no"), 7)
    with pytest.raises(JudgeError, match=r"^no$"):
        asyncio.run(judge.ask("t", (), number))
    assert len(asked) == 1
