"""Messages of prompts in the words of their vendors; in a prompt they are all the same."""

from typing import TypeAlias

from scouter.agent.settings_base import Settings
from scouter.evaluate.judge.prompt import PromptMessage
from scouter.transport.guard import GUARD

Content: TypeAlias = object
"""A text, or a list of texts and of parts that have a `text`."""


class TextContentPart(Settings):
    """A part of a message.

    Args:
        text: Text of the part.
    """

    text: str

    @property
    def type(self) -> str:
        """The kind of part."""
        return "text"


class ChatMessage(PromptMessage):
    """A message in OpenAI's words.

    Args:
        role: The speaker: `user`, `assistant`, `system` …
        content: A text, or a list of texts and `TextContentPart`s.
        name: Taken and left out, with a warning: judges are not told names.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, role: str, content: Content, name: str | None = None) -> None:
        if name is not None:
            text = "ChatMessage(name=…) does nothing: judges are not told who speaks by name"
            GUARD.warn("ChatMessage", "name", text)
        super().__init__(role=role, content=content)  # type: ignore[arg-type]


class MessageParam(PromptMessage):
    """A message in Anthropic's words.

    Args:
        content: A text, or a list of texts and text blocks.
        role: The speaker: `user` or `assistant`.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, content: Content, role: str) -> None:
        super().__init__(role=role, content=content)  # type: ignore[arg-type]


class GeminiContent(PromptMessage):
    """A message in Google's words.

    Args:
        parts: A text, or a list of texts.
        role: The speaker: `user` or `model`; the user if not given.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, parts: Content, role: str | None = None) -> None:
        super().__init__(role=role or "user", content=parts)  # type: ignore[arg-type]
