"""Routes of profiles, conservation, dead letters, erasures and backups."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from scouter.client.connection import Connection
from scouter.client.models.evaluations import Reevaluation
from scouter.client.models.operation import (
    Backup,
    ConservationSheet,
    DeadLetter,
    Erased,
    RecordStates,
    ReplayedLetter,
    ReplayedLetters,
    Status,
)
from scouter.client.models.records import Profile, ProfileItem
from scouter.client.request import COMMIT_S, PAGE_S, Moment, arguments, text_of
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome

_BACKUP_S: Final = 3600.0
"""As long as its machine needs to copy everything."""


if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile


def _body_of(profile: "AgentEvalProfile | Mapping[str, JsonValue]") -> dict[str, JsonValue]:
    if isinstance(profile, Mapping):
        return dict(profile)
    return cast("dict[str, JsonValue]", profile.model_dump(mode="json"))


class OperationRoutes(Connection):
    """Routes of profiles, conservation, dead letters, erasures and backups."""

    def conservation(self) -> ConservationSheet:
        """Every record and span that came in, and what became of it."""
        return self._get(ConservationSheet, "/conservation")

    def status(self) -> Status:
        """Store, lag and receivers of the collector, and the tokens that may use it."""
        return self._get(Status, "/status")

    def record_states(self) -> RecordStates:
        """The records of the sheet alone: quick, as no spans are looked at."""
        return self._get(RecordStates, "/conservation/records")

    def dead_letters(
        self, *, reason: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> Iterator[DeadLetter]:
        """List the data that the collector could not use, newest first.

        Args:
            reason: Why it could not be used, such as `invalid_span`.
            kind: Kind of data, such as `record` or `spans`.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
        """
        return self._pages(DeadLetter, "/dead-letters", arguments(locals()))

    def replay_letter(self, letter_id: str) -> ReplayedLetter:
        """Take one dead letter in again; one that is refused again stays. Needs the scope admin.

        Args:
            letter_id: As a list of letters has it.
        """
        return self._post(
            ReplayedLetter,
            "/dead-letters/{letter_id}/replay",
            {"letter_id": letter_id},
            is_repeatable=False,
            takes_s=COMMIT_S,
        )

    def replay_letters(
        self,
        *,
        reason: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ReplayedLetters:
        """Take one page of dead letters in again; its `next_cursor` goes on. Needs the scope admin.

        Args:
            reason: Such as `unknown_profile`.
            kind: `record`, `span` or another kind of payload.
            limit: Most letters, 1 to 1000.
            cursor: `next_cursor` of the page before.
        """
        return self._post(
            ReplayedLetters,
            "/dead-letters/replay",
            arguments(locals()),
            is_repeatable=False,
            takes_s=PAGE_S,
        )

    def erase(
        self,
        *,
        session_id: str | None = None,
        trace_id: str | None = None,
        record_uid: str | None = None,
        tag: tuple[str, str] | None = None,
    ) -> Erased:
        """Remove data for good: exactly one session, trace, record or tag. Needs the scope admin.

        Args:
            session_id: All records of this session and their traces.
            trace_id: This trace and its records; 32 hex digits.
            record_uid: This record.
            tag: All records with this key and value.

        Raises:
            ConfigError: Not exactly one was given.
        """
        ids = {
            "session_id": session_id,
            "trace_id": trace_id and trace_id.lower(),
            "record_uid": record_uid,
        }
        body: dict[str, JsonValue] = {
            name: value for name, value in ids.items() if value is not None
        }
        if tag is not None:
            body["tag"] = {"key": tag[0], "value": tag[1]}
        if len(body) != 1:
            has = ", ".join(body) or "none"
            raise ConfigError(
                f"erase: expected exactly one of session_id, trace_id, record_uid, tag; got {has}"
            )
        # A second delivery erases nothing more, but its counts would be zero and not what went.
        return self._post(Erased, "/erase", body=body, is_repeatable=False, takes_s=COMMIT_S)

    def backup(self, folder: str) -> Backup:
        """Copy the data of all spaces, on the collector's machine. Needs the scope admin.

        Args:
            folder: Name of a new folder below the collector's setting `backups`.
        """
        body: dict[str, JsonValue] = {"folder": folder}
        return self._post(Backup, "/backup", body=body, is_repeatable=False, takes_s=_BACKUP_S)

    def profiles(
        self, *, alias: str | None = None, name: str | None = None
    ) -> Iterator[ProfileItem]:
        """Registered profiles, in all their versions.

        Args:
            alias: Of the profile.
            name: Of the profile.
        """
        return self._pages(ProfileItem, "/profiles", arguments(locals()))

    def profile(self, uid: str) -> Profile:
        """One profile with its content.

        Args:
            uid: Its identity, 32 hex digits.
        """
        return self._get(Profile, "/profiles/{uid}", arguments(locals()))

    def register_profile(
        self,
        profile: "AgentEvalProfile | Mapping[str, JsonValue]",
        set_active: bool = False,
        deactivate_others: bool = False,
    ) -> ProfileItem:
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
        given = {"activate": True if set_active else None}
        return self._post(ProfileItem, "/profiles", given, _body_of(profile))

    def activate_profile(self, uid: str) -> ProfileItem:
        """Have a profile judge what comes in under its alias from now on. Needs the scope profile.

        Args:
            uid: Its identity.
        """
        return self._post(ProfileItem, "/profiles/{uid}/activate", {"uid": uid})

    def deactivate_profile(self, uid: str) -> ProfileItem:
        """Have a profile judge nothing more. Needs the scope profile.

        Args:
            uid: Its identity.
        """
        return self._post(ProfileItem, "/profiles/{uid}/deactivate", {"uid": uid})

    def reevaluate(
        self,
        profile: "str | AgentEvalProfile | Mapping[str, JsonValue]",
        *,
        outcome: Outcome | str | None = None,
        session_id: str | None = None,
        trace_id: str | None = None,
        record_id: str | None = None,
        since: Moment | None = None,
        missing: bool = False,
        dry_run: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Reevaluation:
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
            missing: Instead judge traces that are watched, records and sessions that have no
                evaluation, since a time of theirs; the evaluations are marked `is_backfill`.
            dry_run: Report only; False makes the new evaluations the next revisions.
            limit: Evaluations to look at, 1 to 500.
            cursor: `next_cursor` of the page before.
        """
        given = arguments(locals())
        if not isinstance(profile, str):
            del given["profile"]
            given["profile_body"] = _body_of(profile)
        if since is not None:
            given["since"] = text_of("since", since)
        body: dict[str, JsonValue] = {
            name: value for name, value in given.items() if value is not None
        }
        return self._post(
            Reevaluation, "/reevaluations", body=body, is_repeatable=dry_run, takes_s=PAGE_S
        )
