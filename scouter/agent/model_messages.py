"""A question's messages, in the words of the client."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scouter.evaluate.judge.port import Message

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart


def to_model_messages(messages: Iterable[Message]) -> "list[ModelMessage]":
    """Translate messages, in their order.

    `system` and `developer` instruct, `assistant` and `model` are the model's own words, `user`
    and `tool` are what it is told. Where a vendor has one place for instructions, those from the
    middle of a conversation go there, too.
    """
    from pydantic_ai.messages import (  # a second of imports that only a real judge pays for
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    found: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role in {"assistant", "model"}:
            if parts:
                found.append(ModelRequest(parts=parts))
                parts = []
            found.append(ModelResponse(parts=[TextPart(content)]))
        elif role in {"system", "developer"}:
            parts.append(SystemPromptPart(content))
        else:
            parts.append(UserPromptPart(content))
    if parts:
        found.append(ModelRequest(parts=parts))
    return found
