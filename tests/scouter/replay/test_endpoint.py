"""An agent behind HTTP: requests as its file says, answers by their path, traces, faults."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.mock.http_server import HttpRequest, HttpResponse, HttpServer
from scouter.replay.loading import loaded_agent

TURNS: Final = EvalScenario(
    "How much is the tent?", [AssertionTask("last", "response", "3 messages", "Contains")],
    id="tent", predefined_turns=["And the bag?"],
)  # fmt: skip
ONE: Final = EvalScenario("Hello", [AssertionTask("said", "response", "hi", "Equals")], id="hello")


class Service:
    """An HTTP endpoint that a test scripts."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.answers: list[HttpResponse] = []
        self.delay_s = 0.0
        self._server = HttpServer(self._handle)
        self._server.start()
        self.url = f"http://127.0.0.1:{self._server.port}"

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        await asyncio.sleep(self.delay_s)
        if self.answers:
            return self.answers.pop(0)
        said = json.loads(request.body)["messages"]
        text = f"{len(said)} messages, the last is {said[-1]['content']!r}"
        return reply({"choices": [{"message": {"role": "assistant", "content": text}}]})

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(each.body) for each in self.requests]

    def close(self) -> None:
        self._server.stop()


def reply(value: object, status: int = 200) -> HttpResponse:
    return HttpResponse(body=json.dumps(value).encode(), status=status)


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    yield found
    found.close()


def written(folder: Path, endpoint: Mapping[str, object]) -> str:
    path = folder / "agent.json"
    path.write_text(json.dumps(endpoint))
    return str(path)


def run(
    agent: str, *scenarios: EvalScenario, profiles: Mapping[str, AgentEvalProfile] | None = None
) -> ScenarioEvalResults:
    with loaded_agent(agent, dict(profiles or {})) as loaded:
        return loaded.make(EvalScenarios(list(scenarios)), None).run(on_error="record")


def test_a_chat_api_is_asked_with_all_messages(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form of OpenAI; the key comes from the environment, and the trace travels along."""
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    agent = written(tmp_path, {
        "url": f"{service.url}/v1/chat/completions",
        "headers": {"Authorization": "Bearer ${env.SHOP_KEY}"},
        "body": {"model": "shop", "messages": "${messages}", "stream": False},
        "answer": "choices[0].message.content",
    })  # fmt: skip
    assert run(agent, TURNS).metrics.overall_pass_rate == 1.0
    first, second = service.bodies
    assert first == {
        "model": "shop", "stream": False,
        "messages": [{"role": "user", "content": "How much is the tent?"}],
    }  # fmt: skip
    assert second["messages"] == [
        {"role": "user", "content": "How much is the tent?"},
        {"role": "assistant", "content": "1 messages, the last is 'How much is the tent?'"},
        {"role": "user", "content": "And the bag?"},
    ]
    assert [each.headers["authorization"] for each in service.requests] == ["Bearer s3cret"] * 2
    assert all(each.headers["traceparent"].startswith("00-") for each in service.requests)


def test_an_address_alone_gets_message_session_and_history(service: Service) -> None:
    """And a response that is no JSON is the answer as it stands."""
    service.answers = [HttpResponse(body=b"hi")]
    assert run(service.url, ONE).metrics.overall_pass_rate == 1.0
    (body,) = service.bodies
    assert body == {"message": "Hello", "session": body["session"], "history": []}
    assert body["session"]


def test_what_a_response_says_is_sent_with_the_next_message_of_that_conversation(
    service: Service, tmp_path: Path
) -> None:
    """Each conversation begins without it."""
    agent = written(tmp_path, {
        "url": f"{service.url}/threads/chat",
        "body": {"text": "${message}", "thread": "${thread}"},
        "answer": "output",
        "remember": {"thread": "thread.id"},
    })  # fmt: skip
    service.answers = [
        reply({"output": f"3 messages {n}", "thread": {"id": f"t{n}"}}) for n in range(4)
    ]
    other = TURNS.model_copy(update={"id": "other"})
    run(agent, TURNS, other)
    assert [each["thread"] for each in service.bodies] == [None, "t0", None, "t2"]


def test_a_watching_profile_judges_question_and_answer(service: Service) -> None:
    """The request is a span of an agent's call; nobody made a record."""
    tasks = [
        AssertionTask("asked", "question", "Hello", "Equals"),
        AssertionTask("said", "answer", "hi", "Equals"),
    ]
    service.answers = [HttpResponse(body=b"hi")]
    profile = AgentEvalProfile(tasks, alias="shop", watch=Watch())
    results = run(service.url, ONE, profiles={"shop": profile})
    (row,) = results.dataset_results["shop"]
    assert row.outcome == "passed"


@pytest.mark.parametrize(
    ("answer", "endpoint", "problem"),
    [
        (reply({"detail": "no such model"}, 404), {}, '404: {"detail": "no such model"}'),
        (reply({"a": 1}, 503), {}, '503: {"a": 1}'),
        (HttpResponse(body=b"<html>", status=302), {}, "302: <html>"),
        (reply({"text": "hi"}), {"answer": "output"}, "the keys there are 'text'"),
        (HttpResponse(body=b"hi"), {"answer": "output"}, "no JSON: hi"),
        (HttpResponse(body=b"a" * 400, is_cut=True), {}, "peer closed connection"),
    ],
)
def test_a_fault_is_the_attempts_error_and_says_what_came(
    service: Service,
    tmp_path: Path,
    answer: HttpResponse,
    endpoint: Mapping[str, object],
    problem: str,
) -> None:
    """With the method and the address; a template's value is in no message."""
    service.answers = [answer]
    agent = written(tmp_path, {"url": f"{service.url}/chat", **endpoint})
    results = run(agent, ONE)
    (detail,) = results.scenario_results
    assert detail.error is not None
    assert f"POST {service.url}/chat: " in detail.error
    assert problem in detail.error


def test_an_endpoint_that_is_slow_or_away(service: Service, tmp_path: Path) -> None:
    service.delay_s = 60
    slow = written(tmp_path, {"url": service.url, "timeout_s": 0.2})
    (detail,) = run(slow, ONE).scenario_results
    assert "no answer in 0.2 s (timeout_s)" in (detail.error or "")
    (detail,) = run("http://127.0.0.1:9/chat", ONE).scenario_results
    assert "POST http://127.0.0.1:9/chat: " in (detail.error or "")


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ({}, "url"),
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://x", "answers": "a"}, "answers"),
        ({"url": "http://x", "answer": "a["}, "answer"),
        ({"url": "http://x", "remember": {"message": "a"}}, "'message' is given already"),
        ({"url": "http://x", "body": "${mesage}"}, r"\$\{mesage\} is nothing that is given"),
        (
            {"url": "http://x", "headers": {"a": "${env.NO_SUCH}"}},
            "the variable NO_SUCH is not set",
        ),
        ({"url": "http://x", "body": "${env}"}, "variable  is not set"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(
    tmp_path: Path, endpoint: Mapping[str, object], problem: str
) -> None:
    agent = written(tmp_path, endpoint)
    with pytest.raises(ConfigError, match=problem), loaded_agent(agent, {}):
        pass
