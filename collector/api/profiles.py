"""Profiles: register, look at, activate."""

import asyncio
import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.api.parameters import COMMON, NOT_FOUND, PROBLEMS, Profiler, Reader, Text
from collector.api.parts import TheIngest, TheReader, TheRegistry, WhenChanged
from collector.api.profile_reader import ProfileReader
from collector.items.times import format_time
from collector.problem import SCHEMAS, ProblemError, problems
from collector.receivers.answers import problem_of
from collector.receivers.http.body import read_body
from collector.worker.profiles import (
    AliasTakenError,
    NoRoomError,
    ProfileRegistry,
    RegisteredProfile,
    Registration,
    UnusableProfile,
)
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import WIRE_LIMITS
from scouter.errors import DataError, TransientError

_REFUSED: Final = problems(408, 409, 413, 422)
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": AgentEvalProfile.model_json_schema(ref_template=SCHEMAS + "{model}")
            }
        },
    }
}

Activate = Annotated[
    bool, Query(description="Make it the one that its alias means for records from now on, too.")
]
Uid = Annotated[str, Path(max_length=64, description="As the profile's listing has it.")]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class ProfileItem(_Answer):
    """A registered profile."""

    space: str
    name: str
    alias: str
    uid: str
    profile_version: str = Field(description="Digest of the tasks.")
    version: str = Field(description="The profile's own label.")
    is_active: bool
    reads_spans: bool
    registered_at: str
    tasks: list[str] = Field(description="Ids of the tasks.")
    watch: dict[str, JsonValue] | None = Field(
        description="Selects traces that it evaluates without records; null for none."
    )
    alert: str | None = Field(
        description="Its alert's condition in words; it watches nothing while this is not active."
    )
    unusable: str = Field(
        default="",
        description="Why this version of the collector cannot use it, though an earlier one took "
        "it; it judges nothing, and has no tasks here.",
    )


class ProfileWithBody(ProfileItem):
    """A registered profile with all that it says."""

    body: dict[str, JsonValue] = Field(description="As `AgentEvalProfile.save_to_json` writes it.")


class ProfilePage(_Answer):
    """Profiles by alias, the active one of an alias first, then the newest; all in one page."""

    items: list[ProfileItem]
    next_cursor: None = None


