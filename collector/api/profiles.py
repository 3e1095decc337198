"""Profiles: register, look at, activate, and evaluate stored records by another version."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from collector.access.caller import Caller, Scope
from collector.api.parameters import (
    BAD_CURSOR,
    NOT_FOUND,
    Admin,
    Profiler,
    Reader,
    Text,
    answer_of,
    api_router,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import Parts, TheParts
from collector.items.times import time_at
from collector.problem import SCHEMAS, ProblemError, problems
from collector.receivers.http.body import read_body
from collector.receivers.refusals import problem_of
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.unjudged import Unjudged, UnjudgedQuery
from collector.worker.profiles import (
    AliasTakenError,
    NoRoomError,
    RegisteredProfile,
    Registration,
    UnusableProfile,
)
from collector.worker.reevaluate import Reevaluated, Revision, TaskCounts
from scouter.client.models.answer import Page
from scouter.client.models.evaluations import Flip, Reevaluation, TaskCount
from scouter.client.models.records import Profile as StoredProfile
from scouter.client.models.records import ProfileItem
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire_limits import WIRE_LIMITS
from scouter.errors import DataError, TransientError
from scouter.evaluate.outcome import Outcome
from scouter.model.visible import did_you_mean, some_of

_REFUSED: Final = problems(408, 409, 413, 422)
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": SCHEMAS + AgentEvalProfile.__name__}}},
    }
}

Activate = Annotated[
    bool, Query(description="Make it the one that its alias means for records from now on, too.")
]
Uid = Annotated[str, Path(max_length=64, description="As the profile's listing has it.")]


router = api_router(tag="profiles", is_caught_up=False)
# They are read one at a time: whoever waits for that takes no thread.
_thread = ThreadPoolExecutor(1, thread_name_prefix="scouter-profiles")


def _register(parts: Parts, space: str, body: bytes, activate: bool) -> Registration:
    try:
        added = parts.registry.add(space, parts.reader.read(body))
    except (AliasTakenError, NoRoomError) as error:
        raise ProblemError(409, str(error)) from error
    if activate:
        uid = added.profile.uid
        found = _known(parts.registry.set_active(space, uid, is_active=True), uid)
        added = added._replace(profile=found)
    parts.profiles_changed()
    return added


@router.get("/profiles")
def profiles(
    parts: TheParts, caller: Reader, alias: Text = None, name: Text = None
) -> Page[ProfileItem]:
    """All registered profiles, every version."""
    items = [_item(each) for each in parts.registry.all(caller.space)]
    items += [_unusable(each) for each in parts.registry.unusable(caller.space)]
    return Page[ProfileItem](
        items=tuple(
            each for each in items if alias in (None, each.alias) and name in (None, each.name)
        )
    )


@router.post(
    "/profiles",
    status_code=201,
    responses={200: {"model": ProfileItem}, **_REFUSED},
    openapi_extra=_BODY,
)
async def register(
    parts: TheParts,
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
        with parts.ingest.lease() as lease:
            limits = dataclasses.replace(
                parts.ingest.limits,
                max_body=WIRE_LIMITS.body_bytes,
                max_inflated=WIRE_LIMITS.body_bytes,
            )
            body = await read_body(request, limits, lease)
            added = await asyncio.get_running_loop().run_in_executor(
                _thread, _register, parts, caller.space, body, activate
            )
    except (DataError, TransientError) as error:
        raise problem_of(error) from error
    response.status_code = 201 if added.is_new else 200
    return _item(added.profile)


@router.get("/profiles/{uid}", responses=NOT_FOUND)
def profile(parts: TheParts, caller: Reader, uid: Uid) -> StoredProfile:
    """One version of a profile."""
    each = _known(parts.registry.get(caller.space, uid), uid)
    body = each.profile.model_dump(mode="json")
    return StoredProfile(**_item(each).model_dump(), body=body)


@router.post("/profiles/{uid}/activate", responses=problems(404, 422))
def activate(parts: TheParts, caller: Profiler, uid: Uid) -> ProfileItem:
    """Make a version the one that its alias means for records accepted from now on."""
    parts.reader.check(_known(parts.registry.get(caller.space, uid), uid).profile)
    each = _known(parts.registry.set_active(caller.space, uid, is_active=True), uid)
    parts.profiles_changed()
    return _item(each)


@router.post("/profiles/{uid}/deactivate", responses=NOT_FOUND)
def deactivate(parts: TheParts, caller: Profiler, uid: Uid) -> ProfileItem:
    """Leave the alias without an active version; records that name this one are still judged.

    Does nothing to a version that is not active.
    """
    each = _known(parts.registry.set_active(caller.space, uid, is_active=False), uid)
    parts.profiles_changed()
    return _item(each)


def _known(found: RegisteredProfile | None, uid: str) -> RegisteredProfile:
    if found is None:
        raise ProblemError(404, f"no profile {uid!r} is registered; see GET /api/v1/profiles")
    return found


def _unusable(each: UnusableProfile) -> ProfileItem:
    row = each.row
    return answer_of(
        ProfileItem,
        row,
        profile_version=row.digest,
        version="",
        reads_spans=False,
        registered_at=time_at(row.registered_ns),
        tasks=(),
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
        registered_at=time_at(each.registered_ns),
        tasks=tuple(task.id for task in profile.tasks),
        watch=None if profile.watch is None else profile.watch.model_dump(mode="json"),
        alert=None if condition is None else str(condition),
        unusable="",
    )


_NAMED: Final = 3
"""Versions in an answer, the newest first."""
_Text = Annotated[str | None, Field(max_length=512)]


class ReevaluationRequest(BaseModel):
    """Evaluations to evaluate again, and the profile to evaluate them by; answered page by page.

    The profile is either named, or stands here as a whole.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    missing: bool = Field(
        default=False,
        description="In place of evaluations, what has none: traces that the profile's `watch` "
        "selects, records that nobody knew the profile of, and sessions. Each gets one, marked "
        "`is_backfill`. They are listed oldest first, and filtered by `since` alone.",
    )
    profile: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Uid or digest of a registered version; by alias or name, the active one.",
    )
    profile_body: dict[str, JsonValue] | None = Field(
        default=None,
        description="A version as `POST /api/v1/profiles` takes it. It is not registered, so that "
        "it can only be reported on; it needs the scope profile, too.",
    )
    outcome: Annotated[Outcome | None, Field(strict=False)] = Field(
        default=None, description="Only evaluations with this outcome."
    )
    session_id: _Text = None
    trace_id: _Text = None
    record_id: _Text = None
    since: Annotated[str | None, Field(max_length=64)] = Field(
        default=None, description="Only evaluations made since: a time as in every query."
    )
    dry_run: bool = Field(default=True, description="Report only, and change nothing.")
    limit: Annotated[int, Field(strict=False)] = Field(
        default=100, ge=1, le=500, description="Evaluations to look at."
    )
    cursor: Annotated[str | None, Field(max_length=100)] = None

    @model_validator(mode="after")
    def _one_profile(self) -> "ReevaluationRequest":
        if (self.profile is None) is (self.profile_body is None):
            raise ValueError("give exactly one of profile and profile_body")
        others = (self.outcome, self.session_id, self.trace_id, self.record_id)
        if self.missing and any(each is not None for each in others):
            raise ValueError("missing: only `since` filters what has no evaluation")
        if self.profile_body is not None and not self.dry_run:
            raise ValueError(
                "profile_body: revisions refer to a registered version; register this one with "
                "POST /api/v1/profiles, and pass its uid as profile"
            )
        return self


