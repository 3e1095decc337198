"""Scores from outside: what another evaluator or a person says of a trace, record or session."""

import hashlib
from typing import Final

PEOPLE: Final = "human"
"""Source of a score that a person gives."""
SOURCE: Final = "gen_ai.evaluation.source"
"""Attribute of an event that names it."""
SCORE_OF: Final = "scouter.score.of"
"""Tag of a score with the uid of the record that it is about."""
_SCORE: Final = "score:"


def score_uid(*parts: str) -> str:
    """The uid of the record that carries a score, the same every time.

    Args:
        parts: All that tells the score from others.

    Returns:
        `score:` and 32 hex digits.
    """
    text = "\n".join(("scouter.score", *parts))
    return _SCORE + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def is_score_uid(uid: str) -> bool:
    """Tell whether a uid has the form that is reserved for scores."""
    rest = uid.removeprefix(_SCORE)
    return rest != uid and len(rest) == 32 and set(rest) <= set("0123456789abcdef")
