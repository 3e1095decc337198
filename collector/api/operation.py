"""Erasing, and backups."""

from pathlib import Path
from typing import Annotated, Final

from fastapi import Body
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collector.api.parameters import Admin, answer_of, api_router, read_trace_id
from collector.api.parts import TheParts
from collector.care.data_folder import KnownBackup
from collector.items.times import time_at
from collector.operation import Erasure
from collector.problem import ProblemError, problems
from collector.store.erase import EraseTarget
from scouter.client.models.operation import Backup, Erased
from scouter.errors import ConfigError

_NO_LIST: Final = (
    "the list of backups cannot be read, so nothing was erased; whoever runs the collector can "
    "mend it: a token of its own space gets the place"
)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tag(_Request):
    """A tag of records."""

    key: str = Field(min_length=1, max_length=512)
    value: str = Field(max_length=4096)


class EraseRequest(_Request):
    """Data to erase: exactly one of these fields."""

    session_id: str | None = Field(default=None, min_length=1, max_length=512)
    trace_id: Annotated[str, AfterValidator(read_trace_id)] | None = Field(
        default=None, description="32 hex digits."
    )
    record_uid: str | None = Field(default=None, min_length=1, max_length=512)
    tag: Tag | None = None

    @model_validator(mode="after")
    def _only_one(self) -> "EraseRequest":
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give exactly one of session_id, trace_id, record_uid and tag")
        return self

    def target(self, space: str) -> EraseTarget:
        """The same, for the store."""
        return EraseTarget(
            space=space,
            session_id=self.session_id,
            trace_id=self.trace_id,
            record_uid=self.record_uid,
            tag=None if self.tag is None else (self.tag.key, self.tag.value),
        )


class BackupRequest(_Request):
    """Name of the folder for a backup."""

    folder: str = Field(
        min_length=1,
        max_length=100,
        description="Name of a new folder below the setting `backups`; no path.",
    )


router = api_router(tag="operation", is_caught_up=False)


@router.post("/erase", responses=problems(409))
def erase(parts: TheParts, caller: Admin, body: Annotated[EraseRequest, Body()]) -> Erased:
    """Erase a session, a trace, a record, or the records with a tag.

    A trace goes with the last of its records. Erased items that are sent again are duplicates.
    """
    is_own = caller.space == parts.space
    try:
        return _erased(parts.operation.erase(body.target(caller.space)), with_paths=is_own)
    except ConfigError as error:
        raise ProblemError(409, str(error) if is_own else _NO_LIST) from error


@router.post("/backup", status_code=201, responses=problems(409))
def backup(parts: TheParts, caller: Admin, body: Annotated[BackupRequest, Body()]) -> Backup:
    """Copy the data of all spaces, and the tokens, into a folder on the collector's machine.

    For tokens of the collector's own space only.
    """
    if caller.space != parts.space:
        raise ProblemError(403, f"a backup holds all spaces: it needs a token of {parts.space!r}")
    try:
        return _backup(parts.operation.back_up(body.folder), with_path=True)
    except ConfigError as error:
        raise ProblemError(409, str(error)) from error


def _erased(done: Erasure, *, with_paths: bool) -> Erased:
    return answer_of(
        Erased,
        done.erased,
        records=len(done.erased.uids),
        is_gone=done.is_gone,
        backups=tuple(_backup(each, with_path=with_paths) for each in done.backups),
    )


def _backup(backup: KnownBackup, *, with_path: bool) -> Backup:
    return Backup(
        name=Path(backup.path).name,
        path=backup.path if with_path else None,
        made_at=time_at(backup.made_ns),
    )
