"""Settings from flags, environment and file, merged and checked."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml
from pydantic import ValidationError
from pydantic_settings import (
    SettingsError,
)

from collector.settings.model import ENV_PREFIX, CollectorSettings
from scouter.errors import ConfigError, FileFormatError


def load_settings(flags: Mapping[str, object], config: Path | None = None) -> CollectorSettings:
    """Merge flags, environment and file into checked settings.

    Args:
        flags: Settings given on the command line, by field name; None means not given.
        config: YAML file with settings by field name.

    Raises:
        ConfigError: An unknown setting (lists the known ones), or a value that does not fit;
            names the setting and where it was set.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    file = _read_file(config) if config is not None else {}
    environment = {
        name.upper()[len(ENV_PREFIX) :].lower(): name
        for name in os.environ
        if name.upper().startswith(ENV_PREFIX)
    }
    where = {name: f"in {config}" for name in file}
    where |= {name: f"in the environment as {key}" for name, key in environment.items()}
    where |= {name: f"by --{name.replace('_', '-')}" for name in given}
    _refuse_unknown(where)
    try:
        return CollectorSettings(**given, _file=file)  # type: ignore[arg-type]
    except SettingsError as error:  # of a field that is JSON there, which it names
        name = next((each for each in environment if f'"{each}"' in str(error)), "")
        raise ConfigError(f"{name!r} {where.get(name, '')}: the value is not JSON") from error
    except ValidationError as error:
        raise ConfigError(_explain(error, where)) from error


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        raise FileFormatError(str(path), "not YAML", line=line) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise FileFormatError(str(path), "not settings", expected="lines of `name: value`")
    return {str(key): value for key, value in cast(dict[object, object], content).items()}


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
