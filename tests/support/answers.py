"""Answers of the API for tests: with the fields that a test is about, or with all of them."""

import datetime
from collections.abc import Sequence
from enum import Enum
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel

T = TypeVar("T", bound=BaseModel)
_EMPTY: dict[Any, Any] = {str: "", bool: False, int: 0, float: 0.0, tuple: [], dict: {}}


def answer(model: type[T], **given: Any) -> T:
    """An answer without the fields that a test does not name; those inside may be dictionaries."""
    fields = model.model_fields
    return model.model_construct(
        **{name: _value(fields[name].annotation, value) for name, value in given.items()}
    )


def _value(kind: Any, value: Any) -> Any:
    kind = _known(kind)
    if isinstance(value, dict) and _is_model(kind):
        return answer(kind, **cast("dict[str, Any]", value))
    if isinstance(value, list | tuple) and get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], each) for each in cast("Sequence[Any]", value))
    if isinstance(value, str) and kind is datetime.datetime:
        return datetime.datetime.fromisoformat(value)
    return cast("object", value)


def whole(model: type[BaseModel], **given: Any) -> dict[str, Any]:
    """An answer as JSON with every field; those that a test does not name are empty."""
    known = {
        name: _filled(field.annotation, given[name]) if name in given else _empty(field.annotation)
        for name, field in model.model_fields.items()
    }
    return {**given, **known}


def _filled(kind: Any, value: Any) -> Any:
    kind = _known(kind)
    if isinstance(value, dict) and _is_model(kind):
        return whole(kind, **cast("dict[str, Any]", value))
    if isinstance(value, list | tuple) and get_origin(kind) is tuple:
        return [_filled(get_args(kind)[0], each) for each in cast("Sequence[Any]", value)]
    return cast("object", value)


def _empty(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind):
        return None
    kind = _known(kind)
    if _is_model(kind):
        return whole(kind)
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    if kind is datetime.datetime:
        return "2026-01-01T00:00:00Z"
    return _EMPTY.get(get_origin(kind) or kind)


def _known(kind: Any) -> Any:
    """The kind of a value that may be null."""
    if get_origin(kind) in (Union, UnionType):
        return next(each for each in get_args(kind) if each is not type(None))
    return kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
