"""Prompts as data: what a judge is asked, with variables that a record fills in.

`${path}` in any message, system messages too, is replaced by what the path leads to: a text as it
is, everything else as JSON. Paths are those of `scouter.evaluate.paths`, such as `${answer}` and
`${steps[0].output}`. `$${` stands for the characters `${`; `{x}` and `{{x}}` are plain text. What
a variable puts in is never expanded again.
"""

import contextvars
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias, cast

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
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.files import load_model
from scouter.evaluate.judge import Message
from scouter.evaluate.paths import Path
from scouter.model.json_value import to_json_value

MAX_CHARACTERS: Final = 1_000_000
"""Of one message, before variables are filled in."""


class Role(StrEnum):
    """Who speaks."""

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
    """Who runs the model. Other names are entries of the user's or the collector's settings."""

    OpenAI = "openai"
    Anthropic = "anthropic"
    Gemini = "gemini"
    Google = "google"
    Vertex = "vertex"
    GoogleAdk = "google_adk"


class Score(BaseModel):
    """The usual verdict: a number and why. The prompt says what the scale is."""

    score: int
    reason: str


_PROVIDERS: Final = {
    name: provider for provider in Provider for name in (provider.value, provider.name.casefold())
}
_ENTRY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_VARIABLE: Final = re.compile(
    r"""\$\$\{ | \$\{ ( (?: [^}"'] | "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' )*+ ) \} | \$\{""",
    re.VERBOSE | re.DOTALL,
)

Render: TypeAlias = Callable[[JsonValue], tuple[Message, ...]]
"""From a task's scope to the messages; raises `TaskFault` where a variable leads nowhere."""


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


class PromptMessage(BaseModel):
    """One message with variables."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Annotated[Role, BeforeValidator(_role)] = Role.User
    content: str = Field(max_length=MAX_CHARACTERS)


def _messages(value: object, role: Role) -> object:
    """Read one message or several: texts, objects, or anything with `role` and `content`."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_message(each, role) for each in cast("Sequence[object]", value))
    return (_message(value, role),)


