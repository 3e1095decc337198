"""A judge is called again where its answer is of no use, whoever sees that it is."""

import asyncio

import pytest
from pydantic import JsonValue

from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, as_judge
from scouter.evaluate.outcome import Reason


def of(*answers: JsonValue | JudgeError) -> tuple[JudgeCaller, list[JudgeRequest]]:
    requests: list[JudgeRequest] = []

    async def answer(request: JudgeRequest) -> JsonValue:
        requests.append(request)
        found = answers[len(requests) - 1]
        if isinstance(found, JudgeError):
            raise found
        return found

    return JudgeCaller(judge=as_judge(answer)), requests


def number(reply: JudgeReply) -> int:
    if not isinstance(reply.response, int):
        raise JudgeError(Reason.PARSE, "no number")
    return reply.response


@pytest.mark.parametrize("first", ["seven", JudgeError(Reason.PARSE, "no JSON")])
def test_what_cannot_be_read_is_requested_again(first: JsonValue | JudgeError) -> None:
    judge, requests = of(first, 7)
    assert asyncio.run(judge.ask("t", (), number)) == 7
    assert len(requests) == 2


def test_asking_ends_after_three_times() -> None:
    judge, requests = of(*[JudgeError(Reason.PARSE, "no JSON")] * 3)
    with pytest.raises(JudgeError, match=r"no JSON \(called 3 times\)"):
        asyncio.run(judge.ask("t", (), number))
    assert len(requests) == 3


@pytest.mark.parametrize("reason", [Reason.REFUSAL, Reason.BUDGET])
def test_what_another_time_does_not_mend_is_requested_once(reason: Reason) -> None:
    judge, requests = of(JudgeError(reason, "no"), 7)
    with pytest.raises(JudgeError, match=r"^no$"):
        asyncio.run(judge.ask("t", (), number))
    assert len(requests) == 1
