"""JSON Schema's keywords as `jsonschema` has them, made fit for schemas of other people."""

import datetime
import ipaddress
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, cast

from jsonschema import FormatChecker, validators
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from pydantic import JsonValue
from referencing.jsonschema import lookup_recursive_ref

from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import weight
from scouter.evaluate.operators.compiled import MAX_MEETINGS
from scouter.evaluate.operators.equality import identity
from scouter.evaluate.operators.formats import is_email, is_uuid
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns import MAX_WORK, compile_pattern

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def is_date(text: str) -> bool:
    """Tell whether a text is a `full-date` of RFC 3339 that exists."""
    if _DATE.fullmatch(text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Tell whether a text is a `full-time` of RFC 3339; leap seconds are not accepted."""
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    try:
        datetime.time.fromisoformat(match["clock"] + match["zone"].upper())
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Tell whether a text is a `date-time` of RFC 3339; leap seconds are not accepted."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_pattern(text: str) -> bool:
    """Tell whether a text is a regular expression of RE2's syntax."""
    try:
        compile_pattern.__wrapped__(text)  # the texts of records have no place in its cache
    except ConfigError:
        return False
    return True


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return "%" not in text  # a zone is no part of the address

    return check


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "email": is_email,
    "idn-email": is_email,
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "uuid": is_uuid,
    "regex": is_pattern,
}
"""The formats that are checked; any other is a note to the reader, as the standard says."""


Object: TypeAlias = dict[str, JsonValue]
Errors: TypeAlias = Iterator[ValidationError]


class Within(Protocol):
    """The validator that calls a keyword; the library's has more methods than it declares."""

    def is_type(self, instance: JsonValue, type: str) -> bool:
        """Tell whether an instance has one of the standard's types."""
        ...

    def descend(
        self, instance: JsonValue, schema: JsonValue, path: str, schema_path: str | None = None
    ) -> Errors:
        """Validate a part of the instance."""
        ...


Keyword: TypeAlias = Callable[[Within, JsonValue, JsonValue, Object], Errors | None]
"""Function from validator, the keyword's value, the instance and its schema to errors."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REFERENCE: Final = 25
"""Checks in whose time a reference is followed."""
_DECIMALS: Final = 4
"""Checks in whose time decimals are divided."""
_REGEX: Final = 100
"""Checks in whose time a text is compiled for the format `regex`."""
_VALUES: Final = 8
"""Values that are compared with each other in the time of a check."""
_WORK: Final = MAX_WORK // MAX_MEETINGS
"""Instructions of a pattern times characters that are searched in the time of a check."""
_INSIDE: Final = frozenset(
    (
        "items", "additionalItems", "prefixItems", "contains", "additionalProperties",
        "propertyNames", "patternProperties", "unevaluatedItems", "unevaluatedProperties",
    )
)  # fmt: skip
"""Keywords that go through the items or keys of the instance, whatever they are."""


class _Checks(threading.local):
    """Checks that one validation has made; every thread has its own count."""

    count = 0
    what = ""

    def start(self, what: str) -> None:
        """Begin a validation.

        Args:
            what: Name of the schema in messages.
        """
        self.count, self.what = 0, what

    def spend(self, checks: int) -> None:
        """Count checks that are made next.

        Raises:
            TaskFault: There are more than `MAX_MEETINGS` (`Reason.LIMIT`).
        """
        self.count += checks
        if self.count > MAX_MEETINGS:
            raise TaskFault(
                Reason.LIMIT,
                f"{self.what}: the value takes more than {MAX_MEETINGS:,} checks; validate less of "
                "it, or use fewer alternatives and references",
            )


CHECKS: Final = _Checks()


@lru_cache(maxsize=8)
def bounded(draft: type[Validator]) -> type[Validator]:
    """Make the validator of a draft: its patterns are RE2's, and its work is counted."""
    known = cast("Mapping[str, Keyword]", draft.VALIDATORS)
    counted = {name: _counted(name, _OWN.get(name, keyword)) for name, keyword in known.items()}
    return cast("type[Validator]", validators.extend(draft, counted))


def _counted(name: str, keyword: Keyword) -> Keyword:
    """Count a keyword that meets a value, with the parts of either that it goes through."""
    least = _REFERENCE if name in _REFERENCES else 1
    is_equal, is_inside = name in ("enum", "const"), name in _INSIDE

    def run(
        validator: Within, value: JsonValue, instance: JsonValue, schema: Object
    ) -> Errors | None:
        checks = least
        if isinstance(value, list | dict):
            checks += weight(value) if is_equal else len(value)
        if is_inside and isinstance(instance, list | dict):
            checks += len(instance)
        CHECKS.spend(checks)
        return keyword(validator, value, instance, schema)

    return run


