"""Messages in their vendors' words are the messages of prompts."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from scouter.agent import Prompt, Role
from scouter.agent.anthropic import MessageParam
from scouter.agent.google import GeminiContent
from scouter.agent.openai import ChatMessage, TextContentPart


class Block(BaseModel):
    type: str = "text"
    text: str


FORMS: dict[str, Callable[[Any], Any]] = {
    "openai": lambda content: ChatMessage("assistant", content),
    "openai by name": lambda content: ChatMessage(role="assistant", content=content),
    "anthropic": lambda content: MessageParam(content, "assistant"),
    "google": lambda content: GeminiContent(content, "assistant"),
    "plain": lambda content: {"role": "assistant", "content": content},
}
PARTS: list[object] = [
    "Rate ${answer}",
    ["Rate", "${answer}"],
    [TextContentPart(text="Rate"), "${answer}"],
    [{"type": "text", "text": "Rate"}, Block(text="${answer}")],
]


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("parts", PARTS, ids=["text", "texts", "part", "blocks"])
def test_a_message_of_each_vendor(make: Callable[[object], Any], parts: object) -> None:
    text = parts if isinstance(parts, str) else "Rate\n${answer}"
    prompt = Prompt([make(parts)], "m", "openai", make("be strict"))

    assert prompt == Prompt(
        [{"role": "assistant", "content": text}], "m", "openai",
        [{"role": "assistant", "content": "be strict"}],
    )  # fmt: skip
    assert prompt.message.text == prompt.message.content == text
    assert prompt.message.role == Role.Assistant == "assistant"
    assert prompt.parameters == ["answer"]
    assert Prompt.model_validate_json(prompt.model_dump_json()) == prompt


def test_a_message_by_itself() -> None:
    message = ChatMessage("user", "Hello!")
    assert (message.text, message.role) == ("Hello!", "user")
    assert message.model_dump() == {"role": "user", "content": "Hello!"}
    assert GeminiContent("Hello!").role is Role.User
    assert TextContentPart(text="x").type == "text"
    assert [each.text for each in Prompt(["a", ChatMessage("user", "b")], "m", "o").messages] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("content", [["a", {"type": "image_url"}], [1], 5, None, [object()]])
def test_what_is_no_text_is_refused(content: object) -> None:
    with pytest.raises(ValidationError, match="content"):
        ChatMessage("user", content)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValidationError, match="role"):
        ChatMessage("stranger", "x")


def test_a_name_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"ChatMessage\(name=…\) does nothing"):
        message = ChatMessage("user", "x", "Bob")
    assert message == ChatMessage("user", "x")
