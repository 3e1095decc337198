"""Finish reasons of models' calls, in one word for all providers."""

from functools import lru_cache
from typing import Final

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
        ERROR: "error failed malformedmodeloutput",
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
