"""Prompts that scouter-ml 0.25.0 wrote (`Prompt.model_dump_json`), read as ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Provider
from scouter.evaluate.judge.render import compile_prompt
from scouter.evaluate.tasks.judge import LLMJudgeTask

SCHEMA: dict[str, JsonValue] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "additionalProperties": False,
    "properties": {
        "reason": {"type": "string"},
        "score": {"format": "int64", "maximum": 5, "minimum": 1, "type": "integer"},
    },
    "required": ["score", "reason"],
    "title": "Score",
    "type": "object",
}
BESIDE = {"model": "m", "version": "0.19.0", "parameters": ["answer"], "response_type": "Score"}


def part(text: str) -> dict[str, str]:
    return {"text": text, "type": "text"}


OPENAI: dict[str, Any] = {
    **BESIDE,
    "provider": "OpenAI",
    "request": {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [part("be ${strict}")]},
            {"role": "user", "content": [part("{answer} or ${answer}, {{b}} and ${d.e} {f }")]},
            {"role": "user", "content": [part("two")]},
        ],
        "response_format": {
            "json_schema": {"name": "Score", "schema": SCHEMA, "strict": True},
            "type": "json_schema",
        },
        "temperature": 0.5,
        "stop_sequences": ["x"],
        "extra_body": {"q": 1},
    },
}
ANTHROPIC: dict[str, Any] = {
    **BESIDE,
    "provider": "Anthropic",
    "request": {
        "model": "m",
        "messages": [{"content": [part("rate ${answer}")], "role": "user"}],
        "system": [part("be"), part("strict")],
        "max_tokens": 4096,
        "temperature": 0.5,
        "output_format": {"schema": SCHEMA, "type": "json_schema"},
    },
}
GEMINI: dict[str, Any] = {
    **BESIDE,
    "provider": "GoogleAdk",
    "request": {
        "contents": [{"role": "user", "parts": [{"text": "rate ${answer}"}]}],
        "systemInstruction": {"role": "model", "parts": [{"text": "be strict"}]},
        "labels": {"a": "b"},
        "generation_config": {
            "temperature": 0.5,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    },
}


def messages_of(prompt: Prompt, scope: JsonValue) -> list[tuple[str, str]]:
    plain = prompt.model_copy(update={"fence": False})
    return [(message["role"], message["content"]) for message in compile_prompt(plain)(scope)]


def test_openai() -> None:
    """`{name}` is a variable, a path is none, and a system message has no variables."""
    prompt = Prompt.model_validate(OPENAI)

    assert (prompt.provider, prompt.model, prompt.output_type) == (Provider.OpenAI, "m", SCHEMA)
    assert prompt.parameters == ["answer", "b"]
    assert prompt.model_settings == {
        "temperature": 0.5, "stop_sequences": ["x"], "extra_body": {"q": 1},
    }  # fmt: skip
    assert messages_of(prompt, {"answer": "A", "b": 2}) == [
        ("system", "be ${strict}"),
        ("user", "A or A, {2} and ${d.e} {f }"),
        ("user", "two"),
    ]


def test_anthropic() -> None:
    prompt = Prompt.model_validate_json(json.dumps(ANTHROPIC))

    assert (prompt.provider, prompt.output_type) == (Provider.Anthropic, SCHEMA)
    assert prompt.model_settings == {"max_tokens": 4096, "temperature": 0.5}
    assert messages_of(prompt, {"answer": "A"}) == [
        ("system", "be"), ("system", "strict"), ("user", "rate A"),
    ]  # fmt: skip


def test_gemini() -> None:
    prompt = Prompt.model_validate(GEMINI)

    assert (prompt.provider, prompt.output_type) == (Provider.GoogleAdk, SCHEMA)
    assert prompt.model_settings == {
        "labels": {"a": "b"}, "generation_config": {"temperature": 0.5},
    }  # fmt: skip
    assert messages_of(prompt, {"answer": "A"}) == [("system", "be strict"), ("user", "rate A")]


def test_the_least_there_can_be() -> None:
    request = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    prompt = Prompt.model_validate({"request": request, "model": "m", "provider": "Vertex"})

    assert prompt == Prompt("hi", "m", "vertex")


@pytest.mark.parametrize(
    "dump",
    [pytest.param(OPENAI, id="openai"), pytest.param(ANTHROPIC, id="anthropic"),
     pytest.param(GEMINI, id="gemini")],
)  # fmt: skip
def test_what_was_read_is_written_as_ours(dump: dict[str, Any], tmp_path: Path) -> None:
    """From a file, too; and the value that was given stays as it is."""
    before = json.dumps(dump)
    path = tmp_path / "judge.json"
    path.write_text(before, encoding="utf-8")
    prompt = Prompt.from_path(path)

    assert json.dumps(dump) == before
    assert prompt == Prompt.model_validate(dump)
    assert Prompt.model_validate_json(prompt.model_dump_json()) == prompt


def test_an_image_is_refused_by_name() -> None:
    image = {"image_url": {"url": "http://127.0.0.1/y.png"}, "type": "image_url"}
    request = {"model": "m", "messages": [{"role": "user", "content": [image]}]}

    with pytest.raises(ValidationError, match=r"other than text \(image_url\)"):
        Prompt.model_validate({"request": request, "model": "m", "provider": "OpenAI"})


@pytest.mark.parametrize(
    ("more", "message"),
    [({"modle": "m"}, "modle"), ({"provider": "no such"}, "no provider's name"),
     ({"model": ""}, "at least 1 character")],
)  # fmt: skip
def test_what_is_wrong_is_named(more: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Prompt.model_validate({**OPENAI, **more})


def test_a_profile_of_the_original_with_a_judge_is_read() -> None:
    task: dict[str, Any] = {
        "id": "j",
        "prompt": OPENAI,
        "context_path": "score",
        "expected_value": 3,
        "operator": "GreaterThan",
        "task_type": "LLMJudge",
        "depends_on": [],
        "max_retries": 3,
        "description": None,
        "condition": False,
    }
    profile = AgentEvalProfile.model_validate(
        {
            "config": {"space": "s", "name": "n", "version": "0.0.0", "drift_type": "GenAI"},
            "tasks": {"assertion": [], "judge": [task], "trace": [], "agent": []},
            "scouter_version": "0.25.0",
            "workflow": {"id": "w", "task_list": {"tasks": {"j": {"prompt": OPENAI}}}},
            "task_ids": ["j"],
            "alias": None,
        }
    )
    [judge] = profile.llm_judge_tasks

    assert isinstance(judge, LLMJudgeTask)
    assert judge.prompt == Prompt.model_validate(OPENAI)
    assert profile.alias == "n"
