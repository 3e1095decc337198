"""Descriptions of the settings: a line of `--help`, and a page of the documentation."""

import sys
from typing import Final

from collector.settings.model import ENV_PREFIX, CollectorSettings

_PAGE: Final = """# Settings of the collector

<!-- Written by `python -m collector.settings.page`, from the settings' own model. -->

A setting is a line of the file that `--config` names (`name: value`, YAML), an environment variable
(`{prefix}` and the name in capitals), or a flag (`--`, with dashes). A flag wins over the
environment, the environment over the file. Secrets (passwords, headers, keys and addresses that
are one) have no flag, because other users see flags; the list `providers` has none either. An
unknown setting is refused, and the message lists the known ones.

The file is YAML 1.2: `no` and `off` are words, and a date is text. A file with a repeated key, or
with more than 200 levels, is refused in one line that names the place, with exit code 2.

Times are `500ms`, `7s`, `5m`, `1h`, `1d` or seconds; sizes are `64KiB`, `128MB`, `1GB` or bytes.

| setting | default | meaning |
|---|---|---|
{rows}
"""


def describe(name: str) -> str:
    """The meaning of a setting for `--help`, with its environment variable and its default."""
    text = CollectorSettings.model_fields[name].description or ""
    default = default_text(name)
    return f"{text} [{ENV_PREFIX}{name.upper()}{default and f'; default: {default}'}]"


def default_text(name: str) -> str:
    """The default of a setting as text; empty for none."""
    default: object = CollectorSettings.model_fields[name].default
    if default is None or default == ():
        return ""
    return "yes" if default is True else "no" if default is False else str(default)


def settings_page() -> str:
    """The page of the documentation that has every setting, as Markdown."""
    rows = [
        f"| `{name}` | {default_text(name) and f'`{default_text(name)}`'} | "
        f"{(field.description or '').replace('|', chr(92) + '|')} |"
        for name, field in CollectorSettings.model_fields.items()
    ]
    return _PAGE.format(prefix=ENV_PREFIX, rows="\n".join(rows))


if __name__ == "__main__":
    sys.stdout.write(settings_page())
