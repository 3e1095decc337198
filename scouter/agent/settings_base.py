"""The common settings of all providers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.alias_generators import to_camel

Ratio: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
Json: TypeAlias = dict[str, JsonValue]


class Settings(BaseModel):
    """Settings as data; what is None was not given, and is not written.

    Values may be given by position, in the order in which the fields are declared.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, protected_namespaces=()
    )

    if not TYPE_CHECKING:  # whoever checks types sees the fields

        def __init__(self, *args: object, **fields: object) -> None:
            names = tuple(type(self).model_fields)
            if len(args) > len(names):
                raise TypeError(
                    f"{type(self).__name__} takes {', '.join(names)}; got {len(args)} values"
                )
            by_place = dict(zip(names, args, strict=False))
            twice = [name for name in by_place if name in fields]
            if twice:
                raise TypeError(f"{type(self).__name__} got {twice[0]!r} twice")
            super().__init__(**by_place, **fields)

    @model_serializer(mode="wrap")
    def _write_what_was_given(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields = cast("Mapping[str, object]", write(self))
        return {name: value for name, value in fields.items() if value is not None}


class CamelSettings(Settings):
    """Settings whose names a provider writes like `topP`; both ways are read."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
