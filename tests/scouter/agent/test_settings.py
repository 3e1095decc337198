"""Settings and messages in the words of their vendors."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from scouter.agent.anthropic import (
    AnthropicSettings,
    AnthropicThinkingConfig,
    MessageParam,
    Metadata,
)
from scouter.agent.google import (
    GeminiContent,
    GeminiSettings,
    GeminiThinkingConfig,
    GenerationConfig,
    HarmBlockThreshold,
    HarmCategory,
    MediaResolution,
    Modality,
    SafetySetting,
    ThinkingLevel,
)
from scouter.agent.openai import ChatMessage, OpenAIChatSettings, StreamOptions, TextContentPart
from scouter.agent.settings import Settings
from scouter.agent.vendor_settings import ModelSettings
from scouter.evaluate.judge.prompt import Prompt, Role

GEMINI = GeminiSettings(
    generation_config=GenerationConfig(
        thinking_config=GeminiThinkingConfig(thinking_level=ThinkingLevel.High),
        response_modalities=[Modality.Text],
        media_resolution=MediaResolution.MediaResolutionHigh,
        top_p=0.5,
        audio_timestamp=True,
        enable_enhanced_civic_answers=False,
    ),
    safety_settings=[
        SafetySetting(
            category=HarmCategory.HarmCategoryHateSpeech,
            threshold=HarmBlockThreshold.BlockMediumAndAbove,
        )
    ],
    labels={"a": "b"},
    extra_body={"q": None},
)
GEMINI_WRITTEN = {
    "labels": {"a": "b"},
    "generation_config": {
        "responseModalities": ["TEXT"],
        "thinkingConfig": {"thinkingLevel": "HIGH"},
        "topP": 0.5,
        "audioTimestamp": True,
        "mediaResolution": "MEDIA_RESOLUTION_HIGH",
        "enableEnhancedCivicAnswers": False,
    },
    "safety_settings": [
        {"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_MEDIUM_AND_ABOVE"}
    ],
    "extra_body": {"q": None},
}
OPENAI = OpenAIChatSettings(
    max_completion_tokens=5,
    temperature=1.5,
    stop_sequences=["a"],
    stream_options=StreamOptions(include_usage=True),
    logit_bias={"1": 5},
    extra_body={"z": 1},
)
OPENAI_WRITTEN = {
    "max_completion_tokens": 5,
    "temperature": 1.5,
    "stop_sequences": ["a"],
    "stream_options": {"include_usage": True},
    "logit_bias": {"1": 5},
    "extra_body": {"z": 1},
}
ANTHROPIC = AnthropicSettings(
    thinking=AnthropicThinkingConfig(type="enabled", budget_tokens=2000),
    metadata=Metadata(user_id="u"),
    tool_choice={"type": "auto"},
)
ANTHROPIC_WRITTEN = {
    "max_tokens": 4096,
    "thinking": {"budget_tokens": 2000, "type": "enabled"},
    "metadata": {"user_id": "u"},
    "tool_choice": {"type": "auto"},
}
CASES = [
    pytest.param(GEMINI, GEMINI_WRITTEN, id="gemini"),
    pytest.param(OPENAI, OPENAI_WRITTEN, id="openai"),
    pytest.param(ANTHROPIC, ANTHROPIC_WRITTEN, id="anthropic"),
]


@pytest.mark.parametrize(("settings", "written"), CASES)
def test_what_was_given_is_written(settings: Settings, written: dict[str, Any]) -> None:
    assert settings.model_dump(mode="json") == written
    assert json.loads(settings.model_dump_json()) == written
    assert type(settings).model_validate(written) == settings


@pytest.mark.parametrize(("settings", "written"), CASES)
def test_a_prompt_takes_them(settings: Any, written: dict[str, Any]) -> None:
    """Themselves, or under the name that all providers share."""
    shared = ModelSettings(settings)

    assert shared.settings is settings
    assert shared.model_dump(mode="json") == written
    for given in (settings, shared):
        prompt = Prompt("hi", "m", "openai", model_settings=given)
        assert prompt.model_settings == written
        assert Prompt.model_validate_json(prompt.model_dump_json()) == prompt


def test_what_was_not_given_is_not_written() -> None:
    assert GeminiSettings().model_dump() == {}
    assert OpenAIChatSettings().model_dump() == {}
    assert AnthropicSettings().model_dump() == {"max_tokens": 4096}


def test_values_by_position_as_the_original_takes_them() -> None:
    """Type checkers get the names only."""
    make: Any = AnthropicThinkingConfig
    assert make("enabled", 2000) == ANTHROPIC.thinking
    make = SafetySetting
    assert make(HarmCategory.HarmCategoryToxicity, "OFF").threshold is HarmBlockThreshold.Off
    with pytest.raises(TypeError, match="SafetySetting takes category, threshold; got 3"):
        make("HARM_CATEGORY_TOXICITY", "OFF", 1)
    with pytest.raises(TypeError, match="SafetySetting got 'category' twice"):
        make("HARM_CATEGORY_TOXICITY", category="HARM_CATEGORY_TOXICITY")


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (OpenAIChatSettings, {"temperature": 9.5}, "temperature"),
        (OpenAIChatSettings, {"top_p": 1.01}, "top_p"),
        (OpenAIChatSettings, {"presence_penalty": -2.5}, "presence_penalty"),
        (OpenAIChatSettings, {"stop_sequences": list("abcde")}, "stop_sequences"),
        (OpenAIChatSettings, {"logit_bias": {"1": 101}}, "logit_bias"),
        (OpenAIChatSettings, {"tempature": 1}, "tempature"),
        (AnthropicSettings, {"temperature": 1.5}, "temperature"),
        (AnthropicSettings, {"max_tokens": 0}, "max_tokens"),
        (AnthropicSettings, {"thinking": {"type": "disabled", "budget_tokens": 5}}, "no use"),
        (GenerationConfig, {"topK": 0}, "topK"),
        (GeminiSettings, {"safety_settings": [{"category": "x", "threshold": "OFF"}]}, "category"),
    ],
)
def test_what_no_provider_takes_is_named(
    kind: type[Settings], fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError, match=named):
        kind.model_validate(fields)


def test_settings_by_name() -> None:
    chat = OpenAIChatSettings(temperature=0.5)
    made = ModelSettings(settings=chat)  # pyright: ignore[reportCallIssue] the original's name
    assert made == ModelSettings(chat)
    assert made.settings == chat
    assert ModelSettings.model_validate_json(made.model_dump_json()).settings == chat
    assert ModelSettings.model_validate({"temperature": 0.5}).settings == chat


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
