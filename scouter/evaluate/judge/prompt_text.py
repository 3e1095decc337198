"""Variables in the messages of a prompt: `${path}`, found and filled in."""

import json
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.files.json_text import is_longer
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import split_templates

MAX_CHARACTERS: Final = 10_000_000
"""Most characters that variables put into the messages of one prompt together."""
CUT_JSON: Final = " of JSON, so that this is no whole JSON value,"


def fill(path: Path, scope: JsonValue, most: int) -> str:
    """Write the value of a variable: a text as it is, everything else as JSON.

    Args:
        path: Path of the variable.
        scope: Value that the path is read from.
        most: Most characters; of a longer value both ends are written, and a note of the rest.

    Raises:
        TaskFault: The path leads nowhere; names it and the existing keys. Or the value at the path
            is too large (`Reason.LIMIT`).
    """
    try:
        value = path.get(scope)
    except TaskFault as fault:
        raise TaskFault(fault.reason, f"prompt variable ${{{path.text}}}: {fault}") from fault
    if isinstance(value, str):
        return shorten(value, most)
    if is_longer(value, MAX_CHARACTERS):
        raise TaskFault(
            Reason.LIMIT,
            f"prompt variable ${{{path.text}}}: its JSON has more than {MAX_CHARACTERS:,} "
            "characters; name a part of it",
        )
    return shorten(as_text(value), most, CUT_JSON)


def as_text(value: JsonValue) -> str:
    """Write a value for a message: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def with_variables(text: str, put: Callable[[str], str]) -> str:
    """Change the variables of a text.

    Args:
        text: A text with paths as variables.
        put: From a path as it stands in the text to what stands in the place of its variable.
    """
    return "".join(
        literal(part) if isinstance(part, str) else put(part.text) for part in split_templates(text)
    )


def literal(text: str) -> str:
    """Write a text so that nothing in it is a variable."""
    return text.replace("${", "$${")
