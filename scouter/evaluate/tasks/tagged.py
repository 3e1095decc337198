"""Externally tagged values, as the wire form writes them: `{"SpanCount": {"filter": …}}`."""

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    JsonValue,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
)
from pydantic_core import CoreSchema, core_schema


class Tagged(BaseModel):
    """One of several kinds of a thing, each a subclass with a tag and its own arguments.

    A direct subclass is a family (`SpanFilter`); its subclasses set `kind` and become attributes
    of the family under that name (`SpanFilter.ByName`). A field annotated with the family takes
    any of them, or their wire form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ClassVar[str] = ""
    """The tag; empty for the family itself."""
    kinds: ClassVar[dict[str, type[Any]]] = {}
    """The family's members by tag."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls.kinds = {}
        elif cls.kind:
            cls.kinds[cls.kind] = cls
            setattr(cls.__bases__[0], cls.kind, cls)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        if cls.kind:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_wire),
        )

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a member of the family, or its wire form.

        Raises:
            ValidationError: Another tag, more than one, or wrong arguments (pydantic's).
            ValueError: Not an object with exactly one key.
        """
        if isinstance(value, cls):
            return value
        tags = ", ".join(cls.kinds)
        if isinstance(value, str) and value in cls.kinds:
            raise ValueError(f"write {{{value}: {{}}}}, with its arguments if it takes some")
        if not isinstance(value, Mapping):
            raise ValueError(f"expected an object with one key out of {tags}")
        fields = cast("Mapping[str, object]", value)
        if len(fields) != 1:
            raise ValueError(f"expected exactly one key out of {tags}, got {len(fields)}")
        (tag,) = fields
        if tag not in cls.kinds:
            raise ValueError(f"unknown kind {tag!r}; expected one of {tags}")
        return getattr(_wire_model(cls).model_validate(fields), tag)

    @model_serializer(mode="wrap")
    def _tag(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {self.kind: handler(self)}

    def to_wire(self) -> dict[str, JsonValue]:
        """Write the value in its wire form."""
        return self.model_dump(mode="json")


@cache
def _wire_model(family: type[Tagged]) -> type[BaseModel]:
    """A model with one optional field per tag, so that errors name the tag in their place."""
    fields: dict[str, Any] = {tag: (member, None) for tag, member in family.kinds.items()}
    return create_model(f"{family.__name__}Wire", **fields)
