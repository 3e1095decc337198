"""Templates in expected values: `${path}`, read from the record and the task's dependencies.

Templates may stand anywhere in texts, also inside lists and objects. A text that is one template
and nothing else becomes the value, with its type. Inside a longer text, a text is put in as it is
and any other value as JSON. `$${` stands for a literal `${`. The value of a template is never
expanded again.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.json_ends import is_longer
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.steps import Meter, charge, charge_weight

MAX_CHARACTERS: Final = 10_000_000
"""Most characters that templates put into the texts of one expected value."""
_METER: Final = Meter(
    MAX_CHARACTERS,
    f"templates put more than {MAX_CHARACTERS:,} characters into the texts of the expected value",
)

_CHARACTERS_PER_STEP: Final = 200
"""Characters of a text that are put together for one step."""
_VALUES_PER_STEP: Final = 2
"""Values that are written as JSON for one step."""

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
        path leads nowhere, or (`Reason.LIMIT`) more than `MAX_CHARACTERS` are put into texts, or
        more is made than the record's tasks may take together.

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


def _compile(value: JsonValue) -> Resolve:
    if isinstance(value, str):
        return _compile_text(value)
    if isinstance(value, list):
        items = [_compile(item) for item in value]
        return lambda scope: _held([item(scope) for item in items])
    if isinstance(value, dict):
        fields = {key: _compile(item) for key, item in value.items()}
        return lambda scope: _held({key: field(scope) for key, field in fields.items()})
    return lambda _: value


def _held(made: JsonValue) -> JsonValue:
    """Count a list or an object of the profile that is made anew for every record."""
    charge(1, held=sys.getsizeof(made))
    return made


def _compile_text(text: str) -> Resolve:
    parts = _split(text)
    if len(parts) == 1 and isinstance(parts[0], Path):
        return _reader(parts[0], text)
    pieces = [part if isinstance(part, str) else _reader(part, text) for part in parts]

    def resolve(scope: JsonValue) -> JsonValue:
        texts = [p if isinstance(p, str) else _as_text(p(scope)) for p in pieces]
        size = sum(map(len, texts))
        charge(1 + size // _CHARACTERS_PER_STEP, held=size * max(map(_width, texts)))
        return "".join(texts)

    return resolve


def _as_text(value: JsonValue) -> str:
    if not isinstance(value, str):
        charge_weight(value, _VALUES_PER_STEP)
        if is_longer(value, _METER.left):  # paths make texts of hundreds of MB of a small context
            _METER.spend(_METER.left + 1)
        value = json.dumps(value, ensure_ascii=False)
    _METER.spend(len(value))
    return value


def _width(text: str) -> int:
    """Bytes of each of its characters, at most."""
    return 1 if text.isascii() else 4


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
