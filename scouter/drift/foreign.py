"""Profiles as the original system writes them, turned into ours.

Its file holds besides alias, config and tasks what follows from them (`task_ids`, `workflow`,
`scouter_version`, `config.drift_type`, `config.uid`), which is left out. How its server is to alert
is left out by `AgentAlertConfig`.
"""

from collections.abc import Mapping
from typing import Final, cast

_DERIVED: Final = ("scouter_version", "workflow", "task_ids")
MISSING: Final = "__missing__"
"""Name by which the original calls a space or name that was not given."""


def from_foreign(data: object) -> object:
    """Turn a profile of the original into the fields of ours; anything else stays as it is.

    Args:
        data: Content of a file.
    """
    if not isinstance(data, Mapping):
        return data
    profile = dict(cast("Mapping[str, object]", data))
    if not any(key in profile for key in _DERIVED):
        return profile
    for key in _DERIVED:
        profile.pop(key, None)
    config = profile.get("config")
    if isinstance(config, Mapping):
        profile["config"] = config_from_foreign(cast("Mapping[str, object]", config))
    return profile


def config_from_foreign(data: Mapping[str, object]) -> dict[str, object]:
    """Turn the config of a profile of the original into the fields of ours."""
    config = dict(data)
    config.pop("drift_type", None)
    config.pop("uid", None)
    version = config.get("version")
    for key, absent in (("space", MISSING), ("name", MISSING)):
        if config.get(key) == absent:
            del config[key]
    if version in (None, "0.0.0"):
        config.pop("version", None)
    return config
