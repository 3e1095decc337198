"""Descriptions of the settings: a line of `--help`, and a page of the documentation."""

import sys
from typing import Final

from collector.settings.model import ENV_PREFIX, CollectorSettings

_PAGE: Final = """# Settings of the collector

<!-- Written by `python -m collector.settings.page`, from the settings' own model. -->

You can give a setting in three ways. The setting `quiet_s` is

- a line of the YAML file that `--config` names: `quiet_s: 10s`;
- an environment variable, `{prefix}` and the name in capitals: `{prefix}QUIET_S=10s`;
- a flag, with dashes: `scouter collector --quiet-s 10s`.

A flag wins over the environment, and the environment over the file. Secrets (passwords, headers,
keys, and addresses that contain a key) have no flag, because other users of the machine see flags.
The list `providers` has no flag either. An unknown setting is refused, and the message lists the
known ones.

The file is YAML 1.2: `no` and `off` are words, and a date is text. A file with a repeated key, or
with more than 200 levels, is refused with exit code 2 and one line that names the place.

A time is `500ms`, `7s`, `5m`, `1h`, `1d` or a number of seconds. A size is `64KiB`, `128MB`, `1GB`
or a number of bytes.

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
