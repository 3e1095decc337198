"""What the validation of a value by a schema may cost, known before it is started.

A keyword meets a value where the schema leads to it. How many keywords may meet one value, at the
worst place of the schema and with its references written out, is counted once for the schema; the
size of the value is counted for each. Their products are bounded. A schema that refers to itself
is counted as if it did not: the number of references that are followed is bounded beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from pydantic import JsonValue
from referencing import Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import Schema as AnySchema

from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import weight
from scouter.evaluate.operators.compiled import MAX_MEETINGS
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns import MAX_WORK, compile_pattern

Object: TypeAlias = dict[str, JsonValue]

_WIDE: Final = frozenset(
    {"properties", "required", "dependentRequired", "dependencies", "dependentSchemas"}
)
"""Keywords that go through their own names in each object, whatever is in it."""
_COMPARED: Final = frozenset({"const", "enum"})
"""Keywords whose own value may be compared as a whole."""
_IN_PLACE: Final = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies",
)  # fmt: skip
"""Keywords whose schemas meet the same value."""
_INSIDE: Final = (
    "properties", "patternProperties", "additionalProperties", "propertyNames", "prefixItems",
    "items", "additionalItems", "contains", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords whose schemas meet the values inside."""
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""Keywords that hold schemas under names."""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REFERENCE: Final = 4
"""Meetings in whose time a reference is followed."""
_DECIMALS: Final = 4
"""Meetings in whose time decimals are divided."""
_REGEX: Final = 100
"""Meetings in whose time a text is compiled for the format `regex`."""
_KEYS_PER_MEETING: Final = 8
"""Values that are compared with each other in the time of a meeting."""


class Resolver(Protocol):
    """Part of the library's resolver that is used here; its types are only partly known."""

    def lookup(self, ref: str) -> "Resolved":
        """Find what a reference leads to."""
        ...

    def in_subresource(self, subresource: object) -> "Resolver":
        """Make the resolver of a schema inside."""
        ...


