"""JSON Schema's keywords as `jsonschema` has them, made fit for schemas and values of strangers.

Every keyword is metered. Those that would run a pattern by backtracking, compare all pairs or
count with rounded fractions are replaced.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol, TypeAlias, cast

from jsonschema import FormatChecker, validators
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from pydantic import JsonValue

from scouter.evaluate.operators.costs import MAX_STEPS
from scouter.evaluate.operators.equality import identity
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns.pattern import compile_pattern
from scouter.evaluate.schema.formats import FORMATS
from scouter.evaluate.steps import RecordMeter, weight

MAX_UNEVALUATED: Final = 1_000
"""Items or keys of a value under `unevaluatedItems` or `unevaluatedProperties`, whose cost is
square."""

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

_GOES_THROUGH: Final = frozenset(
    {
        "items", "prefixItems", "additionalItems", "contains", "uniqueItems", "propertyNames",
        "additionalProperties", "patternProperties", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords that look at every item or key, whatever their own size."""
_COMPARED: Final = ("const", "enum")
"""Keywords whose own value may be compared as a whole."""
_KEYS_PER_STEP: Final = 2
"""Values that `identity` looks at in the time of a step."""
_FRACTION_STEPS: Final = 4
"""Steps charged for a division of decimals."""
_REGEX_STEPS: Final = 1_000
"""Steps charged for a check of the format `regex`: a short text may take long to compile."""

METER: Final = RecordMeter(
    MAX_STEPS,
    f"MatchesJsonSchema: more than {MAX_STEPS:,} steps for one record; its values are too large "
    "for the schemas, or a schema refers to itself too often",
)


@lru_cache(maxsize=8)
def metered(draft: type[Validator]) -> type[Validator]:
    """Make the validator of a draft that counts its steps and never runs a foreign pattern."""
    known = cast("Mapping[str, Keyword]", draft.VALIDATORS)
    keywords = {**known, **{name: own for name, own in _OWN.items() if name in known}}
    wrapped = {name: _metered(name, keyword) for name, keyword in keywords.items()}
    return cast("type[Validator]", validators.extend(draft, wrapped))


def _metered(name: str, keyword: Keyword) -> Keyword:
    goes_through = name in _GOES_THROUGH
    base = 4 if name in ("$ref", "$dynamicRef", "$recursiveRef") else 1
    square = name.startswith("unevaluated")

    def run(
        validator: Within, value: JsonValue, instance: JsonValue, schema: Object
    ) -> Errors | None:
        size = _size(instance)
        if square and size > MAX_UNEVALUATED:
            raise TaskFault(
                Reason.LIMIT,
                f"MatchesJsonSchema: {name} meets {size:,} items or keys, at most "
                f"{MAX_UNEVALUATED:,} are compared",
            )
        width = weight(value) if name in _COMPARED else _size(value)
        METER.spend(base + width + (size if goes_through else 0))
        return keyword(validator, value, instance, schema)

    return run


def _size(value: JsonValue) -> int:
    return len(value) if isinstance(value, list) or isinstance(value, dict) else 0  # noqa: SIM101


def _is_found(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    METER.spend(compiled.steps(text))
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
    METER.spend(weight(instance) // _KEYS_PER_STEP)
    if len(set(map(identity, instance))) < len(instance):
        yield ValidationError("uniqueItems")


def _multiple_of(validator: Within, wanted: JsonValue, instance: JsonValue, _: Object) -> Errors:
    """Exact: fractions count as the decimals that they are written as."""
    if not validator.is_type(instance, "number"):
        return
    number, divisor = cast("int | float", instance), cast("int | float", wanted)
    exact = isinstance(number, int) and isinstance(divisor, int)
    METER.spend(0 if exact else _FRACTION_STEPS)
    rest = number % divisor if exact else Fraction(repr(number)) % Fraction(repr(divisor))
    if rest:
        yield ValidationError("multipleOf")


def _format(_: Within, name: JsonValue, instance: JsonValue, __: Object) -> Errors:
    check = FORMATS.get(name) if isinstance(name, str) else None
    if check is None or not isinstance(instance, str):
        return
    METER.spend(_REGEX_STEPS if name == "regex" else 0)
    if not check(instance):
        yield ValidationError("format")


_OWN: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "format": _format,
}

NO_FORMATS: Final = FormatChecker(formats=())
"""Checker of a schema itself that skips `format`: the library's own would compile patterns."""
