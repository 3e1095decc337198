"""Keys stay where they are: in the environment, and in the header of a request."""

import asyncio
import gc
import io
import logging
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, cast

import pytest

from scouter.agent.entries import Kind, ProviderEntry
from scouter.agent.model_judge import ModelJudge
from scouter.errors import ConfigError
from scouter.evaluate.judge.ask import Backoff, ask
from scouter.evaluate.judge.port import JudgeError
from scouter.mock.llm_protocols import Fault, FaultKind
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.agent.providers import ENVIRON, KEY, KINDS, VARIABLE, entry, question

KINDS_OF_FAULTS: tuple[FaultKind, ...] = (
    "wrong_key", "too_many", "unavailable", "malformed", "cut", "slow", "refusal", "truncated",
    "unknown_model",
)  # fmt: skip


def everything(found: object, depth: int = 0) -> Iterator[str]:
    """All texts of an object, and those of all that it holds, with chains of errors."""
    yield from (repr(found), str(found))
    if depth > 6:
        return
    given, kind = cast("Any", found), cast("Any", type(found))
    inside: list[Any] = []
    if isinstance(found, BaseException):
        inside += [found.__cause__, found.__context__, *found.args]
        whole = traceback.TracebackException.from_exception(found, capture_locals=True)
        yield "".join(whole.format())
    if isinstance(found, dict):
        inside += [*given.values()]
    elif isinstance(found, list | tuple | set):
        inside += [*given]
    inside += [*getattr(given, "__dict__", {}).values()]
    inside += [getattr(given, name, None) for name in getattr(kind, "__slots__", ())]
    for each in inside:
        if each is not None and not isinstance(each, type | int | float | str):
            yield from everything(each, depth + 1)
        elif isinstance(each, str):
            yield each


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", KINDS_OF_FAULTS)
def test_no_error_tells_the_key(
    kind: Kind, fault: FaultKind, caplog: pytest.LogCaptureFixture
) -> None:
    """Not its text, its chain, its traceback with all variables, or a log at the finest level."""
    caplog.set_level(logging.DEBUG)
    out = io.StringIO()
    answer = f"echoed: {KEY}" if fault == "refusal" else None

    async def main(server: LLMTestServer) -> object:
        timeout_s = 1.5 if fault == "slow" else 60
        judge = ModelJudge([entry(kind, server, timeout_s=timeout_s)], environ=ENVIRON)
        assert KEY not in repr(judge)
        return await ask(judge, question(kind), 0, Backoff(), asyncio.Semaphore())

    def wrong(_: object) -> Fault:
        return Fault(kind=fault, seconds=3)

    server = LLMTestServer(answer, faults=wrong, key=KEY)
    with redirect_stdout(out), redirect_stderr(out), server:
        error = asyncio.run(main(server))

    assert isinstance(error, JudgeError)
    assert server.calls == 1
    assert (error.__cause__, error.__context__) == (None, None)
    for text in everything(error):
        assert KEY not in text
    assert KEY not in caplog.text
    assert KEY not in out.getvalue()
    assert all(KEY not in text for each in server.questions for text in everything(each.headers))


def test_a_key_that_a_provider_repeats_is_taken_out() -> None:
    """Some gateways write the key that they did not know into their answer."""
    echo = Fault(kind="wrong_key", message=f"Incorrect API key provided: {KEY}.")
    with LLMTestServer(script=[echo]) as server, pytest.raises(JudgeError) as raised:
        asyncio.run(ModelJudge([entry("openai", server)], environ=ENVIRON).ask(question("openai")))

    assert "Incorrect API key provided: [key]." in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [250, 270, 285, 295, 299])
def test_a_key_is_taken_out_before_a_message_is_cut(kind: Kind, before: int) -> None:
    """Wherever the end of what is shown falls into it, no beginning of the key is left."""
    echo = Fault(kind="wrong_key", message=f"{'x' * before} {KEY} {'y' * 300}")
    with LLMTestServer(script=[echo]) as server, pytest.raises(JudgeError) as raised:
        asyncio.run(ModelJudge([entry(kind, server)], environ=ENVIRON).ask(question(kind)))

    assert KEY[:4] not in str(raised.value)
    assert str(raised.value).endswith("…")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [150, 170, 195, 250, 280])
def test_a_key_is_taken_out_before_an_answer_is_cut(kind: Kind, before: int) -> None:
    answer = f"{'x' * before} {KEY} {'y' * 300}"
    with LLMTestServer(answer) as server, pytest.raises(JudgeError) as raised:
        asyncio.run(ModelJudge([entry(kind, server)], environ=ENVIRON).ask(question(kind)))

    assert KEY[:4] not in str(raised.value)
    assert "xxx" in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_a_valid_answer_repeats_is_taken_out(kind: Kind) -> None:
    """It would be stored as the judge's reason."""
    answer: Any = {"score": 4, "reason": f'Asked with "{KEY}", twice: {KEY}'}
    with LLMTestServer(answer) as server:
        judge = ModelJudge([entry(kind, server)], environ=ENVIRON)
        schema, text = question(kind), question(kind, response_schema=None)
        found = [asyncio.run(judge.ask(each)).response for each in (schema, text)]

    reason = 'Asked with "[key]", twice: [key]'
    assert found[0] == {"score": 4, "reason": reason}
    assert KEY not in str(found[1])
    assert "[key]" in str(found[1])


@pytest.mark.parametrize("key", ["1", "e", "score", ":", "none", "40000000"])
def test_a_short_or_numeric_key_changes_no_answer(key: str) -> None:
    """Local servers want some key: `x`, `none`. Field names and numbers are no texts either."""
    answer: Any = {"score": 40000000, "reason": "none: 1"}
    with LLMTestServer(answer) as server:
        judge = ModelJudge([entry("openai", server)], environ={VARIABLE: key})
        found = asyncio.run(judge.ask(question("openai")))
    assert found.response == answer


def test_a_key_in_the_name_of_the_model_that_answered_is_taken_out() -> None:
    """It goes into files of calibrations and into caches."""
    with LLMTestServer({"score": 4, "reason": "good"}) as server:
        judge = ModelJudge([entry("openai", server)], environ=ENVIRON)
        found = asyncio.run(judge.ask(question("openai", model=f"model {KEY}")))
    assert found.model == "model [key]"


@pytest.mark.parametrize("bad", [f"{KEY}\nx", f"{KEY} x", "schlüssel-" + KEY])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(bad: str) -> None:
    entry = ProviderEntry(name="a", kind="openai", key_variable=VARIABLE)
    with pytest.raises(ConfigError, match=f"{VARIABLE} holds characters") as raised:
        entry.key({VARIABLE: bad})

    assert all(KEY not in text for text in everything(raised.value.args))


def test_the_end_of_a_line_behind_a_key_is_no_part_of_it() -> None:
    assert ProviderEntry(name="a", kind="openai").key({"OPENAI_API_KEY": f"{KEY}\n"}) == KEY


def test_a_redirect_is_not_followed() -> None:
    """The host that a redirect names would get the key."""
    import http.server
    import threading

    caught: list[str] = []

    class Thief(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            caught.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{port}/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Thief)
    port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        for kind in KINDS:
            named = ProviderEntry(
                name=f"our-{kind}",
                kind=kind,
                base_url=f"http://127.0.0.1:{port}",
                key_variable=VARIABLE,
            )
            with pytest.raises(JudgeError) as raised:
                asyncio.run(ModelJudge([named], environ=ENVIRON).ask(question(kind)))
            assert not raised.value.is_worth_retrying
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    gc.collect()
    assert len(caught) == len(KINDS)
    assert "/stolen" not in caught