@cache
def profiles_router() -> APIRouter:
    """Make the routes below `/api/v1/profiles`."""
    router = APIRouter(prefix="/api/v1", tags=["profiles"], responses=PROBLEMS, dependencies=COMMON)
    # They are read one at a time: whoever waits for that takes no thread.
    thread = ThreadPoolExecutor(1, thread_name_prefix="scouter-profiles")

    def found(registry: ProfileRegistry, space: str, uid: str) -> RegisteredProfile:
        return _known(registry.get(space, uid), uid)

    def register_now(
        registry: ProfileRegistry,
        changed: Callable[[], None],
        reader: ProfileReader,
        space: str,
        body: bytes,
        activate: bool,
    ) -> Registration:
        kept = _add(registry, space, reader.read(body))
        if activate:
            uid = kept.profile.uid
            found = _known(registry.set_active(space, uid, is_active=True), uid)
            kept = kept._replace(profile=found)
        changed()
        return kept

    @router.get("/profiles")
    def profiles(
        registry: TheRegistry, caller: Reader, alias: Text = None, name: Text = None
    ) -> ProfilePage:
        """All registered profiles, every version."""
        items = [_item(each) for each in registry.all(caller.space)]
        items += [_unusable(each) for each in registry.unusable(caller.space)]
        return ProfilePage(
            items=[
                each for each in items if alias in (None, each.alias) and name in (None, each.name)
            ]
        )

    @router.post(
        "/profiles",
        status_code=201,
        responses={200: {"model": ProfileItem}, **_REFUSED},
        openapi_extra=_BODY,
    )
    async def register(
        registry: TheRegistry,
        ingest: TheIngest,
        changed: WhenChanged,
        reader: TheReader,
        caller: Profiler,
        request: Request,
        response: Response,
        activate: Activate = False,
    ) -> ProfileItem:
        """Register a profile: 201 if it is new, 200 if it was known.

        Name and tasks say which profile it is. Of a known one, version, description and alert are
        taken over. It belongs to the token's space, whatever space it names. One whose judges this
        collector could not ask is refused (422), with the entry, key or package that is missing.
        """
        try:
            with ingest.lease() as lease:
                limits = dataclasses.replace(
                    ingest.limits,
                    max_body=WIRE_LIMITS.body_bytes,
                    max_inflated=WIRE_LIMITS.body_bytes,
                )
                body = await read_body(request, limits, lease)
                kept = await asyncio.get_running_loop().run_in_executor(
                    thread, register_now, registry, changed, reader, caller.space, body, activate
                )
        except (DataError, TransientError) as error:
            raise problem_of(error) from error
        response.status_code = 201 if kept.is_new else 200
        return _item(kept.profile)

    @router.get("/profiles/{uid}", responses=NOT_FOUND)
    def profile(registry: TheRegistry, caller: Reader, uid: Uid) -> ProfileWithBody:
        """One version of a profile."""
        each = found(registry, caller.space, uid)
        body = each.profile.model_dump(mode="json")
        return ProfileWithBody(**_item(each).model_dump(), body=body)

    @router.post("/profiles/{uid}/activate", responses=problems(404, 422))
    def activate(
        registry: TheRegistry, changed: WhenChanged, reader: TheReader, caller: Profiler, uid: Uid
    ) -> ProfileItem:
        """Make a version the one that its alias means for records accepted from now on."""
        reader.check(found(registry, caller.space, uid).profile)
        each = _known(registry.set_active(caller.space, uid, is_active=True), uid)
        changed()
        return _item(each)

    @router.post("/profiles/{uid}/deactivate", responses=NOT_FOUND)
    def deactivate(
        registry: TheRegistry, changed: WhenChanged, caller: Profiler, uid: Uid
    ) -> ProfileItem:
        """Leave the alias without an active version; records that name this one are still judged.

        Does nothing to a version that is not active.
        """
        each = _known(registry.set_active(caller.space, uid, is_active=False), uid)
        changed()
        return _item(each)

    return router


def _add(registry: ProfileRegistry, space: str, profile: AgentEvalProfile) -> Registration:
    try:
        return registry.add(space, profile)
    except (AliasTakenError, NoRoomError) as error:
        raise ProblemError(409, str(error)) from error


def _known(found: RegisteredProfile | None, uid: str) -> RegisteredProfile:
    if found is None:
        raise ProblemError(404, f"no profile {uid!r} is registered; see GET /api/v1/profiles")
    return found


def _unusable(each: UnusableProfile) -> ProfileItem:
    row = each.row
    return ProfileItem(
        space=row.space,
        name=row.name,
        alias=row.alias,
        uid=row.uid,
        profile_version=row.digest,
        version="",
        is_active=row.is_active,
        reads_spans=False,
        registered_at=format_time(row.registered_ns),
        tasks=[],
        watch=None,
        alert=None,
        unusable=each.why,
    )


def _item(each: RegisteredProfile) -> ProfileItem:
    profile, condition = each.profile, each.profile.config.alert_config.alert_condition
    return ProfileItem(
        space=each.space,
        name=profile.name,
        alias=profile.alias,
        uid=each.uid,
        profile_version=profile.digest,
        version=profile.version,
        is_active=each.is_active,
        reads_spans=profile.plan.needs_spans,
        registered_at=format_time(each.registered_ns),
        tasks=[task.id for task in profile.tasks],
        watch=None if profile.watch is None else profile.watch.model_dump(mode="json"),
        alert=None if condition is None else str(condition),
    )
