"""Settings and messages for models of OpenAI, and of services that speak its protocol."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from scouter.agent.settings import (
    ChatMessage,
    Count,
    Json,
    Penalty,
    Ratio,
    Settings,
    Temperature,
    TextContentPart,
)

__all__ = ("ChatMessage", "OpenAIChatSettings", "StreamOptions", "TextContentPart")


class StreamOptions(Settings):
    """Content of a stream besides its tokens.

    Args:
        include_obfuscation: Pad the pieces, so that their length tells nothing.
        include_usage: End with the tokens used.
    """

    include_obfuscation: bool | None = None
    include_usage: bool | None = None


class OpenAIChatSettings(Settings):
    """Settings of a chat completion, in OpenAI's words; all may be left out.

    Args:
        max_completion_tokens: Most tokens to write, reasoning included.
        temperature: Freedom of the choice of tokens, in [0, 2].
        top_p: Choose among tokens of so much probability, in [0, 1].
        top_k: Choose among so many tokens.
        frequency_penalty: Against tokens by how often they were there, in [-2, 2].
        timeout: Of the request, in seconds.
        parallel_tool_calls: Whether several tools may be called at once.
        seed: For the same choice again.
        logit_bias: For or against tokens, by id, in [-100, 100].
        stop_sequences: At most 4 texts that end the answer.
        logprobs: Whether to tell the probability of each token.
        audio: Form and voice of spoken answers.
        metadata: At most 16 pairs, stored with the request.
        modalities: Kinds of output, such as `text`.
        n: Number of answers to write.
        prediction: Text that the answer is expected to be.
        presence_penalty: Against tokens that were there at all, in [-2, 2].
        prompt_cache_key: Groups requests that share a beginning.
        reasoning_effort: Length of the thinking, such as `low`.
        safety_identifier: Name of the user of the request.
        service_tier: Urgency of the request, such as `flex`.
        store: Whether the provider keeps the answer.
        stream: Whether to send the answer in pieces.
        stream_options: Contents of the pieces.
        tool_choice: The tool to call, as the provider takes it.
        tools: The available tools, as the provider takes them.
        top_logprobs: Number of tokens to tell of for each place, 0 to 20.
        verbosity: Length of the answer: `low`, `medium` or `high`.
        extra_body: Further fields of the request.
    """

    max_completion_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: Ratio | None = None
    top_k: Count | None = None
    frequency_penalty: Penalty | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    parallel_tool_calls: bool | None = None
    seed: int | None = None
    logit_bias: dict[str, Annotated[int, Field(ge=-100, le=100)]] | None = None
    stop_sequences: Annotated[list[str], Field(max_length=4)] | None = None
    logprobs: bool | None = None
    audio: Json | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    modalities: list[str] | None = None
    n: Count | None = None
    prediction: Json | None = None
    presence_penalty: Penalty | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tool_choice: JsonValue = None
    tools: list[Json] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    extra_body: JsonValue = None
