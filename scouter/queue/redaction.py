"""Redaction: rules of a user for data that must not leave the process."""

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class RedactionRule(BaseModel):
    r"""One thing to drop, hash or mask.

    Give a place, a pattern, or both: a place alone means the whole value there; a pattern alone
    means each match in every text of spans and records; both mean the matches in that place.

    Examples:
        `RedactionRule(action="drop", context="customer.email")`,
        `RedactionRule(action="mask", attribute="gen_ai.input.*")`,
        `RedactionRule(action="hash", pattern=r"[\w.]+@[\w.]+")`

    Args:
        action: `drop` takes it away (in a list `null` stays, so that the others keep their
            places); `hash` writes its HMAC-SHA256, so that equal values stay equal; `mask` writes
            `Redaction.mask`.
        attribute: Name of attributes of spans, their events, links and resources; `*` stands for
            any characters.
        context: Path into the contexts of records, written as in tasks (`items[*].email`).
        pattern: A regular expression of RE2's syntax, as in tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    action: Literal["drop", "hash", "mask"]
    attribute: str | None = Field(default=None, min_length=1)
    context: str | None = Field(default=None, min_length=1)
    pattern: str | None = Field(default=None, min_length=1)


class Redaction(BaseModel):
    """Rules for everything that Scouter sends: applied to its copy, before anything waits.

    The application's own exporters see their spans as they are. Patterns are looked for in
    span names, attributes, events, links, status texts, resources; in contexts, ids of records
    and sessions, and tags; names of attributes and keys included. Rules are applied in order,
    those with a place before those without.

    Args:
        rules: The rules.
        hash_key: Key of the hashes. Environment: SCOUTER_REDACTION_KEY.
        mask: Text in place of a masked value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    rules: tuple[RedactionRule, ...]
    hash_key: SecretStr | None = Field(
        default_factory=lambda: (
            SecretStr(text) if (text := os.environ.get("SCOUTER_REDACTION_KEY")) else None
        ),
        repr=False,
    )
    mask: str = "[redacted]"
