"""Limits of a profile that came over the network, and what its JSON schemas come to.

A schema is checked keyword by keyword and value by value. References make a short schema
expensive: ten definitions that each refer twice to the next are a thousand checks of one value. So
a schema from the network is measured with its references written out, and may not refer to itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from scouter.errors import ConfigError


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
    """Of all schemas, with every reference written out."""
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


MAX_DEPTH: Final = 100
"""Levels of a schema with its references written out."""
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")


def schema_patterns(schema: JsonValue) -> Iterator[str]:
    """Every text that a schema may use as a regular expression.

    Cost: linear in the schema.
    """
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            if isinstance(pattern := part.get("pattern"), str):
                yield pattern
            if isinstance(named := part.get("patternProperties"), dict):
                yield from named


def schema_keywords(schema: JsonValue) -> int:
    """Count the keys of a schema with every reference written out.

    Args:
        schema: Any JSON value.

    Raises:
        ConfigError: It refers to itself, to something outside, or by anything but `#/…`; names
            the reference.

    Cost: linear in the schema, as each place is counted once.
    """
    return _Count(schema).of(schema, 0)


class _Count:
    """One count; remembers what each reference comes to."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        dialect = root.get("$schema") if isinstance(root, dict) else None
        self._id = "id" if isinstance(dialect, str) and "draft-04" in dialect else "$id"
        self._known: dict[str, int | None] = {}
        """Keys by reference; None while they are being counted."""

    def of(self, part: JsonValue, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise ConfigError(f"the schema is more than {MAX_DEPTH} levels deep")
        if isinstance(part, list):
            return sum(self.of(item, depth + 1) for item in part)
        if not isinstance(part, dict):
            return 0
        for keyword in _ELSEWHERE:
            if isinstance(part.get(keyword), str):
                raise ConfigError(f"the schema uses {keyword!r}; use '$ref' to '#/$defs/…'")
        if depth and isinstance(part.get(self._id), str):
            raise ConfigError(f"the schema has {self._id!r} inside, which moves what '#' means")
        count = len(part) + sum(self.of(item, depth + 1) for item in part.values())
        ref = part.get("$ref")
        return count + self._behind(ref, depth) if isinstance(ref, str) else count

    def _behind(self, ref: str, depth: int) -> int:
        if ref not in self._known:
            self._known[ref] = None
            self._known[ref] = self.of(self._target(ref), depth + 1)
        count = self._known[ref]
        if count is None:
            raise ConfigError(f"the schema's reference {ref[:100]!r} leads back to itself")
        return count

    def _target(self, ref: str) -> JsonValue:
        if ref != "#" and not ref.startswith("#/"):
            raise ConfigError(f"the schema refers to {ref[:100]!r}; only '#/…' is taken")
        node = self._root
        for step in ref.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise ConfigError(f"the schema refers to {ref[:100]!r}, which is not in it")
        return node
