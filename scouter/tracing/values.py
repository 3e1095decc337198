"""Any value as a span attribute: primitives as they are, everything else as JSON text."""

import base64
import dataclasses
import enum
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, Final, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.util.types import AttributeValue
from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.attributes import MORE
from scouter.model.foreign import NotForeign, plain_start
from scouter.model.json_value import MAX_DEPTH, key_text, plain_text, to_json_value
from scouter.transport.guard import GUARD

_INT64: Final = range(-(2**63), 2**63)
_PRIMITIVES: Final = frozenset({str, bool, int, float})
_ITEMS: Final = _PRIMITIVES | {type(None)}
_AS_THEY_ARE: Final = frozenset({str, bool, float})
MAX_JSON_NODES: Final = 10_000
"""Values and keys of one captured input or output that are recorded."""
MAX_JSON_CHARS: Final = 256 * 1024
"""Characters of all texts of one captured input or output that are recorded."""
_BYTES: Final = (bytes, bytearray, memoryview)


def attribute_value(value: object) -> AttributeValue:
    """Turn a value into one that OpenTelemetry can carry.

    Texts, booleans, 64-bit integers, floats, bytes, flat lists of these and None, and what holds
    nothing stay what they are, and an enum counts as its value. A value whose JSON form is a text,
    a number or a boolean becomes that; anything else becomes JSON text. None stays None, which is
    as good as no attribute.
    """
    value = _plain(value)
    kind = type(value)
    if kind is str or kind is bool or kind is float or kind is bytes:
        return cast(AttributeValue, value)
    if kind is int:
        return cast(int, value) if value in _INT64 else str(value)
    if value is None:
        return cast(AttributeValue, None)
    found = _flat(cast("list[object]", value)) if isinstance(value, list | tuple) else None
    if found is not None:
        return found
    if isinstance(value, Mapping) and not value and _carries_all():
        return cast(AttributeValue, {})
    tree = _lenient(cast(object, value))
    if not isinstance(tree, list | dict):  # a number of numpy, a date, a path
        return attribute_value(tree)
    found = _flat(cast("list[object]", tree)) if isinstance(tree, list) else None
    return _dumped(tree) if found is None else found


def _flat(value: "list[object] | tuple[object, ...]") -> AttributeValue | None:
    """A flat list of what OpenTelemetry can carry as a tuple; None if it is another one."""
    items = [_plain(item) for item in value]
    kinds = {type(item) for item in items}
    if not kinds <= _ITEMS or (int in kinds and any(_is_large(item) for item in items)):
        return None
    if len(kinds) > 1 and not _carries_all():
        return None
    return cast(AttributeValue, tuple(items))


def _is_large(item: object) -> bool:
    return type(item) is int and item not in _INT64


@functools.cache
def _carries_all() -> bool:
    """Tell whether this OpenTelemetry takes lists of mixed types and mappings, as newer ones do.

    Cost: an older one logs a warning, once.
    """
    return "a" in BoundedAttributes(attributes={"a": cast(AttributeValue, (1, "a"))})


def attribute_values(attributes: object) -> dict[str, AttributeValue]:
    """Turn pairs into attributes; what cannot be carried is left out, and logged once.

    Args:
        attributes: A mapping, in which names that are no texts become texts; several of them; a
            model, whose fields they are; or None.
    """
    carried: dict[str, AttributeValue] = {}
    if type(attributes) is not dict and not isinstance(attributes, Mapping):
        attributes = _as_mapping(attributes)
    for key, value in cast("Mapping[Any, Any]", attributes).items():
        if type(value) in _AS_THEY_ARE and type(key) is str:
            carried[key] = value
            continue
        try:
            carried[key if type(key) is str else str(_plain(key))] = attribute_value(value)
        except Exception as error:  # noqa: BLE001 - a broken __repr__ must not stop the agent
            GUARD.refuse("span", "invalid", error)
    return carried


def _as_mapping(attributes: object) -> Mapping[Any, Any]:
    """Make one mapping of several mappings, or of a value whose JSON form is an object."""
    if attributes is None:
        return {}
    try:
        if isinstance(attributes, list | tuple):
            several = cast("Sequence[Mapping[Any, Any]]", attributes)
            return {key: value for each in several for key, value in each.items()}
        fields = to_json_value(attributes)
    except Exception as error:  # noqa: BLE001 - a broken model must not stop the agent
        GUARD.refuse("span", "invalid", error)
        return {}
    if isinstance(fields, dict):
        return fields
    GUARD.refuse("span", "invalid", f"attributes: a {type(attributes).__name__}")
    return {}


def _plain(value: object) -> object:
    """An enum's value, and subclasses of the primitives as the primitives themselves."""
    kind = type(value)
    if kind in _PRIMITIVES:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return _plain(value.value) if isinstance(value, enum.Enum) else value


def _dumped(tree: JsonValue) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _lenient(value: object) -> JsonValue:
    try:
        return to_json_value(value)
    except DataError:
        if isinstance(value, Mapping):
            items = cast(Mapping[object, object], value).items()
            return {str(key): _or_repr(item) for key, item in items}
        return _or_repr(value)


