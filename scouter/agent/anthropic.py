"""Settings and messages for models of Anthropic."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from scouter.agent.settings import Count, Json, MessageParam, Ratio, Settings

__all__ = ("AnthropicSettings", "AnthropicThinkingConfig", "MessageParam", "Metadata")


class Metadata(Settings):
    """The end user of a request.

    Args:
        user_id: A name that says nothing to others.
    """

    user_id: str | None = None


class AnthropicThinkingConfig(Settings):
    """The model's thinking before its answer.

    Args:
        type: `enabled`, `disabled` or `adaptive`.
        budget_tokens: Most tokens to think with.

    Raises:
        pydantic.ValidationError: A budget where nothing is thought.
    """

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Count | None = None

    @model_validator(mode="after")
    def _budget_has_a_use(self) -> Self:
        if self.type == "disabled" and self.budget_tokens is not None:
            raise ValueError("thinking is disabled, so budget_tokens has no use")
        return self


class AnthropicSettings(Settings):
    """Settings of a message, in Anthropic's words.

    Args:
        max_tokens: Most tokens to write; the provider asks for this one.
        metadata: Names the user of the request.
        service_tier: Urgency of the request: `auto` or `standard_only`.
        stop_sequences: Texts that end the answer.
        stream: Whether to send the answer in pieces.
        system: Text of the system; a prompt's `system_instructions` are meant for this.
        temperature: Freedom of the choice of tokens, in [0, 1].
        thinking: Whether to think first.
        top_k: Choose among so many tokens.
        top_p: Choose among tokens of so much probability, in [0, 1].
        tools: The available tools, as the provider takes them.
        tool_choice: The tool to call, as the provider takes it.
        extra_body: Further fields of the request.
    """

    max_tokens: Count = 4096
    metadata: Metadata | None = None
    service_tier: str | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    system: str | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    thinking: AnthropicThinkingConfig | None = None
    top_k: Count | None = None
    top_p: Ratio | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    extra_body: JsonValue = None
