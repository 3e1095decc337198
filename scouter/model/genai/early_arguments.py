"""A hash of the arguments of a tool's call, for the store's column."""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from pydantic import JsonValue

from scouter.model.genai.arguments import arguments_text
from scouter.model.genai.facts import Kind
from scouter.model.genai.field import Field
from scouter.model.genai.held import Held
from scouter.model.genai.lookup import PARAMETERS, USES
from scouter.model.genai.wrappers import open_arguments
from scouter.model.otlp_early import EarlyAttributes
from scouter.model.span import Attributes, AttributeValue, Span

_TOLD_BY: Final = {
    name: use.convention.only_with
    for name, uses in USES[Kind.TOOL].items()
    for use in uses
    if use.field is Field.ARGUMENTS
}
"""Attributes with arguments, and those of which one must be beside."""
_KEYS: Final = frozenset({*_TOLD_BY, *(name for beside in _TOLD_BY.values() for name in beside)})
_PREFIXES: Final = tuple(prefix.encode() for prefix in PARAMETERS)
_LONG: Final = 16_384
"""Characters of a text that is not opened for its hash."""


def arguments_hash(span: Span) -> int | None:
    """Hash the arguments that a tool's span tells.

    Arguments of more than 16,384 characters are hashed as they stand: one instrumentor writes equal
    ones as equal text.

    Returns:
        A number of 32 bits, equal for equal JSON; None where the span tells no arguments.

    Cost: about 8 µs; linear in the size of the arguments. No attribute that is read stays in
        memory.
    """
    told = _told(span.attributes)
    if not told and not span.events:
        return None
    for value in told.values():
        if isinstance(value, str) and len(value) > _LONG:
            return _as_it_stands(told)
    arguments = _arguments(span, told)
    return None if arguments is None else crc32(arguments_text(arguments))


def _as_it_stands(told: Mapping[str, AttributeValue]) -> int:
    long = sorted(v for v in told.values() if isinstance(v, str) and len(v) > _LONG)
    return crc32("\n".join(long).encode("utf-8", "surrogatepass"))


def _told(attributes: Attributes) -> Mapping[str, AttributeValue]:
    """Pick the attributes that arguments are read from."""
    if isinstance(attributes, EarlyAttributes):
        return attributes.pick(_KEYS, _PREFIXES)
    return {name: attributes[name] for name in attributes if name in _KEYS or _is_part(name)}


def _is_part(name: str) -> bool:
    return name.startswith(PARAMETERS)


def _arguments(span: Span, told: Mapping[str, AttributeValue]) -> JsonValue:
    if len(told) == 1:
        ((name, value),) = told.items()
        if type(value) is str and _TOLD_BY.get(name) == ():
            return open_arguments(value)  # as `Held` does, where there is nothing to choose from
    return Held(span, Kind.TOOL, told).arguments()
