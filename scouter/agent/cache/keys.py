"""The key of a question: the same for the same question, in every process and at any time."""

import json
from hashlib import sha256
from typing import Final

from scouter.evaluate.judge.port import JudgeRequest

_FORM: Final = "scouter judge 1"
"""Part of every key: raised when answers to the same question mean something else."""


def cache_key(request: JudgeRequest, *, space: str, entry: str) -> bytes:
    """Make the key of a question.

    The key covers everything that an answer depends on: provider, model, settings, form of the
    answer, every message with its role, and the number among several samples. It covers the space,
    too, as no space reads the questions of another one. The asker does not count: neither record
    nor task.

    The encoding is a JSON list, from which every part could be read back; so different questions
    have different encodings. Settings are sorted by name. The order inside of a schema counts:
    models write the fields of an answer in that order.

    Args:
        request: The question.
        space: Space of the answer.
        entry: Identity of the provider entry.

    Returns:
        A SHA-256, 32 bytes.

    Raises:
        ValueError: The question has no JSON form.

    Cost: linear in the question; 60 µs for 10,000 letters.
    """
    parts = (
        _FORM,
        space,
        entry,
        request.model,
        sorted(request.settings.items()),
        request.response_schema,
        [(message["role"], message["content"]) for message in request.messages],
        request.sample,
    )
    try:
        text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the question has no JSON form: {error}") from error
    # Half characters stay what they are; escaped, two of them would look like a whole one.
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _plain(value: object) -> object:
    """A mapping that is no dict, as one that is read-only."""
    if hasattr(value, "items"):
        return dict(value)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} has none")
