"""Token counts and finish reasons in the words of each provider, given one meaning."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import total_of
from scouter.model.genai.facts import Usage
from scouter.model.genai.messages import field

STOP: Final = "stop"
TOOL_CALL: Final = "tool_call"
ERROR: Final = "error"
_WORDS: Final = {
    word: known
    for known, words in {
        STOP: "stop endturn stopsequence complete completed eostoken finish finished endoftext",
        "length": "length maxtokens maxoutputtokens modellength modelcontextwindowexceeded",
        TOOL_CALL: "toolcall toolcalls tooluse functioncall functioncalls requiresaction"
        " malformedfunctioncall malformedtooluse unexpectedtoolcall",
        "content_filter": "contentfilter contentfiltered safety imagesafety recitation blocklist"
        " prohibitedcontent spii refusal guardrailintervened",
        ERROR: "error failed malformedmodeloutput cancelled canceled abort aborted inprogress"
        " queued",
    }.items()
    for word in words.split()
}
"""Words of OpenTelemetry's messages for those of providers, which have no case and no signs here.

Source: OpenTelemetry GenAI, schema of output messages; the references of OpenAI, Anthropic, Amazon
Bedrock, Gemini and the Vercel AI SDK.
"""


@lru_cache(maxsize=1024)
def finish_word(reason: str) -> str:
    """Give one word for what providers call differently.

    Args:
        reason: Such as `end_turn`, `STOP` or `FinishReason.STOP`.

    Returns:
        `stop`, `length`, `tool_call`, `content_filter` or `error`; any other reason in small
        letters.
    """
    own = reason.rpartition("FinishReason.")[2].lower()
    return _WORDS.get("".join(filter(str.isalpha, own)), own)


_INPUT: Final = (
    "prompt_tokens", "input_tokens", "inputTokens", "promptTokens", "promptTokenCount",
    "prompt_token_count", "input",
)  # fmt: skip
_OUTPUT: Final = (
    "completion_tokens", "output_tokens", "outputTokens", "completionTokens",
    "candidatesTokenCount", "candidates_token_count", "output",
)  # fmt: skip
_TOTAL: Final = ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count", "total")
_CACHE: Final = (
    ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read"),
    ("cache_creation_input_tokens", "input_cache_creation"),
)
"""Anthropic's words, which others use, too, and Langfuse's."""
_OF_INPUT: Final = (
    "prompt_tokens_details", "input_tokens_details", "input_token_details", "promptTokensDetails",
)  # fmt: skip
_OF_OUTPUT: Final = (
    "completion_tokens_details", "output_tokens_details", "output_token_details",
    "candidates_tokens_details", "candidatesTokensDetails",
)  # fmt: skip
"""Objects of numbers; Gemini's are lists with a number for each modality."""
_CACHED: Final = (
    "cache_read_input_tokens", "cacheReadInputTokens", "cached_tokens", "cache_read",
    "input_cached_tokens", "input_cache_read", "cachedContentTokenCount", "cached_prompt_tokens",
    "cached_content_token_count",
)  # fmt: skip
_WRITTEN: Final = (
    "cache_creation_input_tokens", "cacheWriteInputTokens", "cache_creation",
    "input_cache_creation",
)  # fmt: skip
_REASONING: Final = (
    "reasoning_tokens", "reasoning", "output_reasoning_tokens", "output_reasoning",
    "thoughtsTokenCount", "thoughts_token_count",
)  # fmt: skip
_AUDIO_INPUT: Final = ("input_audio_tokens", "input_audio")
_AUDIO_OUTPUT: Final = ("output_audio_tokens", "output_audio")
_AUDIO: Final = ("audio_tokens", "audio")
"""OpenAI's and LangChain's words, in the details of either side."""
_OPENAI: Final = ("prompt_tokens", "prompt_tokens_details", "input_tokens_details")
"""Fields of OpenAI's usage; with one of them, the prompt count includes cached tokens."""
_BESIDE_INPUT: Final = (
    ("cacheReadInputTokens",),
    ("cacheWriteInputTokens",),
    ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
)
_BESIDE_OUTPUT: Final = (("thoughtsTokenCount", "thoughts_token_count"),)

Tokens = tuple[int | None, int | None, int | None]
"""Input, output, total; None where not reported."""


