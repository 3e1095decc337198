"""Profiles: registering, activating and asking for them."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.concurrency import run_in_threadpool

from collector.access.caller import Scope, caller_of
from collector.api.parameters import COMMON, NOT_FOUND, PROBLEMS, Profiler, Reader, Text
from collector.api.wire_profile import MAX_BYTES, read_wire_profile
from collector.pipeline.profiles import ProfileRegistry, RegisteredProfile
from collector.problem import SCHEMAS, Problem, ProblemError
from collector.receivers.times import format_time
from scouter.drift.profile import AgentEvalProfile

Uid = Annotated[str, Path(max_length=64, description="As a registration answers it.")]


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


class ProfilePage(_Answer):
    """Profiles by alias, the active one of an alias first, then the newest; all in one page."""

    items: list[ProfileItem]
    next_cursor: None = None


class ProfileWithBody(ProfileItem):
    """A registered profile and what it says."""

    body: dict[str, JsonValue] = Field(description="What `AgentEvalProfile.save_to_json` writes.")


def profiles_router(registry: ProfileRegistry, changed: Callable[[str, str], None]) -> APIRouter:
    """Make the routes below `/api/v1/profiles`.

    Args:
        registry: The registered profiles.
        changed: Is told space and alias once another version is active, or a new one is there.
    """
    router = APIRouter(prefix="/api/v1", tags=["profiles"], responses=PROBLEMS, dependencies=COMMON)

    @router.get("/profiles")
    def profiles(caller: Reader, alias: Text = None, name: Text = None) -> ProfilePage:
        """All registered profiles, in all their versions."""
        found = [
            each
            for each in registry.all(caller.space)
            if alias in (None, each.profile.alias) and name in (None, each.profile.name)
        ]
        return ProfilePage(items=[ProfileItem(**_fields(each)) for each in found])

    @router.get("/profiles/{uid}", responses=NOT_FOUND)
    def profile(caller: Reader, uid: Uid) -> ProfileWithBody:
        """One profile with its content."""
        found = _found(registry.get(caller.space, uid), uid)
        return ProfileWithBody(**_fields(found), body=found.profile.model_dump(mode="json"))

    @router.post(
        "/profiles",
        status_code=201,
        response_model=ProfileItem,
        responses={
            200: {"model": ProfileItem, "description": "It was registered before."},
            409: {"model": Problem},
            413: {"model": Problem},
            422: {"model": Problem},
        },
        openapi_extra=_BODY,
    )
    async def register(request: Request, response: Response) -> ProfileItem:
        """Register a version of a profile, without activating it; the same again changes nothing.

        The space is that of the token. A profile that names files, or sets of a model what is the
        collector's own (addresses, keys, headers), is refused, as is one that would cost too much.
        """
        caller = caller_of(request, Scope.PROFILE)
        data = await _read(request)
        found, is_known = await run_in_threadpool(_register, caller.space, data)
        if is_known:
            response.status_code = 200
        return ProfileItem(**_fields(found))

    @router.post("/profiles/{uid}/activate", responses=NOT_FOUND)
    def activate(caller: Profiler, uid: Uid) -> ProfileItem:
        """Make a version the one that its alias means from now on, in place of the active one."""
        return _switch(caller.space, uid, is_active=True)

    @router.post("/profiles/{uid}/deactivate", responses=NOT_FOUND)
    def deactivate(caller: Profiler, uid: Uid) -> ProfileItem:
        """Let the alias mean no version any more; records that name this one's digest still do."""
        return _switch(caller.space, uid, is_active=False)

    def _register(space: str, data: bytes) -> tuple[RegisteredProfile, bool]:
        given = read_wire_profile(data)
        known = registry.get(space, given.uid)
        if known is not None and known.profile.alias != given.alias:
            raise ProblemError(
                409,
                f"the same name {given.name!r} and tasks are registered under the alias "
                f"{known.profile.alias!r}, so they are one profile; give this one another "
                "config.name",
            )
        found = registry.register(space, given, activate=False)
        changed(space, given.alias)
        return found, known is not None

    def _switch(space: str, uid: str, *, is_active: bool) -> ProfileItem:
        found = _found(registry.set_active(space, uid, is_active=is_active), uid)
        changed(space, found.profile.alias)
        return ProfileItem(**_fields(found))

    return router


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": AgentEvalProfile.model_json_schema(ref_template=SCHEMAS + "{model}")
            }
        },
    }
}


async def _read(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            raise ProblemError(413, f"a profile has at most {MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _found(registered: RegisteredProfile | None, uid: str) -> RegisteredProfile:
    if registered is None:
        raise ProblemError(404, f"no profile {uid!r} is registered; see GET /api/v1/profiles")
    return registered


def _fields(each: RegisteredProfile) -> dict[str, Any]:
    profile = each.profile
    return {
        "space": each.space,
        "name": profile.name,
        "alias": profile.alias,
        "uid": profile.uid,
        "profile_version": profile.digest,
        "version": profile.version,
        "is_active": each.is_active,
        "reads_spans": profile.plan.needs_spans,
        "registered_at": format_time(each.registered_ns),
        "tasks": [task.id for task in profile.tasks],
    }