def _meant(parts: Parts, caller: Caller, body: ReevaluationRequest) -> RegisteredProfile:
    """The profile to evaluate by; one that stands in the request is registered nowhere."""
    if body.profile_body is not None:
        caller.check(Scope.PROFILE)
        profile = parts.reader.read(_json(body.profile_body))
        return RegisteredProfile(
            space=caller.space, profile=profile, is_active=False, registered_ns=0
        )
    name = body.profile or ""
    found = parts.registry.resolve(caller.space, name)
    if found is None:
        raise ProblemError(404, _unknown(name, parts.registry.all(caller.space)))
    return found


@router.post("/reevaluations", responses=problems(404, 422))
def reevaluate(parts: TheParts, caller: Admin, body: ReevaluationRequest) -> Reevaluation:
    """Evaluate stored records by a version of their profile; list the evaluations that flip.

    Looks at evaluations of records and sessions of the same alias. A flip is a task of both
    versions that ends differently; new and removed tasks are counted apart. With `dry_run`
    false, each new evaluation becomes the next revision and replaces the earlier one in every
    list and rate. Evaluations of sessions stay as they are if the version has no session task.
    With `missing`, what has no evaluation gets one.
    A `profile_body` is refused for the same faults as a registration (422).
    """
    registered = _meant(parts, caller, body)
    before, as_of = read_cursor(body.cursor)
    profile, now_ns = registered.profile, time.time_ns()
    if body.missing:
        if before is not None and before[0] > Unjudged.SESSIONS:
            raise ProblemError(400, BAD_CURSOR)
        wanted = UnjudgedQuery(
            space=caller.space,
            alias=profile.alias,
            names=(profile.alias, profile.name, registered.uid, profile.digest),
            since_ns=read_time("since", body.since) or 0,
            place=before or (0, 0),
            limit=body.limit,
        )
        filled = parts.backfiller.run(registered, wanted, now_ns=now_ns, is_dry=body.dry_run)
        return _page(profile.alias, profile.digest, body.dry_run, filled)
    query = EvaluationQuery(
        space=caller.space,
        profile=profile.alias,
        record_id=body.record_id,
        session_id=body.session_id,
        trace_id=body.trace_id.lower() if body.trace_id else None,
        outcome=body.outcome,
        since_ns=read_time("since", body.since),
        as_of=as_of,
        limit=body.limit,
        before=before,
    )
    done = parts.reevaluator.run(registered, query, now_ns=now_ns, is_dry=body.dry_run)
    return _page(profile.alias, profile.digest, body.dry_run, done)


