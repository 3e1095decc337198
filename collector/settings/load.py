"""Settings from flags, environment and file, merged and checked."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from collector.settings.model import ENV_PREFIX, CollectorSettings
from scouter.errors import ConfigError
from scouter.evaluate.files.read import MAX_YAML_BYTES, Document, parse_yaml, read_text


def load_settings(flags: Mapping[str, object], config: Path | None = None) -> CollectorSettings:
    """Merge flags, environment and file into checked settings.

    Args:
        flags: Settings given on the command line, by field name; None means not given.
        config: YAML file with settings by field name.

    Raises:
        ConfigError: An unknown setting (lists the known ones), or a value that does not fit;
            names the setting and where it was set, in a file with the line.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    document = Document(path="", value=None) if config is None else _read_file(config)
    file = _settings_of(document)
    environment = {
        name.upper()[len(ENV_PREFIX) :].lower(): name
        for name in os.environ
        if name.upper().startswith(ENV_PREFIX)
    }
    where = {name: f"in {config}, line {document.line_of((name,))}" for name in file}
    where |= {name: f"in the environment as {key}" for name, key in environment.items()}
    where |= {name: f"by --{name.replace('_', '-')}" for name in given}
    _refuse_unknown(where)
    try:
        return CollectorSettings(**given, _file=file)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigError(_explain(error, where)) from error


def _read_file(path: Path) -> Document:
    text = read_text(path, MAX_YAML_BYTES)
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return Document(path=str(path), value=None)  # all of it may be commented out
    return parse_yaml(str(path), text)


def _settings_of(document: Document) -> dict[str, object]:
    value = document.value
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise document.error("not settings", expected="lines of `name: value`")
    return dict[str, object](value)


def _refuse_unknown(where: Mapping[str, str]) -> None:
    known = CollectorSettings.model_fields
    for name, place in where.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"unknown setting {name!r} {place}; {guess}known: {', '.join(known)}")


def _explain(error: ValidationError, where: Mapping[str, str]) -> str:
    parts: list[str] = []
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        place = f"setting {name!r} {where.get(name, '')}: " if name else ""
        parts.append(f"{place}{problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)
