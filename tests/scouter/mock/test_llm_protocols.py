"""The provider for tests, called by the vendors' own clients, without anything of ours between."""

import json
from typing import Any

import httpx
import openai
import pytest

from scouter.mock.llm_protocols import Fault, LLMRequest
from scouter.mock.llm_server import LLMTestServer

SCHEMA: dict[str, Any] = {
    "type": "object", "properties": {"score": {"type": "integer", "minimum": 3}},
    "required": ["score"], "additionalProperties": False,
}  # fmt: skip


def by_openai(system: str, user: str) -> str:
    with openai.OpenAI(max_retries=0) as client:
        done = client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            response_format={
                "type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}
            },
        )  # fmt: skip
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    return done.choices[0].message.content or ""


def by_anthropic(system: str, user: str) -> str:
    import anthropic  # two seconds, of each worker that collects the tests

    with anthropic.Anthropic(max_retries=0) as client:
        done = client.messages.create(
            model="m",
            max_tokens=9,
            system=system,
            messages=[{"role": "user", "content": user}],
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
    (block,) = done.content
    assert block.type == "text"
    assert (done.stop_reason, done.model) == ("end_turn", "m")
    return block.text


def by_google(system: str, user: str) -> str:
    from google import genai
    from google.genai.types import GenerateContentConfig, HttpOptions

    with genai.Client() as client:
        done = client.models.generate_content(
            model="m",
            contents=user,
            config=GenerateContentConfig(
                system_instruction=system,
                response_mime_type="application/json",
                response_json_schema=SCHEMA,
                http_options=HttpOptions(),
            ),
        )
    return done.text or ""


CLIENTS = {"openai": by_openai, "anthropic": by_anthropic, "google": by_google}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_finds_the_server_by_its_usual_variables(name: str) -> None:
    with LLMTestServer() as server:
        text = CLIENTS[name]("You judge.", "Is it good?")

    assert json.loads(text) == {"score": 3}
    (question,) = server.questions
    assert (question.protocol, question.model, question.tool) == (name, "m", "")
    assert question.messages == (
        {"role": "system", "content": "You judge."},
        {"role": "user", "content": "Is it good?"},
    )
    assert question.schema is not None
    assert question.schema["required"] == ["score"]


@pytest.mark.parametrize("name", CLIENTS)
def test_wrong_keys_and_models_are_distinguished(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anthropic
    from google.genai import errors as google_errors

    statuses: list[int] = []
    for key, models in (("right", ()), (None, ("other",)), ("right", ("m",))):
        with LLMTestServer(key=key, models=models) as server:
            if key and not models:
                for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
                    monkeypatch.setenv(variable, "wrong")
            try:
                CLIENTS[name]("s", "u")
                statuses.append(200)
            except (openai.APIStatusError, anthropic.APIStatusError) as error:
                statuses.append(error.status_code)
            except google_errors.APIError as error:
                statuses.append(error.code)
            assert "right" not in repr(server.questions)
    assert statuses == [401, 404, 200]


def complete(server: LLMTestServer, text: str = "hi") -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": "Bearer secret", "x-team": "a"}
    return httpx.post(f"{server.url}/chat/completions", json=body, headers=headers, timeout=120)


def said(response: httpx.Response) -> Any:
    return response.raise_for_status().json()["choices"][0]["message"]["content"]


def test_a_script_then_the_reply() -> None:
    with LLMTestServer("later", script=["one", Fault(kind="server_error"), "two"]) as server:
        assert said(complete(server)) == "one"
        assert complete(server).status_code == 500
        assert [said(complete(server)) for _ in range(3)] == ["two", "later", "later"]
        assert server.calls == 5
        assert server.questions[0].headers["x-team"] == "a"
        assert "secret" not in repr(server.questions)


def test_a_function_of_the_question() -> None:
    async def answer(request: LLMRequest) -> Any:
        return {"heard": request.text, "number": request.number}

    with LLMTestServer(answer) as server:
        assert json.loads(said(complete(server, "a"))) == {"heard": "a", "number": 0}
        assert json.loads(said(complete(server, "b"))) == {"heard": "b", "number": 1}


def test_faults_by_number_use_up_nothing_of_the_script() -> None:
    faults = {1: Fault(kind="too_many", retry_after="3")}
    with LLMTestServer(script=["one", "two"], faults=faults) as server:
        assert said(complete(server)) == "one"
        refused = complete(server)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "3")
        assert said(complete(server)) == "two"


def test_a_connection_that_is_cut() -> None:
    cut = LLMTestServer("x" * 100, faults=lambda _: Fault(kind="cut"))
    with cut, pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
        complete(cut)


@pytest.mark.pace
def test_many_are_answered_at_a_time() -> None:
    """Twenty that take 0.2 s each, in less than the 4 s that they would take in turn."""
    import time
    from concurrent.futures import ThreadPoolExecutor

    with LLMTestServer("x", latency_s=0.2) as server, ThreadPoolExecutor(20) as pool:
        start = time.perf_counter()
        answers = [done.status_code for done in pool.map(complete, [server] * 20)]
        took = time.perf_counter() - start

    assert answers == [200] * 20
    assert server.most_at_once > 1
    assert took < 4


def test_models_are_listed() -> None:
    with LLMTestServer(models=["a", "b"]) as server, openai.OpenAI() as client:
        assert [model.id for model in client.models.list()] == ["a", "b"]
        assert server.calls == 0


def test_what_is_no_request_of_a_client() -> None:
    with LLMTestServer() as server:
        for path in ("/v1/chat/completions", "/v1/messages"):
            url = f"{server.root}{path}"
            assert httpx.post(url, content=b"[1]", timeout=120).status_code == 400
            assert httpx.post(url, content=b"\xff", timeout=120).status_code == 400
        assert (
            httpx.post(
                f"{server.url}/chat/completions", content=iter([b"{}"]), timeout=120
            ).status_code
            == 400
        )
    with pytest.raises(ValueError, match="no fault is called 'fire'"):
        Fault(kind="fire")  # pyright: ignore[reportArgumentType] - what is refused
