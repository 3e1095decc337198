"""Text of scenario files for people to correct: YAML with remarks, or plain JSON lines."""

import sys
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.read import MAX_YAML_BYTES, check_extension
from scouter.model.visible import visible

EXTENSIONS: Final = (".yaml", ".yml", ".jsonl")
_WIDE: Final = sys.maxsize


def check_scenario_path(path: Path) -> str:
    """Return the extension of a file that can be written.

    Raises:
        FileFormatError: It is another one.
    """
    return check_extension(path, EXTENSIONS)


def write_scenario_text(path: Path, text: str) -> None:
    """Write the text of a scenario file.

    Args:
        path: Its ending says which form the text has.
        text: YAML or JSON lines.

    Raises:
        ConfigError: The file would be larger than YAML files may be, or cannot be written.
    """
    data = text.encode()
    if check_scenario_path(path) != ".jsonl" and len(data) > MAX_YAML_BYTES:
        raise too_large(path)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


def too_large(path: Path) -> ConfigError:
    """Say that a file would have more bytes than YAML is read with, and the way out."""
    return ConfigError(
        f"{path}: more than the {MAX_YAML_BYTES:,} bytes that a YAML file may have; write a .jsonl "
        "file"
    )


def remark(text: str) -> str:
    """Write a comment; no text can end it, as no line break is left in it."""
    return f"# {visible(text)}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.1 and 1.2 agree on them."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything in full."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    line = text.replace("\n", " ")
    style = '"'
    if text[:1].isalpha() and visible(line) == line:  # breaks of other kinds only in escapes
        style = None if line == text else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(value: JsonValue | dict[str, Any]) -> str:
    """Write a value as YAML, its keys in their order, ended by a line break."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDE)
