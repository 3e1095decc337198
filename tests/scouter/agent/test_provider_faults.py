"""Every fault of a provider, in each protocol, through the vendors' own clients."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from scouter.agent.entries import Kind
from scouter.agent.faults import is_unpaid
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.engine.asking import Backoff, ask
from scouter.evaluate.judge import JudgeError, JudgeReply
from scouter.mock.llm_faults import Fault, FaultKind
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.agent.providers import ENVIRON, KEY, KINDS, entry, question

TABLE = Path(__file__).parents[2] / "cases/provider_faults.txt"


class Case(NamedTuple):
    fault: FaultKind
    kind: Kind
    reason: str
    is_retried: bool
    text: str


def cases() -> Iterator[Case]:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            fault, protocol, reason, again, text = (cell.strip() for cell in line.split("|"))
            for kind in KINDS if protocol == "*" else (protocol,):
                yield Case(
                    cast("FaultKind", fault), cast("Kind", kind), reason, again == "yes", text
                )


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.fault}-{case.kind}")
def test_a_fault_is_said_in_a_judges_terms(case: Case) -> None:
    """Fault, then the right answer: the engine asks again where the table says so, once."""

    async def main(server: LLMTestServer) -> tuple[JudgeError, int, JudgeReply | JudgeError]:
        judge = ModelJudge([entry(case.kind, server, timeout_s=2.0)], environ=ENVIRON)
        with pytest.raises(JudgeError) as raised:
            await judge.ask(question(case.kind))
        calls = server.calls
        backoff = Backoff(base_s=0.0)
        again = await ask(judge, question(case.kind), 3, backoff, asyncio.Semaphore())
        return raised.value, calls, again

    fault = Fault(kind=case.fault, seconds=5.0)
    with LLMTestServer({"score": 4, "reason": "good"}, script=[fault, fault], key=KEY) as server:
        error, calls, again = asyncio.run(main(server))

    assert calls == 1, "the vendor's client must not ask again by itself"
    assert error.reason == case.reason
    assert error.is_worth_retrying == case.is_retried
    assert case.text in error.message
    assert f"our-{case.kind}" in error.message
    assert server.calls == (3 if case.is_retried else 2)
    if case.is_retried:
        assert isinstance(again, JudgeReply)
        assert again.response == {"score": 4, "reason": "good"}


@pytest.mark.parametrize(
    ("status", "is_free"),
    [
        (400, True), (401, True), (404, True), (408, True), (429, True), (500, True), (503, True),
        (529, True), (499, False), (502, False), (504, False), (520, False), (522, False),
        (524, False),
    ],
)  # fmt: skip
def test_what_a_gateway_says_may_have_been_paid(status: int, is_free: bool) -> None:
    """524 is Cloudflare's word for 504: the provider may have answered, only too late."""
    assert is_unpaid(ModelHTTPError(status, "a model")) is is_free


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["too_many", "unavailable"])
def test_retry_after_is_read_in_both_forms(kind: Kind, fault: FaultKind) -> None:
    """Seconds, and a date (RFC 9110, 10.2.3); a date has whole seconds."""
    late = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    script = [Fault(kind=fault, retry_after=after) for after in ("7", late)]

    async def pause(judge: ModelJudge, name: str) -> float | None:
        with pytest.raises(JudgeError) as raised:
            await judge.ask(question(kind, provider=name))
        return raised.value.retry_after_s

    with LLMTestServer(script=script, key=KEY) as server:
        # Two entries, as a pause holds back all questions to one.
        names = "seconds", "date"
        judge = ModelJudge([entry(kind, server, name=name) for name in names], environ=ENVIRON)
        first, second = (asyncio.run(pause(judge, name)) for name in names)

    assert first == 7
    assert second is not None
    assert 30 < second <= 40


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_of_another_form_goes_through(kind: Kind) -> None:
    """The engine holds answers against the schema; the judge hands over what it got."""
    with LLMTestServer(script=[Fault(kind="wrong_schema")], key=KEY) as server:
        judge = ModelJudge([entry(kind, server)], environ=ENVIRON)
        reply = asyncio.run(judge.ask(question(kind)))

    assert reply.response == {"no": ["such", "form"]}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_there(kind: Kind) -> None:
    with LLMTestServer() as server:
        gone = entry(kind, server)
    judge = ModelJudge([gone], environ=ENVIRON)
    with pytest.raises(JudgeError, match="the connection failed") as raised:
        asyncio.run(judge.ask(question(kind)))

    assert raised.value.is_worth_retrying
