"""Dataclasses that are made by the thousand."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make a dataclass with slots and keywords, frozen for the type checker only.

    An instance that is frozen at run time, too, takes three times as long to make: each field goes
    through `object.__setattr__`, 5 µs for the 16 fields of a span.
    """
    return dataclass(slots=True, kw_only=True)(cls)
