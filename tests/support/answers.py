"""Answers of the API with the fields that a test is about."""

import datetime
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

T = TypeVar("T", bound=BaseModel)


def answer(model: type[T], **given: Any) -> T:
    """An answer without the fields that a test does not name; those inside may be dictionaries."""
    fields = model.model_fields
    return model.model_construct(
        **{name: _value(fields[name].annotation, value) for name, value in given.items()}
    )


def _value(kind: Any, value: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, BaseModel):
        return answer(kind, **value)
    if isinstance(value, list | tuple) and get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], each) for each in value)
    if isinstance(value, str) and kind is datetime.datetime:
        return datetime.datetime.fromisoformat(value)
    return value
