"""An answer as it is stored: its value and the model that gave it, and no more."""

import json
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.judge.port import JudgeReply

_OVERHEAD: Final = 100
"""Bytes that an entry takes beside its text: key, times and the store's own data. An estimate."""


def write(reply: JudgeReply) -> str | None:
    """Write an answer as text; None for one without a JSON form.

    Tokens and cost are left out: an answer that is kept takes none again.
    """
    try:
        return json.dumps([reply.response, reply.model], separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def read(text: object) -> JudgeReply | None:
    """Read an answer; None for what is none."""
    try:
        found: JsonValue = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    match found:
        case [response, str(model)]:
            return JudgeReply(response=response, model=model)
        case _:
            return None


def size_of(text: str) -> int:
    """Bytes that an answer takes in a store, roughly."""
    return len(text) + _OVERHEAD
