"""Settings and messages for models of Google: Gemini, by its own service or by Vertex."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from scouter.agent.settings import (
    CamelSettings,
    Count,
    GeminiContent,
    Json,
    Penalty,
    Ratio,
    Settings,
    Temperature,
)

__all__ = (
    "GeminiContent",
    "GeminiSettings",
    "GeminiThinkingConfig",
    "GenerationConfig",
    "HarmBlockThreshold",
    "HarmCategory",
    "MediaResolution",
    "Modality",
    "SafetySetting",
    "ThinkingLevel",
)


class ThinkingLevel(StrEnum):
    """The depth of thinking."""

    ThinkingLevelUnspecified = "THINKING_LEVEL_UNSPECIFIED"
    Low = "LOW"
    High = "HIGH"


class Modality(StrEnum):
    """A kind of output."""

    ModalityUnspecified = "MODALITY_UNSPECIFIED"
    Text = "TEXT"
    Image = "IMAGE"
    Audio = "AUDIO"
    Video = "VIDEO"
    Document = "DOCUMENT"


class MediaResolution(StrEnum):
    """The resolution at which images and films are read."""

    MediaResolutionUnspecified = "MEDIA_RESOLUTION_UNSPECIFIED"
    MediaResolutionLow = "MEDIA_RESOLUTION_LOW"
    MediaResolutionMedium = "MEDIA_RESOLUTION_MEDIUM"
    MediaResolutionHigh = "MEDIA_RESOLUTION_HIGH"


class HarmCategory(StrEnum):
    """A kind of harm."""

    HarmCategoryUnspecified = "HARM_CATEGORY_UNSPECIFIED"
    HarmCategoryDerogatory = "HARM_CATEGORY_DEROGATORY"
    HarmCategoryToxicity = "HARM_CATEGORY_TOXICITY"
    HarmCategoryViolence = "HARM_CATEGORY_VIOLENCE"
    HarmCategorySexual = "HARM_CATEGORY_SEXUAL"
    HarmCategoryMedical = "HARM_CATEGORY_MEDICAL"
    HarmCategoryDangerous = "HARM_CATEGORY_DANGEROUS"
    HarmCategoryHarassment = "HARM_CATEGORY_HARASSMENT"
    HarmCategoryHateSpeech = "HARM_CATEGORY_HATE_SPEECH"
    HarmCategorySexuallyExplicit = "HARM_CATEGORY_SEXUALLY_EXPLICIT"
    HarmCategoryDangerousContent = "HARM_CATEGORY_DANGEROUS_CONTENT"


class HarmBlockThreshold(StrEnum):
    """From which probability of harm on an answer is withheld."""

    HarmBlockThresholdUnspecified = "HARM_BLOCK_THRESHOLD_UNSPECIFIED"
    BlockLowAndAbove = "BLOCK_LOW_AND_ABOVE"
    BlockMediumAndAbove = "BLOCK_MEDIUM_AND_ABOVE"
    BlockOnlyHigh = "BLOCK_ONLY_HIGH"
    BlockNone = "BLOCK_NONE"
    Off = "OFF"


class SafetySetting(Settings):
    """Rule by which the vendor withholds answers that may do one kind of harm.

    Args:
        category: The kind of harm.
        threshold: Lowest probability of harm at which an answer is withheld.
    """

    category: HarmCategory
    threshold: HarmBlockThreshold


class GeminiThinkingConfig(CamelSettings):
    """The model's thinking before its answer, and its depth.

    Args:
        include_thoughts: Whether to tell what was thought.
        thinking_budget: Most tokens to think with; -1 leaves it to the model, 0 is not at all.
        thinking_level: Depth of the thinking.
    """

    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, Field(ge=-1)] | None = None
    thinking_level: ThinkingLevel | None = None


class GenerationConfig(CamelSettings):
    """Settings of an answer; all are optional.

    Args:
        stop_sequences: Texts that end the answer.
        response_mime_type: Form of the answer, such as `application/json`.
        response_json_schema: Schema of the answer; a prompt's `output_type` is meant for this.
        response_modalities: Kinds of output.
        thinking_config: Whether to think first.
        temperature: Freedom of the choice of tokens, in [0, 2].
        top_p: Choose among tokens of so much probability, in [0, 1].
        top_k: Choose among so many tokens.
        candidate_count: Number of answers to write.
        max_output_tokens: Most tokens to write.
        response_logprobs: Whether to tell the probability of each token.
        logprobs: Number of tokens to tell of for each place.
        presence_penalty: Against tokens that were there at all, in [-2, 2].
        frequency_penalty: Against tokens by how often they were there, in [-2, 2].
        seed: For the same choice again.
        audio_timestamp: Whether to read times from sound.
        media_resolution: Resolution at which images and films are read.
        speech_config: Voices of spoken answers, as the provider takes it.
        enable_affective_dialog: Whether to answer to the speaker's mood.
        enable_enhanced_civic_answers: Whether to take more care with questions about elections.
        image_config: Form of images, as the provider takes it.
    """

    stop_sequences: list[str] | None = None
    response_mime_type: str | None = None
    response_json_schema: JsonValue = None
    response_modalities: list[Modality] | None = None
    thinking_config: GeminiThinkingConfig | None = None
    temperature: Temperature | None = None
    top_p: Ratio | None = None
    top_k: Count | None = None
    candidate_count: Count | None = None
    max_output_tokens: Count | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, Field(ge=0)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | None = None
    audio_timestamp: bool | None = None
    media_resolution: MediaResolution | None = None
    speech_config: Json | None = None
    enable_affective_dialog: bool | None = None
    enable_enhanced_civic_answers: bool | None = None
    image_config: Json | None = None


class GeminiSettings(Settings):
    """Settings of a request, in Google's words; all may be left out.

    Args:
        labels: Pairs, stored with the request.
        tool_config: Tools that may be called, as the provider takes it.
        generation_config: Settings of the answer.
        safety_settings: Conditions to withhold the answer.
        model_armor_config: Templates of Model Armor, as the provider takes it.
        extra_body: Further fields of the request.
        cached_content: Name of a context that the provider has.
        tools: The available tools, as the provider takes them.
    """

    labels: dict[str, str] | None = None
    tool_config: Json | None = None
    generation_config: GenerationConfig | None = None
    safety_settings: list[SafetySetting] | None = None
    model_armor_config: Json | None = None
    extra_body: JsonValue = None
    cached_content: str | None = None
    tools: list[Json] | None = None
