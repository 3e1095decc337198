"""Results as files: one JSON object with the version of its shape."""

from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, field_validator

from scouter.errors import ConfigError
from scouter.evaluate.files import parse_json, read_text

SCHEMA_VERSION: Final = 1
"""Raised when a stored result can no longer be read as before."""


class Stored(BaseModel):
    """A result that can be saved and loaded. Fields that a later version added are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = SCHEMA_VERSION

    @field_validator("schema_version")
    @classmethod
    def _known_version(cls, version: int) -> int:
        if not 1 <= version <= SCHEMA_VERSION:
            raise ConfigError(
                f"schema version {version} was written by another version of this package; "
                f"this one reads 1 to {SCHEMA_VERSION}"
            )
        return version

    def save(self, path: str | Path) -> None:
        """Write the result as indented JSON in UTF-8.

        Raises:
            OSError: The file cannot be written.
        """
        Path(path).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, whatever the file is called.

        Raises:
            FileFormatError: Names the file, and line and field where they are known.
        """
        document = parse_json(str(path), read_text(path))
        try:
            return cls.model_validate(document.value)
        except ValueError as error:
            raise document.wrap(error, model=cls) from error