def _is_found(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    CHECKS.spend(1 + compiled.size * len(text) // _WORK)
    return compiled.found_in(text)


def _pattern(_: Within, pattern: JsonValue, instance: JsonValue, __: Object) -> Errors:
    if isinstance(instance, str) and not _is_found(str(pattern), instance):
        yield ValidationError("pattern")


def _pattern_properties(
    validator: Within, patterns: JsonValue, instance: JsonValue, _: Object
) -> Errors:
    if not isinstance(instance, dict) or not isinstance(patterns, dict):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if _is_found(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(
    validator: Within, allowed: JsonValue, instance: JsonValue, schema: Object
) -> Errors:
    if not isinstance(instance, dict) or allowed is True:
        return
    properties = cast(Object, schema.get("properties", {}))
    patterns = cast(Object, schema.get("patternProperties", {}))
    for key, value in instance.items():
        if key not in properties and not any(_is_found(pattern, key) for pattern in patterns):
            yield from validator.descend(value, allowed, path=key)


def _unique_items(_: Within, wanted: JsonValue, instance: JsonValue, __: Object) -> Errors:
    if not wanted or not isinstance(instance, list):
        return
    CHECKS.spend(weight(instance) // _VALUES)
    if len(set(map(identity, instance))) < len(instance):
        yield ValidationError("uniqueItems")


def _multiple_of(validator: Within, wanted: JsonValue, instance: JsonValue, _: Object) -> Errors:
    """Exact: fractions count as the decimals that they are written as."""
    if not validator.is_type(instance, "number"):
        return
    number, divisor = cast("int | float", instance), cast("int | float", wanted)
    exact = isinstance(number, int) and isinstance(divisor, int)
    CHECKS.spend(0 if exact else _DECIMALS)
    rest = number % divisor if exact else Fraction(repr(number)) % Fraction(repr(divisor))
    if rest:
        yield ValidationError("multipleOf")


def _format(_: Within, name: JsonValue, instance: JsonValue, __: Object) -> Errors:
    check = FORMATS.get(name) if isinstance(name, str) else None
    if check is None or not isinstance(instance, str):
        return
    CHECKS.spend(_REGEX if name == "regex" else 0)
    if not check(instance):
        yield ValidationError("format")


def _unevaluated_items(
    validator: Within, allowed: JsonValue, instance: JsonValue, schema: Object
) -> Errors:
    if isinstance(instance, list) and len(_evaluated(validator, instance, schema)) < len(instance):
        yield ValidationError("unevaluatedItems")


def _unevaluated_properties(
    validator: Within, allowed: JsonValue, instance: JsonValue, schema: Object
) -> Errors:
    if isinstance(instance, dict) and len(_evaluated(validator, instance, schema)) < len(instance):
        yield ValidationError("unevaluatedProperties")


def _evaluated(
    validator: Any,  # noqa: ANN401 more of it than it declares
    instance: list[JsonValue] | Object,
    schema: JsonValue,
) -> set[int | str]:
    """Find the items, or the keys, of a value that a schema evaluates, also where it leads to.

    The library does not count what it goes through here: two references of twenty schemas each to
    the next are a million. And it compares all of them with each other.
    """
    CHECKS.spend(1)
    found: set[int | str] = set()
    if not isinstance(schema, dict):
        return found
    for name in _REFERENCES:
        if name in schema and name in validator.VALIDATORS:
            CHECKS.spend(_REFERENCE)
            resolver = validator._resolver
            of_root = name == "$recursiveRef"
            there = lookup_recursive_ref(resolver) if of_root else resolver.lookup(schema[name])
            at = validator.evolve(schema=there.contents, _resolver=there.resolver)
            found |= _evaluated(at, instance, cast(JsonValue, there.contents))
    for part in _parts_that_hold(validator, instance, schema):
        found |= _evaluated(validator, instance, part)
    if isinstance(instance, list):
        return found | _evaluated_items(validator, instance, schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        CHECKS.spend(len(properties) // _VALUES)
        found |= properties.keys() & instance.keys()
    for name in ("additionalProperties", "unevaluatedProperties"):
        if name in schema:
            CHECKS.spend(len(instance))
            found.update(
                key for key, value in instance.items() if _is_valid(validator, value, schema[name])
            )
    return found


def _parts_that_hold(
    validator: Within, instance: list[JsonValue] | Object, schema: Object
) -> Iterator[JsonValue]:
    """The schemas that meet the same value, and hold of it."""
    for name in ("allOf", "anyOf", "oneOf"):
        for part in cast("list[JsonValue]", schema.get(name, [])):
            if _is_valid(validator, instance, part):
                yield part
    dependent = cast(Object, schema.get("dependentSchemas", {}))
    if isinstance(instance, dict):
        yield from (part for name, part in dependent.items() if name in instance)
    if "if" in schema:
        holds = _is_valid(validator, instance, schema["if"])
        if holds:
            yield schema["if"]
        yield schema.get("then" if holds else "else")


def _evaluated_items(validator: Any, instance: list[JsonValue], schema: Object) -> set[int | str]:  # noqa: ANN401
    CHECKS.spend(len(instance) // _VALUES)
    items, first = schema.get("items"), schema.get("prefixItems")
    if "items" in schema and ("additionalItems" in schema or not isinstance(items, list)):
        return set(range(len(instance)))
    lists = [items, first if "prefixItems" in validator.VALIDATORS else None]
    most = max(len(each) if isinstance(each, list) else 0 for each in lists)
    found = set[int | str](range(min(most, len(instance))))
    for name in ("contains", "unevaluatedItems"):
        if name in schema:
            CHECKS.spend(len(instance))
            found.update(
                at for at, item in enumerate(instance) if _is_valid(validator, item, schema[name])
            )
    return found


def _is_valid(validator: Any, instance: JsonValue, schema: JsonValue) -> bool:  # noqa: ANN401
    return next(validator.descend(instance, schema), None) is None


_OWN: Final[dict[str, Keyword]] = {
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "format": _format,
}

NO_FORMATS: Final = FormatChecker(formats=())
"""Checker of a schema itself that skips `format`: the library's own would compile patterns."""
