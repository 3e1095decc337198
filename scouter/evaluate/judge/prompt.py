"""Prompts as data: questions to a judge, with variables that a record fills in."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    model_validator,
)
from pydantic.errors import PydanticUserError

from scouter.errors import ConfigError
from scouter.evaluate.files.read import load_model
from scouter.evaluate.judge.prompt_text import MAX_CHARACTERS as MAX_FILLED
from scouter.evaluate.judge.prompt_text import as_text, literal, with_variables
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import split_templates
from scouter.model.json_value import to_json_value
from scouter.model.positional import by_position

_BESIDE: Final = ("request", "model", "provider", "version", "parameters", "response_type")
_VARIABLE: Final = re.compile(r"\$?\{([A-Za-z_]\w*)\}|\$\{")
_JSON_ANSWER: Final = ("responseMimeType", "responseJsonSchema")
_SYSTEM: Final = ("system", "developer")

Fields = dict[str, object]


def is_foreign(data: object) -> bool:
    """Tell whether a value is a prompt as the original writes it."""
    return isinstance(data, Mapping) and isinstance(
        cast("Mapping[str, object]", data).get("request"), Mapping
    )


def from_foreign(data: Mapping[str, object]) -> Fields:
    """Turn a prompt of the original into the fields of ours.

    Args:
        data: For which `is_foreign` holds.

    Raises:
        ValueError: A message is no text, such as an image.
    """
    request = dict(cast("Mapping[str, object]", data["request"]))
    model = request.pop("model", None)
    fields: Fields = {name: value for name, value in data.items() if name not in _BESIDE}
    fields["model"] = data.get("model", model)
    fields["provider"] = data.get("provider")
    read = _gemini if "contents" in request else _chat
    messages, system, schema = read(request)
    fields["messages"] = [
        {"role": role, "content": _with_variables(text)} for role, text in messages
    ]
    if system:
        fields["system_instructions"] = [text.replace("${", "$${") for text in system]
    fields["output_type"] = schema
    fields["model_settings"] = request or None
    return fields


_Read = tuple[list[tuple[str, str]], list[str], object]
"""Role and text of the messages, texts of the system, schema of the answer."""


def _chat(request: Fields) -> _Read:
    """Requests to OpenAI, whose first messages may be the system's, and to Anthropic."""
    said = _said(request.pop("messages", ()), "content")
    system = [text for role, text in said if role in _SYSTEM]
    system += [_text(part) for part in _items(request.pop("system", ()))]
    schema = None
    for key in ("response_format", "output_format"):
        form = _fields(request.pop(key, None))
        form = _fields(form.get("json_schema")) or form
        schema = form.get("schema") or schema
    return [each for each in said if each[0] not in _SYSTEM], system, schema


def _gemini(request: Fields) -> _Read:
    """Requests to Gemini, by whatever way."""
    said = _said(request.pop("contents"), "parts")
    spoken = request.pop("systemInstruction", None)
    system = [] if spoken is None else [text for _, text in _said([spoken], "parts")]
    config = _fields(request.pop("generation_config", None))
    schema = config.get(_JSON_ANSWER[1])
    for key in _JSON_ANSWER:
        config.pop(key, None)
    if config:
        request["generation_config"] = config
    return said, system, schema


