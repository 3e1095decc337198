"""Plain JSON from any value that a record may carry, by one documented rule, and as text."""

import base64
import contextlib
import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Final, Protocol, cast, runtime_checkable

import orjson
from pydantic import JsonValue
from pydantic_core import to_json

from scouter.errors import DataError
from scouter.model.foreign import NotForeign, plain_python

MAX_DEPTH: Final = 100
"""Levels of lists and objects inside one value; deeper ones are refused."""
MAX_VALUES: Final = 5_000_000
"""Values inside one value; a part that is shared counts wherever it stands."""
MAX_INTEGER_BITS: Final = 13_000
"""About 3,900 digits; Python itself refuses to write more than 4,300."""

_PLAIN: Final = frozenset({str, int, bool, float, type(None)})

Path = tuple[str, ...]


@runtime_checkable
class _PydanticLike(Protocol):
    def model_dump(self, *, mode: str) -> object: ...


def to_json_value(value: object) -> "JsonValue":
    """Copy a value into plain JSON that later changes to the original cannot reach.

    The rule: text, numbers, booleans and None stay; tuples, sets and other sequences become
    lists (sets sorted by their text); mappings become objects with text keys; pydantic models
    and dataclasses become objects; an enum becomes its value; dates and times become ISO 8601;
    bytes become base64; uuids, paths, addresses, URLs and Decimals become text; NaN and infinities
    become None, as JSON has no word for them; arrays, series and frames become lists. Integers
    stay exact. Half a character (a lone surrogate) becomes U+FFFD, as no encoding can carry
    it. `docs/contexts.md` shows a line for each.

    Args:
        value: Anything the rule above names.

    Returns:
        A fresh tree of dict, list, str, int, float, bool and None.

    Raises:
        DataError: Another type, a cycle, more than `MAX_DEPTH` levels or `MAX_VALUES` values, an
            integer beyond `MAX_INTEGER_BITS`, two keys that become one, or an object that raises
            when it is read; names the place.

    Cost: linear in the size of the value.
    """
    try:
        return _Copy().convert(value, (), 0)
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"the value is nested more than {MAX_DEPTH} levels deep") from None
    except Exception as error:  # a foreign object's own code ran
        raise DataError(f"the value cannot be read: {type(error).__name__}: {error}") from error


def plain_text(text: str) -> str:
    """The text itself, or where it holds half a character the same with U+FFFD for it.

    Two halves side by side that make a character become that character.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def int_text(number: int) -> str:
    """An integer as text: decimal digits; in hex where they are more than Python writes."""
    return str(number) if number.bit_length() <= MAX_INTEGER_BITS else hex(number)


def plain_texts(value: "JsonValue") -> "JsonValue":
    """The value with `plain_text` of every text and key in it; of keys that become one, the last.

    Args:
        value: A value read from JSON, which can spell half a character.

    Cost: linear in the size of the value.
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [plain_texts(item) for item in value]
    if isinstance(value, dict):
        return {plain_text(key): plain_texts(item) for key, item in value.items()}
    return value


