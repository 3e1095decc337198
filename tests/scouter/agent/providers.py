"""Parts of the tests of provider entries: the three protocols, and a question."""

from typing import Any, Final

from scouter.agent.entries import Kind, ProviderEntry
from scouter.evaluate.judge.port import JudgeRequest, Message
from scouter.evaluate.judge.prompt import Score
from scouter.mock.llm_server import LLMTestServer

KEY: Final = "sk-SENTINEL-0123456789-of-a-test"
VARIABLE: Final = "KEY_OF_A_TEST"
ENVIRON: Final = {VARIABLE: KEY}
MODELS: Final[dict[Kind, str]] = {
    "openai": "gpt-4o",
    "anthropic": "claude-sonnet-4-6",
    "google": "gemini-2.5-flash",
}
KINDS: Final = tuple(MODELS)


def entry(kind: Kind, server: LLMTestServer, **fields: Any) -> ProviderEntry:
    """An entry that asks a server."""
    url = server.url if kind == "openai" else server.root
    given = {"name": f"our-{kind}", "kind": kind, "base_url": url, "key_variable": VARIABLE}
    return ProviderEntry.model_validate({**given, **fields})


def question(kind: Kind, content: str = "How good is it?", **fields: Any) -> JudgeRequest:
    """A question for a score."""
    given: dict[str, Any] = {
        "task_id": "quality",
        "messages": (
            Message(role="system", content="You judge."),
            Message(role="user", content=content),
        ),
        "model": MODELS[kind],
        "provider": f"our-{kind}",
        "settings": {"temperature": 0, "max_tokens": 100},
        "response_schema": Score.model_json_schema(),
    }
    return JudgeRequest(**{**given, **fields})
