"""JSON schemas that come from other people.

Drafts 4, 6, 7, 2019-09 and 2020-12, the last unless `$schema` names another. Nothing is ever
fetched: a `$ref` may lead to a place in the schema or to an `$id` inside it. `pattern`,
`patternProperties` and the format `regex` are RE2's (`scouter.evaluate.patterns`); of the formats
those of `scouter.evaluate.schema.keywords` are checked. `patternProperties` beside
`unevaluatedProperties` is refused, `additionalProperties` is not.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Protocol, cast

from jsonschema import validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from pydantic import JsonValue
from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import Schema as AnySchema
from referencing.jsonschema import specification_with

from scouter.errors import ConfigError
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.syntax import format_path
from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.schema.keywords import CHECKS, NO_FORMATS, Object, bounded

MAX_FAULTS: Final = 20
MAX_SCHEMA: Final = 100_000
"""Characters of a schema written as JSON."""
MAX_PATTERNS: Final = 256
"""Different patterns in one schema; the compiled ones are stored in `compile_pattern`'s cache."""

_DRAFTS: Final[dict[str, type[Validator]]] = {
    "https://json-schema.org/draft/2020-12/schema": validators.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": validators.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": validators.Draft7Validator,
    "http://json-schema.org/draft-06/schema": validators.Draft6Validator,
    "http://json-schema.org/draft-04/schema": validators.Draft4Validator,
}
_DEFAULT: Final = "https://json-schema.org/draft/2020-12/schema"

