"""The provider for tests, called over HTTP as a client of OpenAI's protocol would."""

import json
import os
from typing import Any, Literal

import httpx
import pytest
from jsonschema import validate
from pydantic import BaseModel, Field

from scouter.evaluate.judge.prompt import Score
from scouter.mock.llm_server import LLMTestServer, example_of


class Inner(BaseModel):
    word: Literal["yes", "no"]


class Verdict(BaseModel):
    score: int = Field(ge=3)
    share: float = Field(gt=0.5)
    reason: str = Field(min_length=20)
    inner: Inner
    others: list[Inner] = Field(min_length=2)
    maybe: int | None
    is_good: bool


def complete(schema: dict[str, Any] | None = None) -> Any:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    if schema is not None:
        wanted = {"name": "verdict", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    response = httpx.post(url, json=body, timeout=120).raise_for_status().json()
    assert (response["object"], response["model"]) == ("chat.completion", "m")
    return response["choices"][0]["message"]["content"]


@pytest.mark.parametrize("model", [Score, Verdict])
def test_an_answer_fits_the_schema(model: type[BaseModel]) -> None:
    schema = model.model_json_schema()
    with LLMTestServer() as server:
        answer = json.loads(complete(schema))

    validate(answer, schema)
    model.model_validate(answer)
    assert server.requests[0]["messages"][0]["content"] == "hi"


def test_an_answer_without_a_schema_is_a_text() -> None:
    with LLMTestServer():
        assert complete() == "a text"


def test_one_reply_for_all() -> None:
    with LLMTestServer(reply={"score": 5}):
        assert json.loads(complete(Score.model_json_schema())) == {"score": 5}


def test_equal_texts_have_equal_embeddings() -> None:
    with LLMTestServer() as server:
        body = {"model": "e", "input": ["a", "b", "a"], "dimensions": 512}
        response = httpx.post(f"{server.url}/embeddings", json=body, timeout=120).json()

    first, second, third = (item["embedding"] for item in response["data"])
    assert first == third != second
    assert len(first) == 512
    assert all(-1 <= number <= 1 for number in first)


def test_what_it_does_not_know() -> None:
    with LLMTestServer() as server:
        assert httpx.post(f"{server.url}/images", json={}, timeout=120).status_code == 404
        broken = httpx.post(f"{server.url}/embeddings", content=b"{", timeout=120)
        assert (broken.status_code, broken.json()["error"]["message"]) == (
            400,
            "the body is no JSON",
        )


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with LLMTestServer() as server:
        assert os.environ["OPENAI_BASE_URL"] == server.url
        assert os.environ["OPENAI_API_KEY"] != "mine"

    assert os.environ["OPENAI_API_KEY"] == "mine"
    assert "OPENAI_BASE_URL" not in os.environ
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        _ = server.url


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"const": "x"}, "x"),
        ({"type": ["string", "null"]}, "a text"),
        ({}, None),
    ],
)
def test_examples(schema: dict[str, Any], value: object) -> None:
    assert example_of(schema) == value
