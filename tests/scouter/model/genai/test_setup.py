"""What a call ran with, as conventions write it and as recorded clients send it."""

import json
from typing import Any, Final

import pytest

from scouter.model.genai.reader import read_facts
from scouter.model.span import AttributeValue
from tests.scouter.evaluate.spans_support import span
from tests.support.agent_traces import find_clients, load_client

DIGEST: Final = "06b9a2797738"
"""Of `Answer in one word.`, by `b2sum -l 48`."""
TEXT: Final = "Answer in one word."
CHAT: Final = {"gen_ai.operation.name": "chat"}


def setup_of(attributes: dict[str, AttributeValue]) -> dict[str, str]:
    """What a span tells, by kind."""
    facts = read_facts(span(1, "call", attributes=attributes))
    return dict(text.split("=", 1) for text in facts.setup)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"gen_ai.prompt.name": "travel", "gen_ai.prompt.version": "3"}, {"prompt": "travel 3"}),
        (
            {
                "langfuse.observation.prompt.name": "travel",
                "langfuse.observation.prompt.version": 3,
            },
            {"prompt": "travel 3"},
        ),
        (
            {"traceloop.prompt.key": "travel", "traceloop.prompt.version_hash": "0123456789abcdef"},
            {"prompt": "travel", "prompt_digest": "0123456789ab"},
        ),
        (
            {"langsmith.metadata.lc_hub_repo": "r", "langsmith.metadata.lc_hub_commit_hash": "c1"},
            {"prompt": "r", "prompt_digest": "c1"},
        ),
        (
            {"llm.prompt_template.version": "v2", "llm.prompt_template.template": TEXT, **CHAT},
            {"prompt": "v2", "prompt_digest": DIGEST},
        ),
        ({"gen_ai.system_instructions": TEXT, **CHAT}, {"prompt_digest": DIGEST}),
        ({"gen_ai.system_instructions": TEXT}, {}),
        ({"gen_ai.response.model": "m-1", **CHAT}, {"response_model": "m-1"}),
        ({"gen_ai.response.model": "m-1", "gen_ai.operation.name": "invoke_agent"}, {}),
        *(
            ({name: "fp_1", **CHAT}, {"fingerprint": "fp_1"})
            for name in (
                "openai.response.system_fingerprint",
                "gen_ai.openai.response.system_fingerprint",
                "gen_ai.response.system_fingerprint",
            )
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "output.value": json.dumps({"body": json.dumps({"system_fingerprint": "fp_1"})}),
            },
            {"fingerprint": "fp_1"},
        ),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}, {}),
    ],
)
def test_what_is_read(attributes: dict[str, AttributeValue], wanted: dict[str, str]) -> None:
    assert setup_of(attributes) == wanted


@pytest.mark.parametrize(
    "form",
    [
        {"gen_ai.input.messages": '[{"role": "system", "parts": [{"content": "Be brief."}]}, 7'},
        {"gen_ai.input.messages": ({"role": "system", "parts": ({"content": "Be brief."},)},)},
        {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages":
            ' [ {"parts": [{"content": "Be brief."}], "role": "system"}, {"role": "user"}]'},
    ],
)  # fmt: skip
def test_a_first_message_instructs(form: dict[str, Any]) -> None:
    """However long the conversation behind it is, and be it cut off."""
    digest = setup_of({**form, **CHAT})["prompt_digest"]

    def of_message(**message: object) -> str:
        wire = json.dumps([message])
        return setup_of({"gen_ai.input.messages": wire, **CHAT})["prompt_digest"]

    parts = [{"content": "Be brief."}]
    assert digest == of_message(role="system", parts=parts)
    assert digest != of_message(role="developer", parts=parts)


@pytest.mark.parametrize(
    "value", ["[", "[[", '["system"]', "7", '[{"role": "user"}]', "[" * 5000, "", ("system",)]
)
def test_other_first_messages_instruct_nobody(value: AttributeValue) -> None:
    assert setup_of({"gen_ai.input.messages": value, **CHAT}) == {}


def test_the_order_of_tools_does_not_matter() -> None:
    search, book = {"name": "search", "description": "Find."}, {"name": "book"}
    turned = {"description": "Find.", "name": "search"}

    def digest(*tools: object) -> str:
        return setup_of({"gen_ai.tool.definitions": json.dumps(tools), **CHAT})["tools_digest"]

    assert digest(search, book) == digest(book, turned) != digest(search)
    numbered = {
        "llm.tools.0.tool.json_schema": json.dumps(book),
        "llm.tools.1.tool.json_schema": json.dumps(search),
    }
    assert setup_of({**numbered, **CHAT})["tools_digest"] == digest(search, book)
    structured: Any = ({"name": "book"}, {"name": "search", "description": "Find."})
    whole = setup_of({"gen_ai.tool.definitions": structured, **CHAT})
    assert whole["tools_digest"] == digest(search, book)


def test_recorded_clients() -> None:
    """Each client had one prompt, one set of tools and one model; OpenAI's was scripted as fp_1."""
    found: dict[str, dict[str, set[str]]] = {}
    for file in find_clients():
        client = load_client(file)
        kinds = found.setdefault(client.name, {})
        for each in client.spans:
            for text in read_facts(each).setup:
                kind, _, value = text.partition("=")
                kinds.setdefault(kind, set()).add(value)
    prints = {name for name, kinds in found.items() if kinds.get("fingerprint") == {"fp_1"}}
    assert prints >= {
        "openai-genai", "openai-traceloop", "openai-openlit", "openai-openinference",
        "langchain-openinference", "langsmith-otel",
    }  # fmt: skip
    assert not any("fingerprint" in found[name] for name in found if "anthropic" in name)
    tools = [kinds["tools_digest"] for kinds in found.values() if "tools_digest" in kinds]
    assert len(tools) >= 30
    assert all(len(each) == 1 for each in tools)
    assert found["openai-genai"]["response_model"] == {"gpt-4o-2024-08-06"}
    assert found["anthropic-traceloop"]["response_model"] == {"claude-sonnet-4-5-20250929"}
    prompts = [kinds["prompt_digest"] for kinds in found.values() if "prompt_digest" in kinds]
    assert len(prompts) >= 30
    # DSPy writes the signature of each module into its prompt.
    assert [len(each) for each in prompts if len(each) > 1] == [2]
