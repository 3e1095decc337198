"""Limits of a profile that came over the network, and what its JSON schemas come to."""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Limits of one profile. A local file has none of them, only those of the engine."""

    body_bytes: int = 2**20
    """Bytes of the JSON text."""
    depth: int = 64
    """Levels of lists and objects."""
    values: int = 50_000
    """Values and keys, of all levels."""
    tasks: int = 256
    """Tasks, those inside an `AttributeFilter` among them."""
    variables: int = 1_000
    """`${path}` in all texts."""
    json_paths: int = 16
    """Paths that begin with `$`, each of which may look at a whole record."""
    filters: int = 256
    """Span filters, those inside others among them; each may look at every span of a trace."""
    patterns: int = 64
    """Regular expressions, those of JSON schemas among them."""
    pattern_characters: int = 1_000
    """Characters of one pattern."""
    pattern_instructions: int = 2_000
    """That one pattern becomes; counted repetition multiplies them."""
    schemas: int = 16
    """JSON schemas: of `MatchesJsonSchema`, and of judges' answers."""
    schema_keywords: int = 2_000
    """Of all schemas; what a validation may cost is bounded where it is made."""
    prompts_characters: int = 200_000
    """Of all messages of all prompts, before variables are filled in, and of all rubrics."""
    reference_calls: int = 1_000
    """Expected calls of all trajectory and reliability tasks that say them themselves."""
    assigned_calls: int = 100
    """Those among them whose arguments are compared one by one, each with those of every call of
    its tool, as partial credit and every rule but `exact` want it."""
    journey_goals: int = 200
    """Goals of all journey tasks, each of which is compared with every call."""
    report_fields: int = 1_000
    """Sections and fields of all report tasks, each of which is compared in every report."""
    answer_tokens: int = 32_000
    """That one answer of a judge may have, and as many for thinking before it."""
    judge_calls: int = 100
    """That one record may cost: of every judge task its samples, for a swapped pair twice, and
    the retries of each."""


WIRE_LIMITS: Final = WireLimits()
"""Limits of what a collector takes."""


def schema_parts(schema: JsonValue) -> tuple[int, list[str]]:
    """Count the keys of a schema, and list all that it may use as a regular expression.

    Cost: linear in the schema.
    """
    count, patterns, waiting = 0, list[str](), [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            count += len(part)
            waiting += part.values()
            if isinstance(pattern := part.get("pattern"), str):
                patterns.append(pattern)
            if isinstance(named := part.get("patternProperties"), dict):
                patterns += named
    return count, patterns
