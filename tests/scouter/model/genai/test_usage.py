"""Tokens of a cache are counted once, whoever tells of them; the numbers are added by hand."""

from typing import Any

import pytest

from scouter.model.genai.usage import read_usage, tokens

CACHE = {"cache_read_input_tokens": 800, "cache_creation_input_tokens": 100}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {"input_tokens": 100, "output_tokens": 10, **CACHE}, (1000, 10, 1010), id="anthropic"
        ),
        pytest.param(
            {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, **CACHE,
             "prompt_tokens_details": {"cached_tokens": 800}},
            (1000, 10, 1010), id="litellm",
        ),
        pytest.param(
            {"prompt_tokens": 1000, "completion_tokens": 10, **CACHE}, (1000, 10, 1010),
            id="without-a-total",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 1010, **CACHE},
            (1000, 10, 1010), id="beside-by-the-total",
        ),
        pytest.param(
            {"prompt_tokens": 950, "completion_tokens": 10, "total_tokens": 1860, **CACHE},
            (1850, 10, 1860), id="large-and-beside-by-the-total",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 10, **CACHE}, (1000, 10, 1010),
            id="more-cached-than-read",
        ),
        pytest.param(
            {"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010, **CACHE,
             "input_tokens_details": {"cached_tokens": 800}},
            (1000, 10, 1010), id="responses-api",
        ),
        pytest.param(
            {"input_tokens": 1000, "output_tokens": 10, **CACHE,
             "input_tokens_details": {"cached_tokens": 800}},
            (1000, 10, 1010), id="responses-api-without-a-total",
        ),
        pytest.param(
            {"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010, **CACHE},
            (1000, 10, 1010), id="anthropic-words-with-a-total",
        ),
        pytest.param(
            {"input_tokens": 1000, "output_tokens": 10, **CACHE}, (1900, 10, 1910),
            id="anthropic-with-a-long-rest",
        ),
        pytest.param(
            {"inputTokens": 100, "outputTokens": 10, "cacheReadInputTokens": 800}, (900, 10, 910),
            id="bedrock",
        ),
        pytest.param(
            {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, (7, 3, 10),
            id="openai",
        ),
        pytest.param(
            {"prompt_tokens": 7, "cache_read_input_tokens": 5}, (7, None, None), id="part"
        ),
    ],
)  # fmt: skip
def test_tokens(usage: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    assert tokens(usage) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {"prompt_tokens_details": {"audio_tokens": 40, "cached_tokens": 0},
             "completion_tokens_details": {"audio_tokens": 15}},
            (40, 15), id="openai",
        ),
        pytest.param(
            {"input_token_details": {"audio": 40}, "output_token_details": {"reasoning": 3}},
            (40, None), id="langchain",
        ),
        pytest.param({"input_audio_tokens": 40, "output_audio": 15}, (40, 15), id="langfuse"),
        pytest.param(
            {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 60},
                                     {"modality": "AUDIO", "tokenCount": 40}],
             "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 20}]},
            (40, 0), id="gemini",
        ),
        pytest.param({"prompt_tokens_details": {"cached_tokens": 5}}, (None, None), id="missing"),
    ],
)  # fmt: skip
def test_sound_is_a_part(usage: dict[str, Any], expected: tuple[int | None, int | None]) -> None:
    found = read_usage({"prompt_tokens": 100, "completion_tokens": 20, **usage})
    assert (found.audio_input, found.audio_output) == expected
    assert (found.input, found.output) == (100, 20)