def _message(value: object, role: Role) -> object:
    if isinstance(value, str):
        return {"role": role, "content": value}
    if isinstance(value, PromptMessage):
        return value
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
    """What a model is asked, with variables.

    Args:
        messages: A text (the user's message), a message, or several of either.
        model: The model's name, in the provider's words.
        provider: One of `Provider`, or the name of an entry in the settings.
        system_instructions: The same as messages, spoken by the system unless a role is given.
        model_settings: Settings for the model, such as `{"temperature": 0}`.
        output_type: What the answer must look like: a pydantic model, a JSON schema, `"Score"`,
            or any type that pydantic knows. Kept as JSON schema; None leaves the answer free.

    Raises:
        pydantic.ValidationError: A field is wrong, or a variable is not closed or no path.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    messages: Annotated[tuple[PromptMessage, ...], BeforeValidator(_user_messages)] = Field(
        min_length=1
    )
    model: str = Field(min_length=1, max_length=256)
    provider: Annotated[Provider | str, BeforeValidator(_provider)]
    system_instructions: Annotated[
        tuple[PromptMessage, ...], BeforeValidator(_system_messages)
    ] = ()
    model_settings: Annotated[dict[str, JsonValue] | None, BeforeValidator(_settings)] = Field(
        default=None, validation_alias=AliasChoices("model_settings", "settings")
    )
    output_type: Annotated[dict[str, JsonValue] | None, BeforeValidator(_schema)] = None

    if TYPE_CHECKING:

        def __init__(
            self,
            messages: object,
            model: str,
            provider: Provider | str,
            system_instructions: object = None,
            model_settings: object = None,
            output_type: object = None,
        ) -> None: ...

    else:

        def __init__(self, *args: object, **fields: object) -> None:
            names = tuple(type(self).model_fields)
            if len(args) > len(names):
                raise TypeError(f"Prompt takes {', '.join(names)}; got {len(args)} arguments")
            twice = [name for name in names[: len(args)] if name in fields]
            if twice:
                raise TypeError(f"Prompt got {twice[0]!r} twice")
            super().__init__(**dict(zip(names, args, strict=False)), **fields)

    @model_validator(mode="after")
    def _variables_are_paths(self) -> Self:
        compile_prompt(self)
        return self

    @property
    def parameters(self) -> list[str]:
        """The paths of all variables, each once, in the order of the messages."""
        every = (*self.system_instructions, *self.messages)
        found = (
            part.text for each in every for part in _parts(each.content) if isinstance(part, Path)
        )
        return list(dict.fromkeys(found))

    @property
    def response_json_schema(self) -> str | None:
        """The schema of the answer as JSON text."""
        return None if self.output_type is None else json.dumps(self.output_type)

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


def compile_prompt(prompt: Prompt) -> Render:
    """Prepare a prompt for many records.

    Raises:
        ConfigError: A variable is not closed, or is no path.

    Cost: linear in the messages; rendering is linear in what comes out.
    """
    every = [
        (str(message.role), _parts(message.content))
        for message in (*prompt.system_instructions, *prompt.messages)
    ]

    def render(scope: JsonValue) -> tuple[Message, ...]:
        return tuple(
            Message(
                role=role,
                content="".join(p if isinstance(p, str) else _fill(p, scope) for p in parts),
            )
            for role, parts in every
        )

    return render


def _fill(path: Path, scope: JsonValue) -> str:
    try:
        value = path.get(scope)
    except TaskFault as fault:
        raise TaskFault(fault.reason, f"prompt variable ${{{path.text}}}: {fault}") from fault
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parts(text: str) -> list[str | Path]:
    """Cut a text into what stands there and what is filled in."""
    parts: list[str | Path] = []
    at = 0
    for match in _VARIABLE.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        inner = match.group(1)
        if match.group() == "$${":
            parts.append("${")
        elif inner is None:
            line = text.count("\n", 0, match.start()) + 1
            raise ConfigError(
                f"prompt, line {line} of a message: '${{' without '}}'; write '$${{' for the "
                "characters themselves"
            )
        else:
            parts.append(_variable(inner.strip()))
    parts.append(text[at:])
    return [part for part in parts if part != ""]


def _variable(text: str) -> Path:
    try:
        return Path(text)
    except ConfigError as error:
        raise ConfigError(f"prompt variable ${{{text}}}: {error}") from error


_FOLDER: Final[contextvars.ContextVar[FilePath | None]] = contextvars.ContextVar(
    "scouter_prompt_folder", default=None
)


@contextmanager
def prompts_beside(path: str | FilePath) -> Generator[None]:
    """While a file of tasks is read, let its prompts be files too, named relative to it.

    Outside of it a prompt that is only a path is refused, so that a profile that came over the
    network makes nobody read files.

    Args:
        path: The file that is being read.
    """
    token = _FOLDER.set(FilePath(path).parent)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def read_prompt(value: object) -> object:
    """Replace `{"path": "judge.yaml"}` by that file's prompt; leave everything else as it is.

    The path is relative to the file that names it or, where there is no such file, to the working
    folder.

    Raises:
        ConfigError: Not inside of `prompts_beside`.
        FileFormatError: The prompt's file is missing or wrong; names it, line and field.
    """
    if not isinstance(value, Mapping):
        return value
    fields = cast("Mapping[object, object]", value)
    if set(fields) != {"path"}:
        return fields
    folder, path = _FOLDER.get(), fields["path"]
    if not isinstance(path, str):
        raise ConfigError(f"a prompt's path is a text, got {type(path).__name__}")
    if folder is None:
        raise ConfigError(
            f"the prompt is the path {path!r}, which only a file of tasks can name; write the "
            "prompt itself, or use Prompt.from_path"
        )
    beside = folder / path
    return Prompt.from_path(beside if beside.exists() else path)
