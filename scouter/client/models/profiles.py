"""Registered profiles."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer


class ProfileItem(Answer):
    """A registered profile."""

    space: str
    name: str
    alias: str
    uid: str
    profile_version: str
    """Digest of the tasks."""
    version: str
    """The profile's own label."""
    is_active: bool
    reads_spans: bool
    registered_at: datetime.datetime
    tasks: tuple[str, ...]
    """Ids of the tasks."""
    watch: dict[str, JsonValue] | None = None
    """Filter of the traces that the profile judges without records; None if it judges none."""
    alert: str | None = None
    """Its alert's condition in words; it watches nothing while the profile is not active."""
    unusable: str = ""
    """Why the collector cannot use it, though an earlier version took it; it judges nothing."""


class Profile(ProfileItem):
    """A registered profile with its content."""

    body: dict[str, JsonValue] = Field(default_factory=dict)
    """The profile as `AgentEvalProfile.save_to_json` writes it."""