def tokens(usage: JsonValue) -> Tokens:
    """Read what a response reports of its tokens, in the words of any provider."""
    given, made = _integer(usage, _INPUT), _integer(usage, _OUTPUT)
    if given is not None:
        cached = _sum(usage, _CACHE)
        if _is_inside(usage, cached, given, made):
            cached = 0
        given += cached + _sum(usage, _BESIDE_INPUT)
    if made is not None:
        made += _sum(usage, _BESIDE_OUTPUT)
    return given, made, total_of(_integer(usage, _TOTAL), given, made)


def read_usage(usage: JsonValue) -> Usage:
    """Read the same with its parts, which lie beside the counts or in objects of their own."""
    given, made, total = tokens(usage)
    holders = [usage, *(field(usage, name) for name in (*_OF_INPUT, *_OF_OUTPUT))]

    def part(names: tuple[str, ...]) -> int | None:
        found = (_integer(holder, names) for holder in holders)
        return next((count for count in found if count is not None), None)

    return whole_output(
        Usage(
            input=given,
            output=made,
            total=total,
            cached=part(_CACHED),
            cache_written=part(_WRITTEN),
            reasoning=part(_REASONING),
            audio_input=_audio(usage, _AUDIO_INPUT, _OF_INPUT),
            audio_output=_audio(usage, _AUDIO_OUTPUT, _OF_OUTPUT),
        )
    )


def _audio(usage: JsonValue, names: tuple[str, ...], details: tuple[str, ...]) -> int | None:
    if (count := _integer(usage, names)) is not None:
        return count
    for holder in (field(usage, each) for each in details):
        if isinstance(holder, list):
            sound = [each for each in holder if field(each, "modality") == "AUDIO"]
            return sum(_integer(each, ("tokenCount", "token_count")) or 0 for each in sound)
        if (count := _integer(holder, _AUDIO)) is not None:
            return count
    return None


def whole_output(usage: Usage) -> Usage:
    """Put the reasoning into the output where the numbers say that the count leaves it out.

    It is larger than the output, or the total needs it, as where Langfuse splits them.
    """
    reasoning = usage.reasoning or 0
    sum_of = (usage.input or 0) + (usage.output or 0)
    needs_it = reasoning and usage.input is not None and usage.total == sum_of + reasoning
    if usage.output is None or not (reasoning > usage.output or needs_it):
        return usage
    total = sum_of + reasoning if usage.total == sum_of else usage.total
    return replace(usage, output=usage.output + reasoning, total=total)


def whole_input(usage: Usage, *, leaves_out_cache: bool) -> Usage:
    """Put the tokens of the cache into the input where the count leaves them out.

    Args:
        usage: As a span's attributes tell it.
        leaves_out_cache: The convention or the provider says that it does. Where the numbers
            themselves say so, they are believed without it.
    """
    beside = (usage.cached or 0) + (usage.cache_written or 0)
    if usage.input is None or not beside:
        return usage
    sum_of = usage.input + (usage.output or 0)
    if not (leaves_out_cache or beside > usage.input or usage.total == sum_of + beside):
        return usage
    total = sum_of + beside if usage.total == sum_of else usage.total
    return replace(usage, input=usage.input + beside, total=total)


def _is_inside(usage: JsonValue, cached: int, given: int, made: int | None) -> bool:
    """Tell whether the input tokens have those of the cache in them."""
    if cached > given:
        return False
    total = _integer(usage, _TOTAL)
    if total is not None and made is not None and total in (given + made, given + cached + made):
        return total == given + made
    return any(field(usage, name) is not None for name in _OPENAI)


def _sum(usage: JsonValue, fields: tuple[tuple[str, ...], ...]) -> int:
    return sum(_integer(usage, names) or 0 for names in fields)


def add(usages: Sequence[JsonValue]) -> tuple[Tokens, tuple[int, int, int]]:
    """Add up the tokens of several answers.

    Returns:
        The sums, None where no answer tells; and of how many answers each of them lacks its part.
    """
    columns = list(zip(*map(tokens, usages), strict=True)) or [(), (), ()]
    known = [[count for count in column if count is not None] for column in columns]
    given, made, total = (sum(column) if column else None for column in known)
    lacks = [len(usages) - len(column) if column else 0 for column in known]
    return (given, made, total), (lacks[0], lacks[1], lacks[2])


def _integer(holder: JsonValue, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = field(holder, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
