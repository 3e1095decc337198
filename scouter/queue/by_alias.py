"""Profiles as a queue's user gives them, by the alias that names their slot."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile

Profiles: TypeAlias = (
    "AgentEvalProfile | Sequence[AgentEvalProfile] | Mapping[str, AgentEvalProfile]"
)
"""One profile, several, or several by alias (the key is the alias)."""

_NO_ALIAS: Final = (
    "Drift profile alias must be set: give each profile alias=..., or pass a dict by alias"
)


def by_alias(profile: Profiles) -> "dict[str, AgentEvalProfile]":
    """The profiles by alias.

    Raises:
        ConfigError: There is none, or an alias is missing or used twice.
    """
    from scouter.drift.profile import AgentEvalProfile

    if isinstance(profile, AgentEvalProfile):
        profile = [profile]
    if isinstance(profile, Mapping):
        pairs = list(profile.items())
    else:
        pairs = [(item.alias if item.is_named else "", item) for item in profile]
    out: dict[str, AgentEvalProfile] = {}
    for alias, item in pairs:
        if not alias:
            raise ConfigError(f"profile {item.name!r}: {_NO_ALIAS}")
        if alias in out:
            raise ConfigError(f"two profiles have the alias {alias!r}; aliases name the slots")
        out[alias] = item
    if not out:
        raise ConfigError("no profile was given; a queue needs at least one")
    return out