class Resolved(Protocol):
    """Target of a reference inside a schema."""

    contents: JsonValue
    resolver: Resolver


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Work that one value may meet."""

    each: int = 0
    """Keywords that meet a value."""
    wide: int = 0
    """Names that are looked for in an object."""
    keyed: int = 0
    """Patterns and keywords that meet a key."""
    unique: int = 0
    """Times that all that is inside of a list is compared."""
    searched: int = 0
    """Instructions of patterns that are searched for in a text or a key."""

    def __add__(self, other: "Load") -> "Load":
        return Load(
            each=self.each + other.each,
            wide=self.wide + other.wide,
            keyed=self.keyed + other.keyed,
            unique=self.unique + other.unique,
            searched=self.searched + other.searched,
        )

    def __or__(self, other: "Load") -> "Load":
        return Load(
            each=max(self.each, other.each),
            wide=max(self.wide, other.wide),
            keyed=max(self.keyed, other.keyed),
            unique=max(self.unique, other.unique),
            searched=max(self.searched, other.searched),
        )

    def __mul__(self, times: int) -> "Load":
        return Load(
            each=self.each * times,
            wide=self.wide * times,
            keyed=self.keyed * times,
            unique=self.unique * times,
            searched=self.searched * times,
        )

    def cost(self, values: int, containers: int, keys: int, compared: int) -> int:
        """Bound the keywords that so many values meet.

        Args:
            values: Values that may meet them.
            containers: Lists and objects among them.
            keys: Keys of these objects.
            compared: Values inside of them, each as often as something that it is in is compared.
        """
        return (
            self.each * values
            + self.wide * containers
            + self.keyed * keys
            + self.unique * compared // _KEYS_PER_MEETING
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """What the validation by one schema may cost."""

    here: Load
    """On the value itself."""
    inside: Load
    """On any value inside of it, at the worst place of the schema."""

    def meetings(self, size: "Size") -> int:
        """Bound the keywords that are run where a value of that size is validated."""
        inside = self.inside.cost(size.values, size.containers, size.keys, size.values * size.depth)
        return self.here.cost(1, 1, size.keys, size.values) + inside

    def check(self, value: JsonValue, what: str) -> None:
        """Refuse a value that is too large for the schema.

        Args:
            value: The value that is validated next.
            what: Name of the schema in messages.

        Raises:
            TaskFault: It would take more than `MAX_MEETINGS`, or more than `MAX_WORK` of patterns
                (`Reason.LIMIT`).

        Cost: linear in the value.
        """
        size = Size.of(value)
        meetings = self.meetings(size)
        if meetings > MAX_MEETINGS:
            raise TaskFault(
                Reason.LIMIT,
                f"{what}: {size.values:,} values and the keywords that may meet them make "
                f"{meetings:,} checks, at most {MAX_MEETINGS:,} are made",
            )
        searched = max(self.here.searched, self.inside.searched)
        if searched * size.characters > MAX_WORK:
            raise TaskFault(
                Reason.LIMIT,
                f"{what}: the texts have {size.characters:,} characters; for patterns of "
                f"{searched:,} instructions at most {MAX_WORK // searched:,} are searched",
            )


_NOTHING: Final = Load()


class Loads:
    """Counts the loads of a schema; every place of it is counted once.

    Args:
        specification: Of the schema's draft.
    """

    def __init__(self, specification: "Specification[AnySchema]") -> None:
        self._specification = specification
        self._known: dict[int, tuple[Load, Load]] = {}
        """Of schemas by `id`: the load on a value that one meets, and on those inside it."""

    def of(self, schema: JsonValue, resolver: Resolver) -> Bound:
        """Count the loads of a schema."""
        return Bound(*self._of(schema, resolver))

    def _of(self, schema: JsonValue, resolver: Resolver) -> tuple[Load, Load]:
        if not isinstance(schema, dict):
            return Load(each=1), _NOTHING
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._known[id(schema)] = _NOTHING, _NOTHING  # a schema inside that refers to it
        inner = resolver.in_subresource(self._specification.create_resource(schema))
        here, inside = _own(schema), self._inside(schema, inner)
        for child, at in self._in_place(schema, inner):
            more, further = self._of(child, at)
            here, inside = here + more, inside + further
        # What was evaluated is found out by validating once more.
        times = 1 + sum(keyword.startswith("unevaluated") for keyword in schema)
        self._known[id(schema)] = here * times, inside * times
        return self._known[id(schema)]

    def _in_place(self, schema: Object, resolver: Resolver) -> Iterator[tuple[JsonValue, Resolver]]:
        for keyword in REFERENCES:
            ref = schema.get(keyword)
            if isinstance(ref, str):
                try:
                    found = resolver.lookup(ref)
                except (Unresolvable, ValueError) as error:
                    raise ConfigError(
                        f"the schema refers to {ref!r}, which is not in it"
                    ) from error
                yield found.contents, found.resolver
        for keyword in _IN_PLACE:
            yield from ((child, resolver) for child in _schemas(schema, keyword))

    def _inside(self, schema: Object, resolver: Resolver) -> Load:
        found = _NOTHING
        for keyword in _INSIDE:
            together = _NOTHING
            for child in _schemas(schema, keyword):
                here, inside = self._of(child, resolver)
                load = here | inside
                if keyword == "propertyNames":
                    load = replace(load, each=0, keyed=load.each)
                # Of several patterns each may meet one value; of names and places one does.
                together = together + load if keyword == "patternProperties" else together | load
            found += together
        return found


def _schemas(schema: Object, keyword: str) -> list[JsonValue]:
    """The schemas of a keyword: a list, an object by name, or the one."""
    value = schema.get(keyword)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and keyword in _BY_NAME:
        return list(value.values())
    return [] if value is None else [value]


def _own(schema: Object) -> Load:
    """The load of a schema's own keywords on the value that it meets."""
    each, wide, keyed, unique, searched = 1 + len(schema), 0, 0, 0, 0
    for keyword, value in schema.items():
        if keyword in _COMPARED:
            each += weight(value)
        elif keyword in _WIDE and isinstance(value, list | dict):
            wide += len(value)
        elif keyword in REFERENCES:
            each += _REFERENCE
        elif keyword == "multipleOf" and isinstance(value, float):
            each += _DECIMALS
        elif keyword == "format" and value == "regex":
            each += _REGEX
        elif keyword == "uniqueItems" and value is True:
            unique += 1
        elif keyword == "pattern":
            searched += compile_pattern(str(value)).size
        elif keyword == "patternProperties" and isinstance(value, dict):
            keyed += 2 * len(value)
            # Once for its own schemas, once for `additionalProperties`.
            searched += 2 * sum(compile_pattern(each_name).size for each_name in value)
    return Load(each=each, wide=wide, keyed=keyed, unique=unique, searched=searched)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a value, as far as a schema looks at it."""

    values: int
    keys: int
    containers: int
    characters: int
    depth: int

    @staticmethod
    def of(value: JsonValue) -> "Size":
        """Go through a value, level by level."""
        values = keys = containers = characters = depth = 0
        level = [value]
        while level:
            depth += 1
            values += len(level)
            below: list[JsonValue] = []
            for item in level:
                if isinstance(item, str):
                    characters += len(item)
                elif isinstance(item, list):
                    containers += 1
                    below += item
                elif isinstance(item, dict):
                    containers += 1
                    keys += len(item)
                    characters += sum(map(len, item))
                    below += item.values()
            level = below
        return Size(values, keys, containers, characters, depth)
