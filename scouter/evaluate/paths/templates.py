"""Templates in expected values: `${path}`, read from the record and the task's dependencies.

Templates may stand anywhere in texts, also inside lists and objects. A text that is one template
and nothing else becomes the value, with its type. Inside a longer text, a text is put in as it is
and any other value as JSON. `$${` stands for a literal `${`. The value of a template is never
expanded again.
"""

import json
import re
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


_TEMPLATE: Final = re.compile(
    r"""\$\$\{ | \$\{ ( (?: [^}"'] | "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' )*+ ) \} | \$\{""",
    re.VERBOSE | re.DOTALL,
)


def split_templates(text: str) -> list[str | Path]:
    """Cut a text into what stands there and the paths of its templates.

    Raises:
        ConfigError: A template is not closed, or is no path.

    Cost: linear.
    """
    parts: list[str | Path] = []
    at = 0
    for match in _TEMPLATE.finditer(text):
        parts.append(text[at : match.start()])
        at, inner = match.end(), match[1]
        try:
            parts.append("${" if match[0] == "$${" else _path(inner))
        except ConfigError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise ConfigError(f"template in {show(text)}, line {line}: {error}") from error
    parts.append(text[at:])
    return [part for part in parts if part != ""]


def _path(inner: str | None) -> Path:
    if inner is None:
        raise ConfigError("'${' without '}'; write '$${' for the characters themselves")
    return Path(inner.strip())


def template_paths(value: JsonValue) -> Iterator[Path]:
    """The paths of all templates in a value.

    Raises:
        ConfigError: A template that is not closed, or whose path is not one.
    """
    if isinstance(value, str):
        yield from (part for part in split_templates(value) if isinstance(part, Path))
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
    parts = split_templates(text)
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
