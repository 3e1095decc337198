"""What a record may carry: any value, turned into plain JSON by one documented rule."""

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePath
from typing import Final, Protocol, cast, runtime_checkable

from pydantic import JsonValue

from scouter.errors import DataError

MAX_DEPTH: Final = 100
"""Levels of lists and objects inside one value; deeper ones are refused."""


@runtime_checkable
class _PydanticLike(Protocol):
    def model_dump(self, *, mode: str) -> object: ...


def to_json_value(value: object) -> JsonValue:
    """Copy a value into plain JSON that later changes to the original cannot reach.

    The rule: text, numbers, booleans and None stay; tuples, sets and other sequences become
    lists (sets sorted by their text); mappings become objects with text keys; pydantic models
    and dataclasses become objects; an enum becomes its value; dates and times become ISO 8601;
    bytes become base64; uuids, paths and Decimals become text; NaN and infinities become None, as
    JSON has no word for them. Integers of any size stay exact.

    Args:
        value: Anything the rule above names.

    Returns:
        A fresh tree of dict, list, str, int, float, bool and None.

    Raises:
        DataError: Another type, a cycle, or more than `MAX_DEPTH` levels; names the place.

    Cost: linear in the size of the value.
    """
    return _convert(value, (), 0)


def _convert(value: object, path: tuple[str, ...], depth: int) -> JsonValue:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return cast(JsonValue, value)
    if kind is float:
        return value if math.isfinite(cast(float, value)) else None  # type: ignore[return-value]
    if depth >= MAX_DEPTH:
        where = ".".join(path[:8])
        raise DataError(f"{where}…: more than {MAX_DEPTH} levels deep, or a value inside itself")
    if kind is dict:
        return _object(cast(dict[object, object], value), path, depth)
    if kind is list or kind is tuple:
        return _array(cast(Sequence[object], value), path, depth)
    return _convert_rare(value, path, depth)


def _object(value: Mapping[object, object], path: tuple[str, ...], depth: int) -> JsonValue:
    out: dict[str, JsonValue] = {}
    for key, item in value.items():
        name = key if type(key) is str else _key(key, path)
        out[name] = _convert(item, (*path, name), depth + 1)
    return out


def _key(key: object, path: tuple[str, ...]) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int | float | uuid.UUID | datetime.date):
        return str(key)
    where = ".".join(path) or "the top level"
    raise DataError(f"{where}: a key of type {type(key).__name__} has no text form in JSON")


def _array(value: Sequence[object], path: tuple[str, ...], depth: int) -> JsonValue:
    return [_convert(item, (*path, str(i)), depth + 1) for i, item in enumerate(value)]


def _convert_rare(value: object, path: tuple[str, ...], depth: int) -> JsonValue:
    if isinstance(value, _PydanticLike) and not isinstance(value, type):
        return _convert(value.model_dump(mode="python"), path, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return _object({name: getattr(value, name) for name in names}, path, depth)
    if isinstance(value, enum.Enum):
        return _convert(value.value, path, depth + 1)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, uuid.UUID | PurePath | decimal.Decimal):
        return str(value)
    return _convert_kin(value, path, depth)


def _convert_kin(value: object, path: tuple[str, ...], depth: int) -> JsonValue:
    """Convert subclasses and abstract collections, which the exact-type tests let through."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return _object(cast(Mapping[object, object], value), path, depth)
    if isinstance(value, Set):
        items = cast(Set[object], value)
        return _array(sorted(items, key=lambda item: (str(type(item)), str(item))), path, depth)
    if isinstance(value, Sequence):
        return _array(cast(Sequence[object], value), path, depth)
    where = ".".join(path) or "the top level"
    raise DataError(
        f"{where}: a {type(value).__name__} has no JSON form; pass text, numbers, lists, "
        "dicts, dataclasses or pydantic models"
    )
