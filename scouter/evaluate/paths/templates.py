"""Templates in expected values: `${path}`, read from the record and the task's dependencies.

Templates may stand anywhere in texts, also inside lists and objects. A text that is one template
and nothing else becomes the value, with its type. Inside a longer text, a text is put in as it is
and any other value as JSON. `$${` stands for a literal `${`. The value of a template is never
expanded again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import is_longer
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path

MAX_CHARACTERS: Final = 1_000_000
"""Most characters that templates put into the texts of one expected value; 256 tasks of one record
make a text each."""

Resolve: TypeAlias = Callable[[JsonValue], JsonValue]
"""Function from a task's scope to the value with its templates filled in."""


def has_template(value: JsonValue) -> bool:
    """Tell whether `${` stands anywhere in the value's texts (keys of objects are left alone)."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, list):
        return any(map(has_template, value))
    if isinstance(value, dict):
        return any(map(has_template, value.values()))
    return False


def compile_template(value: JsonValue) -> Resolve | None:
    """Prepare a value with templates.

    Args:
        value: Any JSON value.

    Returns:
        None if there is no template and the value can be used as it is; else a function from the
        task's scope to the resolved value, which raises `TaskFault` (`Reason.EXPECTED`) where a
        path leads nowhere, or (`Reason.LIMIT`) more than `MAX_CHARACTERS` are put into texts.

    Raises:
        ConfigError: A template that is not closed, or whose path is not one.
    """
    if not has_template(value):
        return None
    resolve = _compile(value)

    return lambda scope: resolve(scope, _Room())


def template_paths(value: JsonValue) -> Iterator[Path]:
    """The paths of all templates in a value.

    Raises:
        ConfigError: A template that is not closed, or whose path is not one.
    """
    if isinstance(value, str):
        yield from (part for part in _split(value) if isinstance(part, Path))
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from template_paths(each)


class _Room:
    """Characters that still fit into the texts of one expected value."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS

    def write(self, value: JsonValue) -> str:
        """Write a value for a text: a text as it is, anything else as JSON.

        Raises:
            TaskFault: It does not fit (`Reason.LIMIT`).
        """
        if is_longer(value, self._left):  # paths make texts of hundreds of MB of a small context
            raise _too_long()
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self._left -= len(text)
        if self._left < 0:
            raise _too_long()
        return text


def _too_long() -> TaskFault:
    return TaskFault(
        Reason.LIMIT,
        f"templates put more than {MAX_CHARACTERS:,} characters into the texts of the expected "
        "value",
    )


_Fill: TypeAlias = Callable[[JsonValue, _Room], JsonValue]
"""Function from a task's scope and the room for texts to the value."""


def _compile(value: JsonValue) -> _Fill:
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, list):
        items = [_compile(item) for item in value]
        return lambda scope, room: [item(scope, room) for item in items]
    if isinstance(value, dict):
        fields = {key: _compile(item) for key, item in value.items()}
        return lambda scope, room: {key: field(scope, room) for key, field in fields.items()}
    return lambda _, __: value


def _compile_text(text: str) -> _Fill:
    parts = _split(text)
    if len(parts) == 1 and isinstance(parts[0], Path):
        read = _reader(parts[0], text)
        return lambda scope, _: read(scope)
    pieces = [part if isinstance(part, str) else _reader(part, text) for part in parts]

    def resolve(scope: JsonValue, room: _Room) -> JsonValue:
        return "".join([p if isinstance(p, str) else room.write(p(scope)) for p in pieces])

    return resolve


def _reader(path: Path, template: str) -> Resolve:
    def read(scope: JsonValue) -> JsonValue:
        try:
            return path.get(scope)
        except TaskFault as fault:
            if fault.reason is Reason.LIMIT:
                raise
            text = f"expected value {show(template)}: {fault}"
            raise TaskFault(Reason.EXPECTED, text) from fault

    return read


def _split(text: str) -> list[str | Path]:
    """Cut a text into literal pieces and paths."""
    parts: list[str | Path] = []
    literal = ""
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        literal += text[at:dollar]
        if text.startswith("$${", dollar):
            literal, at = literal + "${", dollar + 3
        elif text.startswith("${", dollar):
            end = _closing(text, dollar + 2)
            if literal:
                parts.append(literal)
            parts.append(_path(text, text[dollar + 2 : end].strip()))
            literal, at = "", end + 1
        else:
            literal, at = literal + "$", dollar + 1
    literal += text[at:]
    if literal or not parts:
        parts.append(literal)
    return parts


def _path(template: str, inner: str) -> Path:
    try:
        return Path(inner)
    except ConfigError as fault:
        raise ConfigError(f"template in {template!r}: {fault}") from fault


def _closing(text: str, at: int) -> int:
    """Find the closing brace, skipping quoted keys."""
    quote = ""
    while at < len(text):
        char = text[at]
        if quote and char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "}":
            return at
        at += 1
    raise ConfigError(
        f"template in {text!r}: '${{' without '}}'; write '$${{' for the characters themselves"
    )