def _or_repr(value: object) -> JsonValue:
    try:
        return to_json_value(value)
    except DataError:
        return repr(value)


def json_text(value: object, max_length: int) -> tuple[str, bool]:
    """Write a value as JSON text, whatever it is, and tell whether something was left out.

    Args:
        value: Anything; what has no JSON form is shown by its `repr`.
        max_length: Texts inside the value are cut to this number of characters, so that the
            result stays valid JSON; and the whole is bounded by `MAX_JSON_NODES` and
            `MAX_JSON_CHARS`, beyond which a mark stands for the rest.
    """
    copy = BoundedCopy(max_length, MAX_JSON_NODES, MAX_JSON_CHARS)
    return _dumped(copy.of(value)), copy.is_cut


class BoundedCopy:
    """Turns one value into plain JSON, by the rule of `to_json_value`, until a bound is met.

    A value without a JSON form is shown by its `repr`. A value that is inside itself, is deeper
    than `MAX_DEPTH` or cannot be read to its end has `MORE` in place of the rest.

    Args:
        max_length: Characters of one text.
        max_nodes: Values altogether.
        max_chars: Characters of all texts and keys altogether.
    """

    def __init__(self, max_length: int, max_nodes: int, max_chars: int) -> None:
        self._max_length = max_length
        self._nodes = max_nodes
        self._chars = max_chars
        self._around: list[int] = []  # the objects that the one at hand is inside of
        self.is_cut = False
        """True once something was left out."""

    def of(self, value: object) -> JsonValue:
        """Copy a value.

        Cost: linear in the bounds, not in the value; but a pydantic model is dumped, and the
        `repr` of a foreign object written, as a whole.
        """
        self._nodes -= 1
        kind = type(value)
        if kind is float:
            return cast("float", value) if math.isfinite(cast("float", value)) else None
        if kind is str:
            return self._text(cast("str", value))
        if kind is bool or value is None or (kind is int and value in _INT64):
            return cast("int | None", value)
        if id(value) in self._around or len(self._around) >= MAX_DEPTH:
            return self._cut()
        self._around.append(id(value))
        try:
            if kind is dict:
                return self._object(cast("dict[object, object]", value).items())
            if kind is list or kind is tuple:
                return self._array(cast("Sequence[object]", value))
            return self._copied(value)
        except Exception:  # noqa: BLE001 - a foreign object's own code ran
            return self._text(_shown(value))
        finally:
            self._around.pop()

    def _copied(self, value: Any) -> JsonValue:  # noqa: ANN401 - anything
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, _BYTES):
            # More of them than the text may have characters are not needed.
            left, data = self._left(), cast("bytes", value)
            self.is_cut |= len(data) > left
            part = bytes(data[:left])
            return self._text(base64.b64encode(part).decode("ascii"))
        if callable(getattr(cast("object", type(value)), "model_dump", None)):
            return self.of(value.model_dump(mode="python"))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return self._object((name, getattr(value, name)) for name in names)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value).items())
        if isinstance(value, Set):
            some = islice(cast("Set[object]", value), self._nodes + 1)
            return self._array(sorted(some, key=lambda item: (str(type(item)), str(item))))
        if isinstance(value, Sequence):
            return self._array(cast("Sequence[object]", value))
        try:
            return self.of(plain_start(value, self._nodes + 1))
        except NotForeign:
            return to_json_value(value)  # numbers, moments and other small ones

    def _array(self, items: Iterable[object]) -> JsonValue:
        out: list[JsonValue] = []
        try:
            for item in items:
                if self._is_spent():
                    out.append(self._cut())
                    break
                out.append(self.of(item))
        except Exception:  # noqa: BLE001 - as in `of`
            out.append(self._cut())
        return out

    def _object(self, pairs: Iterable[tuple[object, object]]) -> JsonValue:
        out: dict[str, JsonValue] = {}
        try:
            for key, item in pairs:
                if self._is_spent():
                    out[MORE] = self._cut()
                    break
                name = plain_text(key) if type(key) is str else _key(key)
                self.is_cut |= len(name) > self._chars
                name = name[: self._chars]
                self._chars -= len(name)
                out[name] = self.of(item)
        except Exception:  # noqa: BLE001 - as in `of`
            out[MORE] = self._cut()
        return out

    def _text(self, text: str) -> str:
        left = self._left()
        self.is_cut |= str.__len__(text) > left
        part = plain_text(str.__getitem__(text, slice(left)))
        self._chars -= len(part)
        return part

    def _cut(self) -> str:
        self.is_cut = True
        return MORE

    def _left(self) -> int:
        return max(0, min(self._max_length, self._chars))

    def _is_spent(self) -> bool:
        return self._nodes <= 0 or self._chars <= 0


def _key(key: object) -> str:
    try:
        return key_text(key)
    except DataError:
        return str(key)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the object's own code, or too many digits
        return f"<{type(value).__name__}>"
