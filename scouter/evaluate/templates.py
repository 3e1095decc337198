"""Templates in expected values: `${path}`, read from the record and the task's dependencies.

Anywhere in texts, also inside lists and objects. A text that is one template and nothing else
keeps the type of what it reads; inside a longer text, texts are put in as they are and everything
else as JSON. `$${` stands for a literal `${`. What a template puts in is never expanded again.
"""

import json
from collections.abc import Callable
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.meter import Meter
from scouter.evaluate.outcome import Reason
from scouter.evaluate.paths import Path

MAX_CHARACTERS: Final = 10_000_000
"""Of what templates put into the texts of one expected value."""
_METER: Final = Meter(
    MAX_CHARACTERS,
    f"templates put more than {MAX_CHARACTERS:,} characters into the texts of the expected value",
)

Resolve: TypeAlias = Callable[[JsonValue], JsonValue]
"""From a task's scope to the value."""


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

    def resolve_all(scope: JsonValue) -> JsonValue:
        _METER.restart()
        return resolve(scope)

    return resolve_all


def _compile(value: JsonValue) -> Resolve:
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, list):
        items = [_compile(item) for item in value]
        return lambda scope: [item(scope) for item in items]
    if isinstance(value, dict):
        fields = {key: _compile(item) for key, item in value.items()}
        return lambda scope: {key: field(scope) for key, field in fields.items()}
    return lambda _: value


def _compile_text(text: str) -> Resolve:
    parts = _split(text)
    if len(parts) == 1 and isinstance(parts[0], Path):
        return _reader(parts[0], text)
    pieces = [part if isinstance(part, str) else _reader(part, text) for part in parts]

    def resolve(scope: JsonValue) -> JsonValue:
        return "".join(p if isinstance(p, str) else _as_text(p(scope)) for p in pieces)

    return resolve


def _as_text(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    _METER.spend(len(text))
    return text


def _reader(path: Path, template: str) -> Resolve:
    def read(scope: JsonValue) -> JsonValue:
        try:
            return path.get(scope)
        except TaskFault as fault:
            raise TaskFault(Reason.EXPECTED, f"expected value {template!r}: {fault}") from fault

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