_NAMED: Final = (
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
)  # fmt: skip
"""Keywords that hold schemas under names."""
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE: Final = (
    "items", "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if",
    "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip


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


class Schema:
    """A checked schema; made by `compile_schema`."""

    __slots__ = ("_validator", "_what")

    def __init__(self, validator: Validator, what: str) -> None:
        self._validator, self._what = validator, what

    def is_valid(self, value: JsonValue) -> bool:
        """Tell whether a value is valid.

        Raises:
            TaskFault: It is too large for the schema, or nested too deeply (`Reason.LIMIT`).

        Cost: at most `MAX_MEETINGS` times some microseconds.
        """
        return self._first_error(value) is None

    def explain(self, value: JsonValue) -> str:
        """Name the first place inside a value that is not valid, and say why; "" if it is."""
        error = self._first_error(value)
        return "" if error is None else _describe(error)

    def faults(self, value: JsonValue) -> list[tuple[str, str]]:
        """Name the first places inside a value that are not valid, at most `MAX_FAULTS`.

        Returns:
            For each the keyword that it breaks, and where and why; none for a valid value.

        Raises:
            TaskFault: As `is_valid` does.
        """
        with self._bounded():
            found = islice(self._validator.iter_errors(cast(Any, value)), MAX_FAULTS)
            return [(str(error.validator), _describe(error)) for error in found]

    def _first_error(self, value: JsonValue) -> ValidationError | None:
        with self._bounded():
            return next(self._validator.iter_errors(cast(Any, value)), None)

    @contextmanager
    def _bounded(self) -> Generator[None]:
        CHECKS.start(self._what)
        try:
            yield
        except RecursionError:
            raise TaskFault(
                Reason.LIMIT,
                f"{self._what}: the value is nested too deeply for the schema, or the schema "
                "refers to itself without end",
            ) from None


def compile_schema(schema: JsonValue, what: str = "schema") -> Schema:
    """Check a JSON schema and make it ready.

    Args:
        schema: An object, true or false; at most `MAX_SCHEMA` characters as JSON.
        what: Name of the schema in messages.

    Raises:
        ConfigError: Not a schema, or one that refers outside itself; names the place in it.

    Cost: linear in the schema, some milliseconds; the last 64 are stored.
    """
    if not isinstance(schema, dict | bool):
        raise ConfigError(f"{what} expects a JSON schema (an object, true or false)")
    try:
        text = json.dumps(schema)
    except RecursionError:
        raise ConfigError(f"{what}: the schema is nested too deeply") from None
    if len(text) > MAX_SCHEMA:
        raise ConfigError(
            f"{what}: the schema has {len(text):,} characters, at most {MAX_SCHEMA:,} are allowed"
        )
    return _compile(text, what)


@lru_cache(maxsize=64)
def _compile(text: str, what: str) -> Schema:
    schema = cast("Object | bool", json.loads(text))
    try:
        return Schema(_checked(schema), what)
    except ValueError as error:  # also of the library, for an $id that is no URI
        raise ConfigError(f"{what}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{what}: the schema is nested too deeply") from None


def _checked(schema: Object | bool) -> Validator:
    name = _DEFAULT
    if isinstance(schema, dict) and "$schema" in schema:
        # taken out, as the library would go back to its own keywords where it meets it
        name = str(schema.pop("$schema")).removesuffix("#")
    draft = _DRAFTS.get(name)
    if draft is None:
        raise ConfigError(f"the schema at '#/$schema' names {name!r}; known are {sorted(_DRAFTS)}")
    _check_itself(draft, schema)
    specification = cast("Specification[AnySchema]", specification_with(name))
    _check_parts(schema, draft, specification)
    for _, part in list(_parts(schema, "#")):
        _forbid_in_words(part)
    return bounded(draft)(schema, registry=_empty_registry())


def _empty_registry() -> "Registry[AnySchema]":
    """A registry that retrieves nothing; the library's own default would go to the network."""
    return Registry()


def _resolver_of(schema: Object | bool, specification: "Specification[AnySchema]") -> Resolver:
    root: Resource[AnySchema] = specification.create_resource(schema)
    registry = _empty_registry().with_resource(root.id() or "", root)
    return cast(Resolver, registry.resolver_with_root(root))


def _check_itself(draft: type[Validator], schema: Object | bool, root: str = "#") -> None:
    """Validate the schema by the schema of schemas."""
    try:
        cast(Any, draft).check_schema(schema, format_checker=NO_FORMATS)
    except SchemaError as error:
        place = "/".join((root, *map(str, error.absolute_path)))
        raise ConfigError(f"the schema at {place!r} is not valid: {_reason(error)}") from None


def _check_parts(
    schema: Object | bool, draft: type[Validator], specification: "Specification[AnySchema]"
) -> None:
    """Look at what the schema of schemas does not see: references and patterns."""
    references = _References(draft, specification)
    references.add("#", schema)
    references.follow("#", schema, _resolver_of(schema, specification))
    _check_elsewhere("#", schema, references.known)
    if {"unevaluatedProperties", "patternProperties"} <= references.keywords:
        raise ConfigError(
            "the schema has both 'unevaluatedProperties' and 'patternProperties', which is not "
            "supported; use 'additionalProperties'"
        )
    count = len(references.patterns)
    if count > MAX_PATTERNS:
        raise ConfigError(f"the schema has {count} patterns, at most {MAX_PATTERNS} are allowed")


def _parts(schema: JsonValue, place: str) -> Iterator[tuple[str, Object]]:
    """Every schema inside a schema, itself included, with its place."""
    if isinstance(schema, dict):
        yield place, schema
        for where, child in _children(schema):
            yield from _parts(child, f"{place}/{where}")


def _children(schema: Object) -> Iterator[tuple[str, JsonValue]]:
    for keyword in _NAMED:
        named = schema.get(keyword)
        if isinstance(named, dict):
            yield from ((f"{keyword}/{name}", child) for name, child in named.items())
    for keyword in _LISTED:
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from ((f"{keyword}/{at}", child) for at, child in enumerate(listed))
    for keyword in _SINGLE:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]


def _forbid_in_words(part: Object) -> None:
    """Write `false` as a schema that says the same: of `false` the library loses the place."""
    for keyword in _NAMED:
        named = part.get(keyword)
        if isinstance(named, dict):
            named.update({key: _forbidden() for key, child in named.items() if child is False})
    for keyword in _LISTED:
        listed = part.get(keyword)
        if isinstance(listed, list):
            part[keyword] = [_forbidden() if child is False else child for child in listed]
    for keyword in _SINGLE:
        if part.get(keyword) is False and not keyword.startswith("unevaluated"):
            part[keyword] = _forbidden()


def _forbidden() -> Object:
    return {"not": {}}


