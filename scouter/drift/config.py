"""Settings of a profile besides its tasks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scouter.alert.config import AgentAlertConfig
from scouter.drift.foreign import config_from_foreign
from scouter.drift.healthy import Healthy
from scouter.evaluate.files.read import load_model
from scouter.model.kinds import DriftType
from scouter.model.positional import by_position

_ORDER: Final = ("space", "name", "version", "sample_ratio", "alert_config")
"""The original's."""


class AgentEvalConfig(BaseModel):
    """Names, version and alert of a profile; none of it is part of the profile's digest.

    Args:
        space: Where the profile lives when a person files it; the collector's own space wins.
        name: The profile's name; its alias stands in where this is empty.
        version: A label for people; records are evaluated by the digest.
        alert_config: Condition at which people are told.
        healthy: References of the collector's detectors, besides those that they measure.
        sample_ratio: Share of the alias' records that a queue sends, in [0, 1], of those whose
            traces are kept; all records of one trace are sent or none. Does not thin a replay.
        uid: The profile's identity; a profile fills it in, and what a file says is not taken over.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    space: str = Field(default="default", min_length=1, max_length=128)
    name: str = Field(default="", max_length=128)
    version: str = Field(default="0.1.0", max_length=64)
    alert_config: AgentAlertConfig = Field(default_factory=AgentAlertConfig)
    healthy: Healthy | None = Field(default=None, exclude_if=lambda value: value is None)
    sample_ratio: float = Field(default=1.0, ge=0.0, le=1.0)
    uid: str = Field(default="", max_length=128)

    if not TYPE_CHECKING:  # whoever checks types sees the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(**by_position(type(self), _ORDER, args, fields))

    @property
    def drift_type(self) -> DriftType:
        """The kind of thing that a profile watches: here always an agent."""
        return DriftType.Agent

    @classmethod
    def load_from_json_file(cls, path: str | Path) -> "AgentEvalConfig":
        """Read a config, ours or the original's, from a `.json`, `.yaml` or `.yml` file.

        Raises:
            FileFormatError: Names the file, and the line and field where known.
        """
        return cls(**dict(load_model(path, _ConfigFile)))


class _ConfigFile(AgentEvalConfig):
    """A config that is a file of its own, in which `drift_type` says that the original wrote it."""

    @model_validator(mode="before")
    @classmethod
    def _read_foreign(cls, data: object) -> object:
        if not isinstance(data, Mapping) or "drift_type" not in data:
            return cast("object", data)
        return config_from_foreign(cast("Mapping[str, object]", data))
