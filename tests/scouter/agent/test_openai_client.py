"""Requests of our form of OpenAI's client, compared with those of that client itself."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from scouter.agent.openai_client import PlainOpenAI
from scouter.evaluate.judge.prompt import Score
from scouter.mock.llm_server import LLMTestServer

_ASKED: list[ModelMessage] = [
    ModelRequest(
        parts=[SystemPromptPart("You judge — in words."), UserPromptPart('Is "ä\u2028" good?')]
    ),
    ModelResponse(parts=[TextPart("Which?")]),
    ModelRequest(parts=[UserPromptPart("That.")]),
]
_BY_SCHEMA = ModelRequestParameters(
    output_mode="native",
    output_object=OutputObjectDefinition(json_schema=Score.model_json_schema(), name="answer"),
)
_BY_TOOL = ModelRequestParameters(
    output_mode="tool",
    output_tools=[ToolDefinition(name="answer", parameters_json_schema=Score.model_json_schema())],
    allow_text_output=False,
)


def sent(
    client_of: type[AsyncOpenAI],
    server: LLMTestServer,
    settings: dict[str, Any],
    parameters: ModelRequestParameters,
) -> tuple[str, str, dict[str, str], Any]:
    """The request that a client makes."""
    requests: list[httpx2.Request] = []

    async def keep(request: httpx2.Request) -> None:
        requests.append(request)

    async def ask() -> None:
        async with httpx2.AsyncClient(event_hooks={"request": [keep]}) as http:
            client = client_of(api_key="k", base_url=server.url, max_retries=0, http_client=http)
            model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
            await model_request(
                model,
                _ASKED,
                model_settings=ModelSettings(**settings),
                model_request_parameters=parameters,
            )

    asyncio.run(ask())
    (request,) = requests
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    return request.method, str(request.url), headers, json.loads(request.content)


@pytest.mark.parametrize("parameters", [ModelRequestParameters(), _BY_SCHEMA, _BY_TOOL])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.0, "max_tokens": 100, "seed": 7, "top_p": 0.5},
        {"stop_sequences": ["END"], "logit_bias": {"50256": -100}, "presence_penalty": 1.0},
        {"timeout": 7.5, "extra_headers": {"x-of-a-test": "1"}, "extra_body": {"min_p": 0.1}},
    ],
)
def test_the_same_request(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], parameters: ModelRequestParameters
) -> None:
    """Method, address, headers and body, also where there is another key for an administrator."""
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "of-an-administrator")
    with LLMTestServer({"score": 4, "reason": "good"}) as server:
        theirs = sent(AsyncOpenAI, server, settings, parameters)
        ours = sent(PlainOpenAI, server, settings, parameters)
    agent = "x-stainless-"
    assert any(name.startswith(agent) for name in theirs[2])
    assert ours == theirs
