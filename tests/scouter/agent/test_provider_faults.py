"""Every fault of a provider, in each protocol, through the vendors' own clients."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from scouter.agent.entries import Kind, ProviderEntry
from scouter.agent.faults import is_unpaid
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.judge.ask import Backoff, ask
from scouter.evaluate.judge.port import JudgeError, JudgeReply
from scouter.mock.llm_protocols import Fault, FaultKind
from scouter.mock.llm_server import HttpRequest, HttpResponse, HttpServer, LLMTestServer
from tests.scouter.agent.providers import ENVIRON, KEY, KINDS, VARIABLE, entry, question
from tests.support.far_side import ENDLESS, dripping, far_side, head

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


UNREADABLE = "it could not be read"
PAGE = "<html><body><h1>502</h1>\n no upstream</body></html>"
LOADING = '{"error": {"message": "the model\\nis loading", "type": "server_error", "code": 1}}'
MALFORMED: list[tuple[Kind, str, str]] = [
    ("openai", '{"id": "x", "created": 1, "model": "m", "object": "chat.completion", '
     '"choices": []}', UNREADABLE),
    ("openai", '{"id": "x", "choices": [null]}', UNREADABLE),
    ("openai", '{"choices": null}', "Invalid response"),
    ("openai", "[]", "Invalid response"),
    ("openai", "[" * 3_000 + "]" * 3_000, "malformed: it says '[[["),
    ("anthropic", '{"id": "x"}', UNREADABLE),
    ("anthropic", '{"content": null}', UNREADABLE),
    ("anthropic", '{"content": [null]}', UNREADABLE),
    ("anthropic", '{"content": [{"type": "text", "text": "good"}]}', UNREADABLE),
    ("anthropic", "[]", UNREADABLE),
    ("google", '{"candidates": []}', "malformed: it says"),
    ("google", '{"candidates": [{"content": null}]}', "it holds no answer"),
    ("google", '{"candidates": [{"content": 3}]}', UNREADABLE),
    ("google", '{"candidates": [{"content": {"parts": [null]}}]}', UNREADABLE),
    ("google", "3", UNREADABLE),
    *((kind, LOADING, "it says 'the model is loading'") for kind in KINDS),
    *((kind, PAGE, "malformed: it says '<html><body><h1>502</h1> no upstream") for kind in KINDS),
]  # fmt: skip


def fault_at(kind: Kind, response: HttpResponse) -> JudgeError:
    """The judge's error about a provider that always gives this response."""

    async def respond(_: HttpRequest) -> HttpResponse:
        return response

    server = HttpServer(respond)
    server.start()
    try:
        return fault_of(kind, f"http://127.0.0.1:{server.port}", timeout_s=5.0)
    finally:
        server.stop()


def fault_of(kind: Kind, url: str, timeout_s: float) -> JudgeError:
    """The judge's error about the provider at an address."""
    base = url + ("/v1" if kind == "openai" else "")
    provider = ProviderEntry(
        name=f"our-{kind}", kind=kind, base_url=base, key_variable=VARIABLE, timeout_s=timeout_s
    )
    judge = ModelJudge([provider], environ=ENVIRON)
    with pytest.raises(JudgeError) as raised:
        asyncio.run(judge.ask(question(kind)))
    return raised.value


@pytest.mark.parametrize(("kind", "body", "words"), MALFORMED)
def test_an_answer_that_breaks_its_readers_is_requested_again(
    kind: Kind, body: str, words: str
) -> None:
    """A server that loads its model answers so; nobody can say that it took nothing."""
    media = "text/html" if body == PAGE else "application/json"
    error = fault_at(kind, HttpResponse(body=body.encode(), headers={"Content-Type": media}))

    assert (error.reason, error.is_worth_retrying) == ("provider", True)
    assert "malformed" in error.message
    assert words in error.message
    assert error.usage is None or error.usage.cost_usd is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "is_retried"), [(500, True), (503, True), (400, False), (404, False)]
)
def test_a_status_counts_for_more_than_a_body(kind: Kind, status: int, is_retried: bool) -> None:
    """The same bodies below another status are the provider's failure."""
    error = fault_at(kind, HttpResponse(body=b'{"choices": [], "content": 3}', status=status))

    assert (error.reason, error.is_worth_retrying) == ("provider", is_retried)
    assert str(status) in error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 200, 240, 280])
def test_a_page_that_repeats_the_key_is_reported_without_it(kind: Kind, before: int) -> None:
    """Nor is a part of it reported, where the message is cut in the midst of the key."""
    error = fault_at(kind, HttpResponse(body=f"<p>{'x' * before}{KEY}</p>".encode()))

    assert "malformed" in error.message
    assert KEY[:4] not in error.message


def test_an_answer_that_ended_empty_is_the_models() -> None:
    """The model was called, and said that it had said all."""
    body = b'{"candidates": [{"content": {}, "finishReason": "STOP"}]}'
    error = fault_at("google", HttpResponse(body=body))

    assert (error.reason, error.is_worth_retrying) == ("parse", False)
    assert "the model's answer is empty" in error.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_cannot_be_unpacked(kind: Kind) -> None:
    """Two of the clients call whatever goes wrong below them a connection that failed."""
    packed = HttpResponse(body=b'{"choices": []}', headers={"Content-Encoding": "gzip"})
    error = fault_at(kind, packed)

    assert (error.reason, error.is_worth_retrying) == ("provider", True)
    assert "the answer of 127.0.0.1 cannot be unpacked" in error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packing", ENDLESS)
def test_an_answer_without_an_end_is_refused(kind: Kind, packing: str) -> None:
    """Packed or not; it is not requested again, as each answer may be paid for."""
    with far_side(ENDLESS[packing]) as far:
        error = fault_of(kind, far.url, timeout_s=60.0)
        assert far.wait_until_hung_up()

    assert (error.reason, error.is_worth_retrying) == ("provider", False)
    assert "the answer of 127.0.0.1 is larger than 4,194,304 bytes" in error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [head("Content-Length: 1000000"), b"HTTP/1.1 200 OK\r\nX: "])
def test_an_answer_that_drips_reaches_the_time_limit(kind: Kind, start: bytes) -> None:
    """In its body or in its headers: each byte keeps to the wait for the next one."""
    with far_side(dripping(start)) as far:
        error = fault_of(kind, far.url, timeout_s=0.5)

    assert (error.reason, error.is_worth_retrying) == ("provider", True)
    assert "the time limit was reached" in error.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_ours_is_no_malformed_answer(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before a question goes out, nor once the vendor's client has read the answer."""

    def broken(*_: object, **__: object) -> object:
        raise IndexError("list index out of range")

    def said(judge: ModelJudge) -> JudgeError:
        with pytest.raises(JudgeError) as raised:
            asyncio.run(judge.ask(question(kind)))
        return raised.value

    with LLMTestServer({"score": 4, "reason": "good"}, key=KEY) as server:
        with monkeypatch.context() as patch:
            patch.setattr("httpx2.AsyncHTTPTransport.handle_async_request", broken)
            before = said(ModelJudge([entry(kind, server)], environ=ENVIRON))
        monkeypatch.setattr("scouter.agent.answer_form.AnswerForm.read", broken)
        after = said(ModelJudge([entry(kind, server)], environ=ENVIRON))

    assert (before.reason, after.reason) == ("provider", "provider")
    assert after.permanent
    assert "IndexError: list index out of range" in after.message
    assert "malformed" not in before.message + after.message


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
