"""The profiles that the collector knows, and which of them a record means."""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from collector.storage.port import Store
from collector.storage.rows import ProfileRow, RecordRow
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ScouterError
from scouter.evaluate.engine.batch import Way, ways_of

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProfile:
    """A profile as it stands in one space."""

    space: str
    profile: AgentEvalProfile
    is_active: bool
    registered_ns: int

    uid: str = field(init=False)
    """Space, name and digest in one word, as the profile itself says it; it costs a digest."""
    ways: tuple[Way, ...] = field(init=False, repr=False, compare=False)
    """Its plan, prepared for `evaluate_batch`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ways", ways_of(self.profile.plan))
        object.__setattr__(self, "uid", self.profile.uid)


class ProfileRegistry:
    """All registered profiles, from the store; any thread may ask.

    Args:
        store: Where registrations are kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], RegisteredProfile] = {}
        for row in store.profiles():
            found = _read(row)
            if found is not None:
                self._known[row.space, row.uid] = found

    def register(
        self, space: str, profile: AgentEvalProfile, *, activate: bool
    ) -> RegisteredProfile:
        """Keep a profile; the same content again changes nothing.

        Args:
            space: Where it belongs.
            profile: What to register.
            activate: Make it the one that its alias means from now on.

        Returns:
            The profile as it stands now.

        Raises:
            TransientError: The store cannot keep it now.
        """
        with self._lock:
            before = self._known.get((space, profile.uid))
            if before is not None and before.profile == profile and before.is_active >= activate:
                return before
            was_active = before is not None and before.is_active
            return self._keep(space, profile, is_active=activate or was_active)

    def set_active(self, space: str, uid: str, *, is_active: bool) -> RegisteredProfile | None:
        """Make a registered profile the one that its alias means from now on, or none of them.

        Returns:
            The profile as it stands now; None if there is none.

        Raises:
            TransientError: The store cannot keep it now.
        """
        with self._lock:
            before = self._known.get((space, uid))
            if before is None or before.is_active is is_active:
                return before
            return self._keep(space, before.profile, is_active=is_active)

    def _keep(self, space: str, profile: AgentEvalProfile, *, is_active: bool) -> RegisteredProfile:
        """Store a registration; an active one takes the place of its alias' active one."""
        before = self._known.get((space, profile.uid))
        row = ProfileRow(
            space=space,
            uid=profile.uid,
            digest=profile.digest,
            name=profile.name,
            alias=profile.alias,
            body=profile.model_dump_json(),
            registered_ns=time.time_ns(),
            is_active=is_active,
        )
        self._store.append_profile(row).result()
        known = {
            key: _passive(each)
            if is_active and key[0] == space and each.profile.alias == profile.alias
            else each
            for key, each in self._known.items()
        }
        found = known[space, profile.uid] = RegisteredProfile(
            space=space,
            profile=profile,
            is_active=is_active,
            registered_ns=row.registered_ns if before is None else before.registered_ns,
        )
        self._known = known
        return found

    def all(self, space: str) -> list[RegisteredProfile]:
        """The profiles of a space, by alias, the active one of each alias first."""
        found = (each for key, each in self._known.items() if key[0] == space)
        return sorted(
            found, key=lambda each: (each.profile.alias, not each.is_active, -each.registered_ns)
        )

    def everything(self) -> list[RegisteredProfile]:
        """The profiles of all spaces."""
        return list(self._known.values())

    def get(self, space: str, uid: str) -> RegisteredProfile | None:
        """The profile with this uid."""
        return self._known.get((space, uid))

    def with_sessions(self) -> list[RegisteredProfile]:
        """The profiles of all spaces that have session-scoped tasks."""
        return [each for each in self._known.values() if each.profile.plan.session is not None]

    def of_record(self, row: RecordRow) -> RegisteredProfile | None:
        """The profile that judges an accepted record: what its sender meant at that time."""
        if row.profile_uid:
            return self.get(row.space, row.profile_uid)
        return self.resolve(row.space, row.profile_ref)

    def resolve(self, space: str, ref: str) -> RegisteredProfile | None:
        """Find what a record means by its profile.

        Args:
            space: The record's space.
            ref: A digest or uid (any registered version), or an alias or name (the active one).

        Returns:
            The profile; where several aliases share a digest, an active one. None if there is
            none.
        """
        exact = self._known.get((space, ref))
        if exact is not None:
            return exact
        candidates = self.all(space)
        by_digest = [each for each in candidates if each.profile.digest == ref]
        if by_digest:
            return max(by_digest, key=lambda each: each.is_active)
        active = [each for each in candidates if each.is_active]
        return _first(each for each in active if each.profile.alias == ref) or _first(
            each for each in active if each.profile.name == ref
        )


def _first(found: Iterable[RegisteredProfile]) -> RegisteredProfile | None:
    return next(iter(found), None)


def _passive(each: RegisteredProfile) -> RegisteredProfile:
    return RegisteredProfile(
        space=each.space,
        profile=each.profile,
        is_active=False,
        registered_ns=each.registered_ns,
    )


def _read(row: ProfileRow) -> RegisteredProfile | None:
    try:
        profile = AgentEvalProfile.model_validate_json(row.body)
    except (ScouterError, ValueError) as error:
        _log.warning("profile %s of the store cannot be used: %s", row.alias, error)
        return None
    return RegisteredProfile(
        space=row.space,
        profile=profile,
        is_active=row.is_active,
        registered_ns=row.registered_ns,
    )