def _patterns(place: str, part: Object) -> Iterator[str]:
    """The patterns of one schema, each compiled once to see that it is one."""
    pattern, named = part.get("pattern"), part.get("patternProperties")
    found = [("pattern", pattern)] if isinstance(pattern, str) else []
    if isinstance(named, dict):
        found += [(f"patternProperties/{name}", name) for name in named]
    for where, text in found:
        try:
            compile_pattern(text)
        except ConfigError as error:
            raise ConfigError(f"the schema at '{place}/{where}': {error}") from error
        yield text


class _References:
    """One walk through a schema and along its references, every one of which is followed once."""

    def __init__(self, draft: type[Validator], specification: "Specification[AnySchema]") -> None:
        self._draft, self._specification = draft, specification
        self.known: set[int] = set()
        """Schemas that have been looked at, by `id`."""
        self.keywords: set[str] = set()
        self.patterns: set[str] = set()

    def add(self, place: str, schema: JsonValue) -> None:
        """Look at a schema that is valid, and at those inside it."""
        for where, part in _parts(schema, place):
            self.known.add(id(part))
            self.keywords.update(part)
            self.patterns.update(_patterns(where, part))

    def follow(self, place: str, schema: JsonValue, resolver: Resolver) -> None:
        """Follow the references in a schema, and those where they lead to what was no schema."""
        if not isinstance(schema, dict):
            return
        inner = resolver.in_subresource(self._specification.create_resource(schema))
        for keyword in ("$ref", "$dynamicRef"):
            ref = schema.get(keyword)
            if isinstance(ref, str):
                self._enter(place, keyword, ref, inner)
        for where, child in _children(schema):
            self.follow(f"{place}/{where}", child, inner)

    def _enter(self, place: str, keyword: str, ref: str, resolver: Resolver) -> None:
        try:
            found = resolver.lookup(ref)
        except (Unresolvable, ValueError):
            raise _leads_outside(place, keyword, ref) from None
        target = found.contents
        if isinstance(target, bool) or id(target) in self.known:
            return
        if not isinstance(target, dict):
            raise ConfigError(
                f"the schema at '{place}/{keyword}' refers to {ref!r}, which is no schema"
            )
        _check_itself(self._draft, target, ref)
        self.add(ref, target)
        self.follow(ref, target, found.resolver)


def _check_elsewhere(place: str, value: JsonValue, known: set[int]) -> None:
    """Look at what is no schema by its place, and still becomes one where a reference leads.

    `$schema` there would make the library go back to keywords of its own.
    """
    if isinstance(value, list):
        for at, item in enumerate(value):
            _check_elsewhere(f"{place}/{at}", item, known)
    elif isinstance(value, dict):
        if isinstance(value.get("$schema"), str):
            raise ConfigError(f"the schema at {place!r}: '$schema' is only allowed at the top")
        for keyword in ("$ref", "$dynamicRef"):
            ref = value.get(keyword)
            if id(value) not in known and isinstance(ref, str) and not ref.startswith("#"):
                raise _leads_outside(place, keyword, ref)
        for key, item in value.items():
            _check_elsewhere(f"{place}/{key}", item, known)


def _leads_outside(place: str, keyword: str, ref: str) -> ConfigError:
    return ConfigError(
        f"the schema at '{place}/{keyword}' refers to {ref!r}, which is not inside it; nothing is "
        "fetched, so put that schema under '$defs' and refer to '#/$defs/…'"
    )


def _describe(error: ValidationError) -> str:
    where = format_path(tuple(error.absolute_path)) if error.absolute_path else ""
    return f"at {where!r}: {_reason(error)}" if where else _reason(error)


def _reason(error: "ValidationError | SchemaError") -> str:
    keyword, wanted = error.validator, cast(JsonValue, error.validator_value)
    found = cast(JsonValue, error.instance)
    if not isinstance(keyword, str) or (keyword == "not" and wanted == {}):
        return f"{show(found)} is not allowed here"
    if keyword == "required" and isinstance(wanted, list) and isinstance(found, dict):
        missing = next((name for name in wanted if name not in found), None)
        return f"the key {show(missing)} is missing; the keys there are {show(list(found))}"
    return f"{show(found)}, expected {keyword} {show(wanted)}"
