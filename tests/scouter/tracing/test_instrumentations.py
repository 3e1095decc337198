"""Spans of other people's instrumentations are seen and read: real libraries, real HTTP."""

import asyncio
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from scouter.model.agent_work import AgentWork
from scouter.model.genai.work import agent_work
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.tracer import flush_tracer
from scouter.transport.config import HttpConfig
from tests.scouter.transport.receiver import run_receiver

MODEL = "gpt-5-mini"
ASKED = "What is the weather in Seattle?"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Seattle"}'},
}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """A call of the tool first, and text once its result is there; 11 tokens in, 7 out."""
    is_second = any(message["role"] == "tool" for message in request["messages"])
    said = {"content": "Rain."} if is_second else {"content": None, "tool_calls": [CALL]}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": f"{MODEL}-2025",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **said},
                "finish_reason": "stop" if is_second else "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(_answer(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider_url() -> Iterator[str]:
    """A provider that speaks OpenAI's protocol."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@contextmanager
def sent_work() -> Generator[tuple[TracerProvider, list[AgentWork]]]:
    """An application's provider, and what the collector reads of the spans made meanwhile."""
    provider = TracerProvider(shutdown_on_exit=False)
    works: list[AgentWork] = []
    with run_receiver() as receiver:
        ScouterInstrumentor().instrument(
            transport_config=HttpConfig(server_uri=receiver.uri), tracer_provider=provider
        )
        yield provider, works
        assert flush_tracer(20)
        works.append(agent_work(receiver.spans()))


def ask_openai(url: str) -> None:
    """Two rounds with the real client: a tool call, and the answer."""
    from openai import OpenAI

    messages: list[Any] = [{"role": "user", "content": ASKED}]
    with OpenAI(base_url=url, api_key="of-a-test") as client:
        first = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])  # type: ignore[list-item]
        messages.append(first.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "rain"})
        client.chat.completions.create(model=MODEL, messages=messages)


@contextmanager
def instrumented(instrumentor: BaseInstrumentor, provider: TracerProvider) -> Generator[None]:
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()


def check(work: AgentWork) -> None:
    """Two answers of 11 and 7 tokens, and one call of the tool."""
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == (22, 14, 36)
    assert (work.model or "").startswith(MODEL)
    (call,) = work.tool_calls
    assert (call.name, call.arguments) == ("weather", {"city": "Seattle"})
    assert work.content == "Rain."


def test_the_openai_client_by_opentelemetrys_instrumentation(
    provider_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai_v2 = import_module("opentelemetry.instrumentation.openai_v2")
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")

    with sent_work() as (provider, works), instrumented(openai_v2.OpenAIInstrumentor(), provider):
        ask_openai(provider_url)
    check(works[0])


def test_the_openai_client_by_openinference(provider_url: str) -> None:
    openinference = import_module("openinference.instrumentation.openai")

    with (
        sent_work() as (provider, works),
        instrumented(openinference.OpenAIInstrumentor(), provider),
    ):
        ask_openai(provider_url)
    check(works[0])


def test_an_agent_of_pydantic_ai_by_its_own_instrumentation(provider_url: str) -> None:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.capabilities.instrumentation import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask(provider: TracerProvider) -> str:
        settings = InstrumentationSettings(tracer_provider=provider)
        async with AsyncOpenAI(base_url=provider_url, api_key="of-a-test") as client:
            model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, capabilities=[Instrumentation(settings)])

            @agent.tool_plain
            def weather(city: str) -> str:  # pyright: ignore[reportUnusedFunction]
                return f"rain in {city}"

            return (await agent.run(ASKED)).output

    with sent_work() as (provider, works):
        assert asyncio.run(ask(provider)) == "Rain."
    check(works[0])
