"""An agent behind HTTP: requests as its file says, answers by their path, traces, faults."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.matching import trajectory_from_spans
from scouter.mock.llm_server import HttpRequest, HttpResponse, HttpServer
from scouter.replay.loading import loaded_agent
from tests.support.far_side import ENDLESS, dripping, far_side, head

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


def test_a_chat_api_is_called_with_all_messages(
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


def step(
    kind: str, uid: str, parent: str, name: str, times: tuple[float, float], **data: object
) -> str:
    """An event as the toolkit's class `ResponseIntermediateStep` writes it."""
    begin, at = times
    usage = {"token_usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}}
    payload = {
        "event_type": kind, "event_timestamp": at, "name": name, "framework": "langchain",
        "span_event_timestamp": begin if kind.endswith("_END") else None, "UUID": uid,
        "data": {"input": None, "output": None, "chunk": None, **data},
        "usage_info": usage if kind == "LLM_END" else None,
    }  # fmt: skip
    event = {"id": uid, "parent_id": parent, "type": kind, "name": name,
             "payload": json.dumps(payload)}  # fmt: skip
    return f"intermediate_data: {json.dumps(event)}\n\n"


STREAM: Final = "".join(
    [
        step("WORKFLOW_START", "w", "root", "react_agent", (5, 5), input="Hello"),
        step("LLM_START", "m", "w", "llama", (5, 5)),
        step("LLM_NEW_TOKEN", "m", "w", "llama", (5, 5.1), chunk="Act"),
        step("LLM_END", "m", "w", "llama", (5, 5.5), output="Action: multiply"),
        step("TOOL_START", "t", "w", "multiply", (6, 6), input={"text": "3 * 4"}),
        step("TOOL_END", "t", "w", "multiply", (6, 6.5), input={"text": "3 * 4"}, output="12"),
        'data: {"value": "It is "}\n\n',
        'data: {"value": "12."}\n\n',
        step("WORKFLOW_END", "w", "root", "react_agent", (5, 7), input="Hello", output="It is 12."),
    ]
)
"""Of another clock, which began in 1970. The end of a span comes behind those inside it."""


MULTIPLIED: Final = [{"tool_name": "multiply", "tool_input": {"text": "3 * 4"}}]


def streamed(text: str) -> HttpResponse:
    return HttpResponse(
        body=text.encode(), headers={"Content-Type": "text/event-stream; charset=utf-8"}
    )


def test_a_stream_of_a_workflow_has_its_answer_and_its_steps(
    service: Service, tmp_path: Path
) -> None:
    """The work is read from spans as the toolkit's exporter writes them, inside of the request."""
    body = {"input_message": "${message}"}
    agent = written(tmp_path, {"url": f"{service.url}/generate/full", "body": body})
    service.answers = [streamed(STREAM)]
    tasks = [
        AssertionTask("answered", "response", "It is 12.", "Equals"),
        TrajectoryTask("calls", "trajectory_exact_match", MULTIPLIED),
    ]
    (result,) = run(agent, EvalScenario("Hello", tasks, id="hello")).scenario_results
    assert service.bodies == [{"input_message": "Hello"}]
    assert result.outcome == "passed"
    spans = {span.name: span for span in result.traces}
    assert spans["multiply"].parent_span_id == spans["react_agent"].span_id
    assert spans["react_agent"].parent_span_id == spans["invoke_agent"].span_id
    assert spans["multiply"].duration_ns == 500_000_000
    assert spans["invoke_agent"].start_ns <= spans["react_agent"].start_ns
    assert SpanTree(result.traces).agent_work.input_tokens == 100
    assert trajectory_from_spans(result.traces) == MULTIPLIED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (step("TOOL_END", "t", "w", "a", (1, 2)), "a stream of events without an answer"),
        ('data: {"choices": [{"delta": {"content": "hi"}}]}\n\n', "without `value` is not read"),
        ("data: [DONE]\n\n", "no JSON objects is not read; ask for the whole answer at once"),
    ],
)
def test_another_stream_is_refused_with_the_way_out(
    service: Service, text: str, problem: str
) -> None:
    """Its text is no answer, though it is a text."""
    service.answers = [streamed(text)]
    (result,) = run(service.url, ONE).scenario_results
    assert problem in (result.error or "")