class _Copy:
    """One conversion; counts its values."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def convert(self, value: object, path: Path, depth: int) -> "JsonValue":
        kind = type(value)
        if kind in _PLAIN:
            return _plain(value, path)
        if depth >= MAX_DEPTH:
            where = ".".join(path[:8])
            raise DataError(f"{where}…: more than {MAX_DEPTH} levels deep, or inside itself")
        if kind is dict:
            return self._object(cast(dict[object, object], value), path, depth)
        if kind is list or kind is tuple:
            return self._array(cast(Sequence[object], value), path, depth)
        return self._convert_rare(value, path, depth)

    def _count(self, number: int, path: Path) -> None:
        self._left -= number
        if self._left < 0:
            raise DataError(f"{'.'.join(path[:8])}…: more than {MAX_VALUES:,} values")

    def _object(self, value: Mapping[object, object], path: Path, depth: int) -> "JsonValue":
        self._count(len(value), path)
        out: dict[str, JsonValue] = {}
        for key, item in value.items():
            name = plain_text(key) if type(key) is str else key_text(key, path)
            out[name] = self.convert(item, (*path, name), depth + 1)
        if len(out) != len(value):
            raise DataError(f"{_where(path)}: two keys are the same text, such as 1 and '1'")
        return out

    def _array(self, value: Sequence[object], path: Path, depth: int) -> "JsonValue":
        self._count(len(value), path)
        return [self.convert(item, (*path, str(i)), depth + 1) for i, item in enumerate(value)]

    def _convert_rare(self, value: object, path: Path, depth: int) -> "JsonValue":
        if isinstance(value, _PydanticLike) and not isinstance(value, type):
            return self.convert(value.model_dump(mode="python"), path, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return self._object({name: getattr(value, name) for name in names}, path, depth)
        if isinstance(value, enum.Enum):
            return self.convert(value.value, path, depth + 1)
        if isinstance(value, datetime.datetime | datetime.date | datetime.time):
            return value.isoformat() if value == value else None  # not NaT
        if isinstance(value, datetime.timedelta):
            return _plain(value.total_seconds(), path)
        if isinstance(value, bytes | bytearray | memoryview):
            return base64.b64encode(bytes(cast(bytes, value))).decode("ascii")
        if isinstance(value, uuid.UUID | PurePath | decimal.Decimal):
            return plain_text(str(value))
        return self._convert_kin(value, path, depth)

    def _convert_kin(self, value: object, path: Path, depth: int) -> "JsonValue":
        """Convert subclasses and abstract collections, which the exact-type tests let through."""
        if isinstance(value, str):
            return plain_text(str.__str__(value))  # a subclass may show itself as something else
        if isinstance(value, int):
            return _plain(int(value), path)
        if isinstance(value, float):
            return _plain(float(value), path)
        if isinstance(value, Mapping):
            return self._object(cast(Mapping[object, object], value), path, depth)
        if isinstance(value, Set):
            items = cast(Set[object], value)
            ordered = sorted(items, key=lambda item: (str(type(item)), str(item)))
            return self._array(ordered, path, depth)
        if isinstance(value, Sequence):
            return self._array(cast(Sequence[object], value), path, depth)
        try:
            return self.convert(plain_python(value, self._left), path, depth + 1)
        except NotForeign:
            raise DataError(
                f"{_where(path)}: {type(value).__name__!r} has no JSON form; pass text, numbers, "
                "lists, dicts, dataclasses or pydantic models"
            ) from None
        except OverflowError:
            raise DataError(f"{_where(path)}: more than {MAX_VALUES:,} values") from None


def _plain(value: object, path: Path) -> "JsonValue":
    kind = type(value)
    if kind is str:
        return plain_text(cast(str, value))
    if kind is float:
        return cast(float, value) if math.isfinite(cast(float, value)) else None
    if kind is int and cast(int, value).bit_length() > MAX_INTEGER_BITS:
        raise DataError(f"{_where(path)}: an integer of more than {MAX_INTEGER_BITS:,} bits")
    return cast("JsonValue", value)


def key_text(key: object, path: Path = ()) -> str:
    """The name that a key of a mapping has in JSON.

    Raises:
        DataError: It has none.
    """
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str | int | float):
        with contextlib.suppress(NotForeign, OverflowError):
            key = plain_python(key, 1)  # the columns of a frame, and numbers of numpy
    if isinstance(key, str):
        return plain_text(str.__str__(key))
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, datetime.date):
        return key.isoformat()
    if isinstance(key, int | float | uuid.UUID):
        return str(key)
    raise DataError(f"{_where(path)}: a key of type {type(key).__name__} has no text form in JSON")


def _where(path: Path) -> str:
    return ".".join(path) or "the top level"


def parse_if_json(value: JsonValue) -> JsonValue:
    """Give the object or list that a text holds as JSON; anything else as it is.

    Numbers, booleans and null in a text stay text: `"12"` was written as a text. So does what
    `to_json_value` refuses, such as thousands of levels; NaN in it becomes None there.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return to_json_value(json.loads(value))
    except (ValueError, RecursionError, DataError):
        return value


_CONTAINERS: Final = frozenset({dict, list, tuple})
_dumps: Final = orjson.dumps
_OPTIONS: Final = (
    orjson.OPT_APPEND_NEWLINE
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Rules of orjson's own for some types are off: another thread may put such a value in at the last
moment. A line break is added, and cut off again: orjson may leave kilobytes unused behind what it
wrote (3.13 does, 4 of them for 7 bytes), which a copy does not carry while a record waits.
"""
_FEW: Final = 16
"""Most items that are looked at one by one; for more, one pass over all of them in C is faster."""


def to_json_bytes(value: object) -> bytes:
    """Write a value as JSON text by the rule of `to_json_value`.

    Args:
        value: Anything that rule names; it is read once, and later changes to it do not matter.

    Returns:
        UTF-8 without spaces.

    Raises:
        DataError: As `to_json_value` does.

    Cost: linear; for a tree of plain lists and dicts a fifth of `to_json_value` alone.
    """
    try:
        kind = type(value)
        if kind in _PLAIN or (kind in _CONTAINERS and _left_after(value, MAX_VALUES, 0) >= 0):
            return _dumps(value, None, _OPTIONS)[:-1]
    except (TypeError, RuntimeError):
        pass  # half a character, a key that is no text, a large integer: the rule knows what to do
    return tree_bytes(to_json_value(value))


def tree_bytes(tree: "JsonValue") -> bytes:
    """Write what `to_json_value` gave as JSON text: UTF-8 without spaces."""
    try:
        return _dumps(tree, None, _OPTIONS)[:-1]
    except TypeError:  # an integer of more than 64 bits
        return to_json(tree)


def _left_after(value: object, left: int, depth: int) -> int:
    """Tell how many values more may come after this list or dict; -1 if it is not plain JSON.

    `dumps` has ideas of its own about other types, and no bound: a part that is shared is written
    wherever it stands. Exact types count. It refuses keys that are no text by itself.
    """
    items: Any = value  # without `cast`: this is the agent's own time
    kind: object = type(value)
    number = len(items)
    left -= number
    if left < 0 or depth >= MAX_DEPTH:
        return -1
    if kind is dict:
        items = items.values()
    if number > _FEW and _PLAIN.issuperset(map(type, items)):
        return left
    for item in items:
        if type(item) not in _PLAIN:
            if type(item) not in _CONTAINERS:
                return -1
            left = _left_after(item, left, depth + 1)
            if left < 0:
                return -1
    return left
