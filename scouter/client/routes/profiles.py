"""Routes of profiles and of evaluations by another version."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from scouter.client.call import (
    PAGE_S,
    Call,
    Moment,
    PagedCall,
    QueryValue,
    get,
    pages,
    post,
    text_of,
)
from scouter.client.models.profiles import Profile, ProfileItem
from scouter.client.models.reevaluations import Reevaluation
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome

if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile


def profiles(*, alias: str | None = None, name: str | None = None) -> PagedCall[ProfileItem]:
    """Registered profiles, in all their versions.

    Args:
        alias: Of the profile.
        name: Of the profile.
    """
    return pages("/profiles", ProfileItem, dict(locals()))


def profile(uid: str) -> Call[Profile]:
    """One profile with its content.

    Args:
        uid: Its identity, 32 hex digits.
    """
    return get("/profiles/{uid}", Profile, at={"uid": uid})


def register_profile(
    profile: "AgentEvalProfile | Mapping[str, JsonValue]",
    set_active: bool = False,
    deactivate_others: bool = False,
) -> Call[ProfileItem]:
    """Make a profile known, and have it judge if that is wanted. Needs the scope profile.

    Args:
        profile: A profile, or what its `save_to_json` writes.
        set_active: Whether it judges what comes in under its alias from now on. It does then
            instead of the version that did so far.
        deactivate_others: With `set_active` only, which does this anyway.

    Raises:
        ConfigError: Others are to be deactivated and this one is not to be active.
    """
    if deactivate_others and not set_active:
        raise ConfigError(
            "deactivate_others=True without set_active=True would leave the alias without a "
            "profile; call deactivate_profile(uid) if that is what you want"
        )
    query: dict[str, QueryValue] = {"activate": True if set_active else None}
    return post("/profiles", ProfileItem, query=query, body=_body_of(profile))


def activate_profile(uid: str) -> Call[ProfileItem]:
    """Have a profile judge what comes in under its alias from now on. Needs the scope profile.

    Args:
        uid: Its identity.
    """
    return post("/profiles/{uid}/activate", ProfileItem, at={"uid": uid})


def deactivate_profile(uid: str) -> Call[ProfileItem]:
    """Have a profile judge nothing more. Needs the scope profile.

    Args:
        uid: Its identity.
    """
    return post("/profiles/{uid}/deactivate", ProfileItem, at={"uid": uid})


def reevaluate(
    profile: "str | AgentEvalProfile | Mapping[str, JsonValue]",
    *,
    outcome: Outcome | str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    record_id: str | None = None,
    since: Moment | None = None,
    dry_run: bool = True,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Reevaluation]:
    """Judge one page of stored records by a version of their profile. Needs the scope admin.

    Args:
        profile: Uid or digest of a registered version; by alias or name, the active one. Or a
            profile as `register_profile` takes it: it is not registered, so that it can only be
            reported on. That needs the scope profile, too.
        outcome: Only evaluations with this outcome.
        session_id: Of the record.
        trace_id: Of the record.
        record_id: The user's name for a record.
        since: Evaluated at this time or later.
        dry_run: Report only; False makes the new evaluations the next revisions.
        limit: Evaluations to look at, 1 to 500.
        cursor: `next_cursor` of the page before.
    """
    given = dict(locals())
    if not isinstance(profile, str):
        del given["profile"]
        given["profile_body"] = _body_of(profile)
    if since is not None:
        given["since"] = text_of("since", since)
    body: dict[str, JsonValue] = {name: value for name, value in given.items() if value is not None}
    return post("/reevaluations", Reevaluation, body=body, is_repeatable=dry_run, takes_s=PAGE_S)


def _body_of(profile: "AgentEvalProfile | Mapping[str, JsonValue]") -> dict[str, JsonValue]:
    if isinstance(profile, Mapping):
        return dict(profile)
    return cast("dict[str, JsonValue]", profile.model_dump(mode="json"))