def _said(messages: object, where: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in _items(messages):
        message = _fields(each)
        parts = [_text(part) for part in _items(message.get(where, ()))]
        found.append((str(message.get("role", "user")), "\n".join(parts)))
    return found


def _items(value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return cast("Sequence[object]", value)
    return (value,)


def _fields(value: object) -> Fields:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}


def _text(part: object) -> str:
    text = part if isinstance(part, str) else _fields(part).get("text")
    if not isinstance(text, str):
        kind = _fields(part).get("type") or ", ".join(_fields(part)) or type(part).__name__
        raise ValueError(f"a message holds something other than text ({kind}), which is not read")
    return text


def _with_variables(text: str) -> str:
    return _VARIABLE.sub(lambda found: f"${{{found[1]}}}" if found[1] else "$${", text)


MAX_CHARACTERS: Final = 1_000_000
"""Most characters of one message, before variables are filled in."""
MAX_VALUE_CHARACTERS: Final = 40_000
"""Most characters of one variable's value, by default: some 10,000 tokens of English."""


class Role(StrEnum):
    """The speaker of a message."""

    User = "user"
    Assistant = "assistant"
    Developer = "developer"
    System = "system"
    Model = "model"
    Tool = "tool"

    def as_str(self) -> str:
        """The role as it stands in a message."""
        return self.value


class Provider(StrEnum):
    """The vendor of a model. Other names are entries of the user's or the collector's settings."""

    OpenAI = "openai"
    Anthropic = "anthropic"
    Gemini = "gemini"
    Google = "google"
    Vertex = "vertex"
    GoogleAdk = "google_adk"


class Score(BaseModel):
    """The usual verdict: a number and why. The task says what the scale is (`scale`)."""

    model_config = ConfigDict(defer_build=True)  # most programs that import this make none

    score: int
    reason: str


_PROVIDERS: Final = {
    name: provider for provider in Provider for name in (provider.value, provider.name.casefold())
}
_ENTRY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def _provider(value: object) -> object:
    if not isinstance(value, str) or isinstance(value, Provider):
        return value
    known = _PROVIDERS.get(value.casefold())
    if known is None and not _ENTRY.fullmatch(value):
        raise ValueError(
            f"{value!r} is no provider's name; expected one of {', '.join(Provider)}, or the name "
            "of an entry in the settings (letters, digits, '_', '-' and '.')"
        )
    return value if known is None else known


def _role(value: object) -> object:
    return value.lower() if isinstance(value, str) and not isinstance(value, Role) else value


def _content(value: object) -> object:
    """Join a message's parts: texts, or what has a `text`."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return value
    return "\n".join(map(_text_of_part, cast("Sequence[object]", value)))


def _text_of_part(part: object) -> str:
    if isinstance(part, Mapping):
        part = cast("Mapping[str, object]", part).get("text")
    text = part if isinstance(part, str) else getattr(part, "text", None)
    if not isinstance(text, str):
        raise ValueError(f"a part of the message is no text but a {type(part).__name__}")
    return text


class PromptMessage(BaseModel):
    """One message with variables; of several parts, which are texts, the lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    role: Annotated[Role, BeforeValidator(_role)] = Role.User
    content: Annotated[str, BeforeValidator(_content)] = Field(max_length=MAX_CHARACTERS)

    @property
    def text(self) -> str:
        """Another word for `content`."""
        return self.content


_MESSAGES: Final = str | PromptMessage | list[str | PromptMessage]
"""Forms of messages in a file."""


def _messages(value: object, role: Role) -> object:
    """Read one message or several: texts, objects, or anything with `role` and `content`."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_message(each, role) for each in cast("Sequence[object]", value))
    return (_message(value, role),)


def _message(value: object, role: Role) -> object:
    if isinstance(value, str):
        return {"role": role, "content": value}
    if isinstance(value, PromptMessage):  # of a vendor's form: it is the same message
        return value if type(value) is PromptMessage else dict(value)
    if isinstance(value, Mapping):
        return {"role": role, **cast("Mapping[str, object]", value)}
    if hasattr(value, "role") and hasattr(value, "content"):
        found = cast("Any", value)  # a message class of some vendor's package
        return {"role": str(found.role), "content": found.content}
    return value


def _user_messages(value: object) -> object:
    return _messages(value, Role.User)


def _system_messages(value: object) -> object:
    return () if value is None else _messages(value, Role.System)


def _settings(value: object) -> object:
    return None if value is None else to_json_value(value)


def _schema(value: object) -> object:
    """Turn a type into its JSON schema."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return to_json_value(cast("Mapping[str, object]", value))
    if value == Score.__name__:
        return Score.model_json_schema()
    if isinstance(value, str):
        raise ValueError(f"no type is called {value!r}; expected 'Score' or a JSON schema")
    try:
        return TypeAdapter(cast("type[object]", value)).json_schema()
    except PydanticUserError as error:
        raise ValueError(
            f"{value!r} has no JSON schema; expected a pydantic model or a JSON schema"
        ) from error


class Prompt(BaseModel):
    """A question to a model, with variables.

    Args:
        messages: A text (the user's message), a message, or several of either.
        model: The model's name, in the provider's words.
        provider: One of `Provider`, or the name of an entry in the settings.
        system_instructions: The same as messages, spoken by the system unless a role is given.
        model_settings: Settings for the model, such as `{"temperature": 0}`.
        output_type: Form of the answer: a pydantic model, a JSON schema, `"Score"`, or any type
            that pydantic knows. Stored as JSON schema; None leaves the answer free.
        fence: Whether the values of variables stand between markers. A sentence of the system says
            that text between them is data. Turn it off only for values that nobody else writes.
        max_value_characters: Most characters that one variable puts in, 100 to 10,000,000. Of a
            longer value both ends stay, and a note says how much is left out.

    Raises:
        pydantic.ValidationError: A field is wrong, or a variable is not closed or no path.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), defer_build=True
    )

    messages: Annotated[
        tuple[PromptMessage, ...],
        BeforeValidator(_user_messages, json_schema_input_type=_MESSAGES),
    ] = Field(min_length=1)
    model: str = Field(min_length=1, max_length=256)
    provider: Annotated[Provider | str, BeforeValidator(_provider)]
    system_instructions: Annotated[
        tuple[PromptMessage, ...],
        BeforeValidator(_system_messages, json_schema_input_type=_MESSAGES | None),
    ] = ()
    model_settings: Annotated[dict[str, JsonValue] | None, BeforeValidator(_settings)] = Field(
        default=None, validation_alias=AliasChoices("model_settings", "settings")
    )
    output_type: Annotated[
        dict[str, JsonValue] | None,
        BeforeValidator(_schema, json_schema_input_type=dict[str, JsonValue] | str | None),
    ] = None
    fence: bool = Field(default=True, strict=True, exclude_if=True.__eq__)
    max_value_characters: int = Field(
        default=MAX_VALUE_CHARACTERS,
        ge=100,
        le=MAX_FILLED,
        exclude_if=MAX_VALUE_CHARACTERS.__eq__,
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            messages: object,
            model: str,
            provider: Provider | str,
            system_instructions: object = None,
            model_settings: object = None,
            output_type: object = None,
            fence: bool = True,
            max_value_characters: int = MAX_VALUE_CHARACTERS,
        ) -> None: ...

    else:

        def __init__(self, *args: object, **fields: object) -> None:
            kind = type(self)
            super().__init__(**by_position(kind, tuple(kind.model_fields), args, fields))

    @model_validator(mode="before")
    @classmethod
    def _read_foreign(cls, data: object) -> object:
        return from_foreign(cast("Mapping[str, object]", data)) if is_foreign(data) else data

    @model_validator(mode="after")
    def _variables_are_paths(self) -> Self:
        for each in self.all_messages:
            split_templates(each.content)
        return self

    @property
    def parameters(self) -> list[str]:
        """The paths of all variables, each once, in the order of the messages."""
        found = (
            part.text
            for each in self.all_messages
            for part in split_templates(each.content)
            if isinstance(part, Path)
        )
        return list(dict.fromkeys(found))

    @property
    def response_json_schema(self) -> str | None:
        """The schema of the answer as JSON text."""
        return None if self.output_type is None else json.dumps(self.output_type)

    @property
    def response_json_schema_pretty(self) -> str | None:
        """The schema of the answer as JSON text, over several lines."""
        return None if self.output_type is None else json.dumps(self.output_type, indent=2)

    @property
    def model_identifier(self) -> str:
        """Provider and model, such as `openai:gpt-4o`."""
        return f"{self.provider}:{self.model}"

    @property
    def all_messages(self) -> tuple[PromptMessage, ...]:
        """The system's messages, then the others."""
        return *self.system_instructions, *self.messages

    @property
    def message(self) -> PromptMessage:
        """The last message."""
        return self.messages[-1]

    def bind(self, name: str | None = None, value: object = None, **values: object) -> "Prompt":
        """Put values in for variables; the others stay to be filled in.

        Args:
            name: A variable's path, as it stands in the messages.
            value: Anything with a JSON form.
            **values: The same for variables that are plain names.

        Returns:
            A new prompt.

        Raises:
            ConfigError: The prompt has no such variable; names those it has.
            DataError: A value has no JSON form.
        """
        given = values if name is None else {name: value, **values}
        self._check_known(given)
        plain = {each: to_json_value(content) for each, content in given.items()}
        return self._with_variables(
            lambda path: literal(as_text(plain[path])) if path in plain else f"${{{path}}}"
        )

    def renamed(self, paths: Mapping[str, str]) -> "Prompt":
        """Let variables read from other paths.

        Args:
            paths: The new path by the variable as it stands in the messages.

        Returns:
            A new prompt.

        Raises:
            ConfigError: The prompt has no such variable; names those it has.
            pydantic.ValidationError: A new path is none.
        """
        self._check_known(paths)
        return self._with_variables(lambda path: f"${{{paths.get(path, path)}}}")

    def _check_known(self, names: Iterable[str]) -> None:
        known = self.parameters
        for each in names:
            if each not in known:
                there = ", ".join(known) or "none"
                raise ConfigError(f"the prompt has no variable {each!r}; its variables are {there}")

    def _with_variables(self, put: Callable[[str], str]) -> "Prompt":
        fields = {"messages": self.messages, "system_instructions": self.system_instructions}
        changed = {
            where: tuple(
                each.model_copy(update={"content": with_variables(each.content, put)})
                for each in messages
            )
            for where, messages in fields.items()
        }
        return type(self).model_validate({**dict(self), **changed})

    @classmethod
    def from_path(cls, path: str | FilePath) -> "Prompt":
        """Read a prompt from a `.json`, `.yaml` or `.yml` file.

        Raises:
            FileFormatError: Names the file, and the line and field where known.
        """
        return load_model(path, cls)

    def save_prompt(self, path: str | FilePath) -> FilePath:
        """Write the prompt as JSON that `from_path` reads.

        Returns:
            The file written.
        """
        target = FilePath(path)
        target.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return target
