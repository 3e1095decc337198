"""Descriptions of the settings: a line of `--help`, and a page of the documentation."""

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
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

{tables}
"""

_GROUPS: Final = {
    "Folder, addresses and log": (
        "data",
        "backups",
        "listen",
        "grpc",
        "tls_*",
        "public_url",
        "space",
        "ready_file",
        "log_format",
        "drain_s",
    ),
    "Profiles": ("profile", "scores"),
    "Waiting for traces and sessions": (
        "*settle_s",
        "quiet_s",
        "*deadline_s",
        "late_window_s",
        "session_*",
        "max_hold_s",
    ),
    "Limits of senders": (
        "max_requests_per_s",
        "max_connections",
        "keep_alive_s",
        "trusted_proxies",
        "max_body",
        "max_in*",
        "max_item*",
        "max_attributes",
        "max_behind",
    ),
    "Memory, age and size of the store": ("memory_limit", "retention_days", "max_store_bytes"),
    "Kafka": ("kafka*",),
    "Fleet": ("role", "postgresql*", "fleet_*", "past"),
    "Redis": ("redis*",),
    "RabbitMQ": ("rabbitmq*",),
    "Judges": ("providers*", "judge_*", "calibrations", "gold*", "price_file"),
    "Detectors": ("drift*",),
    "Channels of alerts": ("alerts_*",),
    "Results sent on": ("results_*",),
}
"""Headings, each with the names of its settings."""
HEADINGS: Final = ("Options", *_GROUPS)
"""Headings of `--help`, in order; the first is of what is no setting."""


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
    return _PAGE.format(prefix=ENV_PREFIX, tables="\n\n".join(_tables()))


def group_of(name: str) -> str:
    """The heading below which a setting stands.

    Raises:
        LookupError: It has none.
    """
    for heading, patterns in _GROUPS.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return heading
    raise LookupError(f"{name}: expected a heading for it in collector/settings/page.py")


def _tables() -> Iterator[str]:
    groups: dict[str, list[str]] = {heading: [] for heading in _GROUPS}
    for name in CollectorSettings.model_fields:
        groups[group_of(name)].append(_row(name))
    for heading, rows in groups.items():
        yield f"## {heading}\n\n| setting | default | meaning |\n|---|---|---|\n" + "\n".join(rows)


def _row(name: str) -> str:
    default = default_text(name)
    meaning = (CollectorSettings.model_fields[name].description or "").replace("|", "\\|")
    meaning = re.sub(r"\b(\w+\.md)\b", r"[\1](\1)", meaning)
    return f"| `{name}` | {default and f'`{default}`'} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
