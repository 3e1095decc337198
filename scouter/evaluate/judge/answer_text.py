"""The part of a model's answer that is meant to be read as JSON."""

import re
from typing import Final

_FENCE: Final = "```"
_OPENING: Final = re.compile(r"`{3,}(?:[A-Za-z]\w*(?=[\s\[{\"]))?")
"""Backquotes and, if wanted, a language, which ends in front of the JSON."""
_SPACE: Final = " \t\r\n\ufeff"
"""White space that may stand around JSON, and a byte order mark, which some servers write."""


def json_part(text: str) -> str:
    """Find the JSON of an answer: what stands between fences, else all of it.

    The fences may be in one line, and text may stand before and after them. Then only an object or
    a list is taken, as a number in a sentence is no verdict. An answer that begins as JSON is read
    as a whole, so that fences inside its texts are texts.

    Args:
        text: As the model wrote it.

    Returns:
        The part, which need not be JSON: of several blocks, nobody knows which counts.

    Cost: linear.
    """
    whole = text.strip(_SPACE)
    start = whole.find(_FENCE)
    if start < 0 or whole[0] in '{["':
        return whole
    opening = _OPENING.match(whole, start)
    end = whole.rfind(_FENCE)
    if opening is None or end < opening.end():
        return whole
    inside = whole[opening.end() : end].strip(_SPACE + "`")
    is_alone = start == 0 and end + len(_FENCE) == len(whole)
    return inside if is_alone or inside.startswith(("{", "[")) else whole
