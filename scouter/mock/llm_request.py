"""A request to a provider for tests, in one form for all protocols."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from scouter.evaluate.judge.port import Message

ProtocolName: TypeAlias = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMRequest:
    """One question to a model; holds no key."""

    number: int
    """Number of questions that came before it."""
    protocol: ProtocolName
    path: str
    model: str
    messages: tuple[Message, ...]
    """Texts of the conversation, the system's first."""
    schema: Mapping[str, Any] | None
    """JSON schema of the wanted answer, as the client sent it."""
    tool: str
    """Name of the tool that the answer has to go to; empty where it is wanted as a text."""
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """By name in lower case, without those that hold a key."""

    @property
    def text(self) -> str:
        """All messages, one below the other."""
        return "\n".join(message["content"] for message in self.messages)
