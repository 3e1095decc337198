"""Attributes of the OpenTelemetry SDK as OTLP can carry them."""

from collections.abc import Sequence
from typing import Final, cast

from scouter.model.attributes import TRUNCATED, truncated_mark
from scouter.model.json_value import int_text, plain_text
from scouter.model.span import (
    ARRAY_LEVELS,
    CUT,
    LIST_LEVELS,
    MAX_DEPTH,
    Attributes,
    AttributeValue,
)

_AS_IT_IS: Final = frozenset({bool, float, bytes})
"""Types of values that OTLP carries whatever the value."""


class _Unencodable(Exception):
    """OTLP has no form for this value."""


def plain_name(name: object) -> str:
    """A name or key as text: OpenTelemetry lets pass whatever the application gives."""
    return plain_text(name if type(name) is str else str(name))


def plain_attributes(attributes: object) -> dict[str, AttributeValue]:
    """The attributes of the SDK as OTLP can carry them; None and foreign types are left out.

    Args:
        attributes: A mapping, or None. Of keys that are repaired to the same, the last counts.
    """
    if not attributes:
        return {}
    out: dict[str, AttributeValue] = {}
    cut: list[str] = []
    for key, value in cast("Attributes", attributes).items():
        if type(key) is str and key.isascii():
            if type(value) in _AS_IT_IS or (type(value) is str and value.isascii()):
                out[key] = value  # nearly all; what follows is for the others
                continue
            name = key
        else:
            name = plain_name(key)
        if value is None:
            continue
        before = len(cut)
        try:
            out[name] = _plain(value, 0, cut)
        except _Unencodable:
            del cut[before:]  # the stock encoder logs it and leaves it out as well
            continue
        if len(cut) > before:
            cut[before:] = [name]
    return {**out, TRUNCATED: truncated_mark(out.get(TRUNCATED), cut)} if cut else out


def _plain(value: object, depth: int, cut: list[str]) -> AttributeValue:
    """Copy a value; `cut` grows where something is nested too deeply."""
    kind = type(value)
    if type(value) is str:
        return plain_text(value)
    if value is None or kind in _AS_IT_IS:
        return cast(AttributeValue, value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else int_text(value)
    if isinstance(value, str):
        return plain_text(str.__str__(value))  # an enum's own __str__ gives its name
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    is_list = kind is tuple or issubclass(kind, Sequence)
    if not is_list and not hasattr(value, "items"):
        raise _Unencodable
    inner = depth + (ARRAY_LEVELS if is_list else LIST_LEVELS)
    if value and inner > MAX_DEPTH:
        cut.append(CUT)
        return CUT
    if is_list:
        return tuple(_plain(item, inner, cut) for item in cast(Sequence[object], value))
    pairs = cast("Attributes", value).items()
    return {plain_name(key): _plain(item, inner, cut) for key, item in pairs}