@pytest.mark.parametrize(
    ("answer", "endpoint", "problem"),
    [
        (reply({"detail": "no such model"}, 404), {}, '404: {"detail": "no such model"}'),
        (reply({"a": 1}, 503), {}, '503: {"a": 1}'),
        (HttpResponse(body=b"<html>", status=302), {}, "302: <html>"),
        (reply({"text": "hi"}), {"answer": "output"}, "the keys there are 'text'"),
        (HttpResponse(body=b"hi"), {"answer": "output"}, "no JSON: hi"),
        (
            HttpResponse(body=b"", status=307, headers={"location": "/chat/"}),
            {},
            "307: it redirects to /chat/, and is not followed; give that as the url",
        ),
        (HttpResponse(body=b"a" * 400, is_cut=True), {}, "peer closed connection"),
        (HttpResponse(body=b"[" * 10**6), {"answer": "a"}, "no JSON: [[["),
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


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
def test_an_answer_without_an_end_is_refused(parts: Callable[[], Iterable[bytes]]) -> None:
    """Packed or not."""
    with far_side(parts) as far:
        (detail,) = run(far.url, ONE).scenario_results
        assert far.wait_until_hung_up()
    assert f"POST {far.url}: the answer of 127.0.0.1 is larger than" in (detail.error or "")


def test_an_answer_that_drips_is_given_up_as_a_whole(tmp_path: Path) -> None:
    """Each of its bytes comes in time."""
    with far_side(dripping(head())) as far:
        agent = written(tmp_path, {"url": far.url, "timeout_s": 1})
        (detail,) = run(agent, ONE).scenario_results
    assert "no answer in 1 s (timeout_s)" in (detail.error or "")


def test_each_conversation_has_cookies_of_its_own(service: Service) -> None:
    service.answers = [
        HttpResponse(body=b"hi", headers={"set-cookie": f"sid={n}"}) for n in range(4)
    ]
    run(service.url, TURNS, TURNS.model_copy(update={"id": "other"}))
    assert [each.headers.get("cookie") for each in service.requests] == [
        None, "sid=0", None, "sid=2",
    ]  # fmt: skip


def test_words_of_the_user_stay_whole_in_an_address(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And parts of an address from the environment stay parts of an address."""
    monkeypatch.setenv("PLACE", f"{service.url.removeprefix('http://')}/ask")
    agent = written(tmp_path, {"method": "GET", "url": "http://${env.PLACE}?q=${message}&n=1"})
    service.answers = [HttpResponse(body=b"hi")]
    run(agent, ONE.model_copy(update={"initial_query": "R&D #1/2 at 5%? ä"}))
    (request,) = service.requests
    assert request.target == "/ask?q=R%26D%20%231%2F2%20at%205%25%3F%20%C3%A4&n=1"
    assert request.body == b""


def test_a_header_without_a_value_is_not_sent_and_a_secret_is_in_no_error(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret of a file often ends with a line break."""
    monkeypatch.setenv("KEY", "s3cret\n")
    monkeypatch.setenv("BAD", "s3\ncret")
    headers = {"X-Key": "${env.KEY}", "X-Thread": "${thread}"}
    service.answers = [reply({"thread": "t0"}) for _ in range(2)]
    agent = written(tmp_path, {
        "url": service.url, "headers": headers, "remember": {"thread": "thread"},
    })  # fmt: skip
    run(agent, TURNS)
    seen = [(each.headers["x-key"], each.headers.get("x-thread")) for each in service.requests]
    assert seen == [("s3cret", None), ("s3cret", "t0")]
    agent = written(tmp_path, {"url": service.url, "headers": {"X-Key": "${env.BAD}"}})
    (detail,) = run(agent, ONE).scenario_results
    assert "the value of the header X-Key has letters that no header has" in (detail.error or "")
    assert "cret" not in (detail.error or "")


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
        ({"url": "http://x", "body": {"text": "Hello"}}, "no request would have the message"),
        ({"url": "http://x", "method": "GET"}, "into its url"),
        ({"url": "http://x?q=${message}", "method": "GET", "body": {}}, "a GET has no body"),
        ({"url": "http://ann:s3cret@x"}, "a user or a password in it"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(
    tmp_path: Path, endpoint: Mapping[str, object], problem: str
) -> None:
    agent = written(tmp_path, endpoint)
    with pytest.raises(ConfigError, match=problem), loaded_agent(agent, {}):
        pass
