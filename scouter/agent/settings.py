"""Settings and messages that the vendors have in common; in a prompt messages are all the same."""

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

from scouter.evaluate.judge.prompt import PromptMessage
from scouter.model.positional import by_position
from scouter.transport.guard import GUARD

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
            kind = type(self)
            super().__init__(**by_position(kind, tuple(kind.model_fields), args, fields))

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


Content: TypeAlias = object
"""A text, or a list of texts and of parts that have a `text`."""


class TextContentPart(Settings):
    """A part of a message.

    Args:
        text: Text of the part.
    """

    text: str

    @property
    def type(self) -> str:
        """The kind of part."""
        return "text"


class ChatMessage(PromptMessage):
    """A message in OpenAI's words.

    Args:
        role: The speaker: `user`, `assistant`, `system` …
        content: A text, or a list of texts and `TextContentPart`s.
        name: Taken and left out, with a warning: judges read no names.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, role: str, content: Content, name: str | None = None) -> None:
        if name is not None:
            text = "ChatMessage(name=…) does nothing: no judge reads who speaks by name"
            GUARD.warn("ChatMessage", "name", text)
        super().__init__(role=role, content=content)  # type: ignore[arg-type]


class MessageParam(PromptMessage):
    """A message in Anthropic's words.

    Args:
        content: A text, or a list of texts and text blocks.
        role: The speaker: `user` or `assistant`.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, content: Content, role: str) -> None:
        super().__init__(role=role, content=content)  # type: ignore[arg-type]


class GeminiContent(PromptMessage):
    """A message in Google's words.

    Args:
        parts: A text, or a list of texts.
        role: The speaker: `user` or `model`; the user if not given.

    Raises:
        pydantic.ValidationError: The role is none, or a part is no text.
    """

    def __init__(self, parts: Content, role: str | None = None) -> None:
        super().__init__(role=role or "user", content=parts)  # type: ignore[arg-type]