def _json(profile: Mapping[str, JsonValue]) -> bytes:
    """The profile as it would have been sent by itself: its size, and all in it, is looked at."""
    text = json.dumps(profile, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _unknown(name: str, registered: Iterable[RegisteredProfile]) -> str:
    """Say why a name means no profile: there is none, or none of its versions is active."""
    versions = [each.uid for each in registered if name in (each.profile.alias, each.profile.name)]
    if not versions:
        names = [name for each in registered for name in (each.profile.alias, each.profile.name)]
        hint = did_you_mean(name, names) or "see GET /api/v1/profiles"
        return f"profile: {name!r} is not registered; {hint}"
    return (
        f"profile: {name!r} is registered and has no active version; name a version by its uid "
        f"({some_of(versions, _NAMED)}), or activate one with "
        "`scouter profile activate UID`"
    )


def _page(alias: str, digest: str, is_dry: bool, done: Reevaluated) -> Reevaluation:
    return answer_of(
        Reevaluation,
        done,
        profile=alias,
        profile_version=digest,
        dry_run=is_dry,
        flipped=len(done.flips),
        stored=len(done.stored),
        new_tasks=tuple(_counts(done.new)),
        removed_tasks=tuple(_counts(done.removed)),
        items=tuple(_flip(each, done.stored) for each in done.flips),
        next_cursor=write_cursor(done.next_before, done.as_of),
    )


def _counts(counts: TaskCounts) -> list[TaskCount]:
    return [TaskCount(task_id=task, outcomes=dict(each)) for task, each in counts.items()]


def _flip(flip: Revision, stored: Collection[str]) -> Flip:
    before, after = flip.before, flip.row
    return answer_of(
        Flip,
        before,
        scope=before.scope.value,
        uid=before.record_uid,
        before=before.outcome,
        after=after.outcome,
        before_version=before.profile_digest,
        revision=after.revision,
        is_stored=before.record_uid in stored,
        tasks=flip.changes,
    )
