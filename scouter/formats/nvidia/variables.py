"""`${VAR}` and `${VAR:-default}` in a config file, replaced as NeMo Agent Toolkit does."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError

_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)(?:(:?)-(.*))?", re.DOTALL)
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_UNUSED: Final = "api_key"
"""The field that may name a secret; it is never sent, so its variable need not be there."""


def replaced(value: JsonValue, environ: Mapping[str, str]) -> JsonValue:
    """Replace the variables in all texts of a value.

    `${VAR:-default}` is the default where the variable is not set or empty, `${VAR-default}` where
    it is not set; a default may have variables, too. Other texts with a `$` stay as they are.

    Args:
        value: Part of a file.
        environ: The variables.

    Raises:
        ConfigError: A variable is not set and has no default, or its name is that of a secret: a
            file that somebody else wrote sends no key anywhere.
    """
    if isinstance(value, str):
        return _replaced(value, environ)
    if isinstance(value, dict):
        return {
            key: each if key == _UNUSED else replaced(each, environ) for key, each in value.items()
        }
    if isinstance(value, list):
        return [replaced(each, environ) for each in value]
    return value


def _replaced(text: str, environ: Mapping[str, str]) -> str:
    done, at = "", 0
    while (start := text.find("${", at)) >= 0:
        end = _end(text, start)
        found = _VARIABLE.fullmatch(text, start + 2, max(start + 2, end - 1))
        if found is None:
            done, at = done + text[at : start + 2], start + 2
            continue
        name, colon, default = found.groups()
        if _SECRET.search(name) and name in environ:
            raise ConfigError(
                f"${{{name}}}: the variable looks like a secret, and a config file sends none; "
                "write the value into the file if it is not one"
            )
        value = environ.get(name)
        if value is None or (colon and not value):
            if default is None:
                raise ConfigError(f"the variable {name} is not set; set it: export {name}=…")
            value = _replaced(default, environ)
        done, at = done + text[at:start] + value, end
    return done + text[at:]


def _end(text: str, start: int) -> int:
    """The place behind the brace that closes the one at `start`; 0 without one."""
    depth = 0
    for found in re.compile(r"\$\{|\}").finditer(text, start):
        depth += 1 if found[0] == "${" else -1
        if not depth:
            return found.end()
    return 0
