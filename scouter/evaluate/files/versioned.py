"""Results as files: one JSON object with the version of its shape."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self, cast

from pydantic import BaseModel, JsonValue, field_validator
from pydantic_core import PydanticSerializationError

from scouter.errors import ConfigError
from scouter.evaluate.files.read import Document, parse_json, read_text
from scouter.model.ids import uuid7
from scouter.model.json_value import plain_text

SCHEMA_VERSION: Final = 1
"""Raised when a stored result can no longer be read as before."""


class Stored(BaseModel, frozen=True, extra="ignore"):
    """A result that can be saved and loaded. Fields that a later version added are ignored."""

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
        """Write the result as indented JSON in UTF-8, all of it or nothing.

        A file that was there stays as it is until the new one is complete. Half characters (lone
        surrogates), which UTF-8 lacks, are written as U+FFFD.

        Raises:
            OSError: The file cannot be written.
        """
        write_whole(Path(path), self._text() + "\n")

    def _text(self) -> str:
        try:
            return self.model_dump_json(indent=2)
        except PydanticSerializationError:  # text that is no UTF-8, such as a task's id
            return json.dumps(_plain(self.model_dump()), indent=2, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, whatever the file is called.

        Raises:
            FileFormatError: Names the file, and line and field where they are known.
        """
        return cls.from_document(parse_json(str(path), read_text(path)))

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read what `save` wrote from a file that was parsed already.

        Raises:
            FileFormatError: Names the file, and line and field where they are known.
        """
        try:
            return cls.model_validate(document.value)
        except ValueError as error:
            raise document.wrap(error, model=cls) from error


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old text or the new one, and never a part.

    Anything but a regular file, such as a pipe, is written to directly.

    Raises:
        OSError: The file cannot be written; its old content is unchanged.
    """
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    beside = target.with_name(f".{uuid7()}.tmp")  # os.replace works inside one file system only
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _plain(value: object) -> JsonValue:
    """Copy a dumped model into what JSON and UTF-8 can say."""
    if isinstance(value, str):
        return plain_text(str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        items = cast(Mapping[str, object], value).items()
        return {plain_text(str(key)): _plain(item) for key, item in items}
    if isinstance(value, Sequence):
        return [_plain(item) for item in cast(Sequence[object], value)]
    return cast(JsonValue, value)
