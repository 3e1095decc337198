"""Erasing, and backups."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Body
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collector.api.parameters import COMMON, PROBLEMS, Admin, read_trace_id
from collector.api.parts import OwnSpace, TheOperation
from collector.care.backups import KnownBackup
from collector.items.times import format_time
from collector.operation import Erasure
from collector.problem import ProblemError, problems
from collector.store.erase import EraseTarget
from scouter.errors import ConfigError

_NO_LIST: Final = (
    "the list of backups cannot be read, so nothing was erased; whoever runs the collector can "
    "mend it: a token of its own space is told where"
)


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Tag(_Asked):
    """A tag of records."""

    key: str = Field(min_length=1, max_length=512)
    value: str = Field(max_length=4096)


class EraseRequest(_Asked):
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


class BackupItem(_Answer):
    """A backup that was made of this collector's data."""

    name: str = Field(description="Of its folder.")
    path: str | None = Field(
        description="Of its folder, on the collector's machine; null for tokens of other spaces "
        "than the collector's own."
    )
    made_at: str


class EraseAnswer(_Answer):
    """Counts of what was erased; all are 0 if nothing was found, as for a repeated request."""

    records: int
    spans: int
    evaluations: int = Field(description="Evaluations, every revision of each.")
    dead_letters: int
    runs: int = Field(description="Results of runs that spoke of it; each as a whole.")
    is_gone: bool = Field(
        description="False while files of the data folder may still hold bytes of it; the next "
        "round of housekeeping, within ten minutes, writes them anew. In a fleet always false: "
        "bytes go as Kafka drops its messages, and PostgreSQL writes over deleted rows."
    )
    backups: list[BackupItem] = Field(
        description="Backups that were made before and may hold some of it: it is for you to "
        "remove them. One that is older than all of it holds nothing."
    )


class BackupRequest(_Asked):
    """Name of the folder for a backup."""

    folder: str = Field(
        min_length=1,
        max_length=100,
        description="Name of a new folder below the setting `backups`; no path.",
    )


@cache
def operation_router() -> APIRouter:
    """Make the routes for those who run the collector."""
    router = APIRouter(
        prefix="/api/v1", tags=["operation"], responses=PROBLEMS, dependencies=COMMON
    )

    @router.post("/erase", responses=problems(409))
    def erase(
        operation: TheOperation,
        space: OwnSpace,
        caller: Admin,
        body: Annotated[EraseRequest, Body()],
    ) -> EraseAnswer:
        """Erase a session, a trace, a record, or the records with a tag.

        A trace goes with the last of its records. Erased items that are sent again are duplicates.
        """
        is_own = caller.space == space
        try:
            return _erased(operation.erase(body.target(caller.space)), with_paths=is_own)
        except ConfigError as error:
            raise ProblemError(409, str(error) if is_own else _NO_LIST) from error

    @router.post("/backup", status_code=201, responses=problems(409))
    def backup(
        operation: TheOperation,
        space: OwnSpace,
        caller: Admin,
        body: Annotated[BackupRequest, Body()],
    ) -> BackupItem:
        """Copy the data of all spaces, and the tokens, into a folder on the collector's machine.

        For tokens of the collector's own space only.
        """
        if caller.space != space:
            raise ProblemError(403, f"a backup holds all spaces: it needs a token of {space!r}")
        try:
            return _backup(operation.back_up(body.folder), with_path=True)
        except ConfigError as error:
            raise ProblemError(409, str(error)) from error

    return router


def _erased(done: Erasure, *, with_paths: bool) -> EraseAnswer:
    return EraseAnswer(
        records=len(done.erased.uids),
        spans=done.erased.spans,
        evaluations=done.erased.evaluations,
        dead_letters=done.erased.dead_letters,
        runs=done.erased.runs,
        is_gone=done.is_gone,
        backups=[_backup(each, with_path=with_paths) for each in done.backups],
    )


def _backup(backup: KnownBackup, *, with_path: bool) -> BackupItem:
    return BackupItem(
        name=Path(backup.path).name,
        path=backup.path if with_path else None,
        made_at=format_time(backup.made_ns),
    )
