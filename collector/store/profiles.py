"""Profiles: everything that became of them, appended."""

from dataclasses import replace
from typing import Final

from collector.store.reads import Reads
from collector.store.rows import ProfileChange, ProfileRow

_ALL: Final = """
    SELECT space, uid, digest, name, alias, body, registered_ns, is_active FROM profiles
    ORDER BY seq
"""
_CHANGES: Final = """
    SELECT seq, space, uid, digest, name, alias, is_active FROM profiles ORDER BY seq
"""
_IDENTITIES: Final = """
    SELECT DISTINCT uid, $2::TEXT IN (alias, name, uid, digest) FROM profiles WHERE space = $1
"""
_FEW: Final = 100
"""Uids that a condition names at most."""


class Profiles(Reads):
    """Registered profiles."""

    def append_profile(self, profile: ProfileRow) -> int:
        """Register a profile, or its newer body; returns the commit's number.

        `is_active` makes it its alias' active one; without, it is not, and others stay as they are.
        """
        row = (
            profile.space, profile.uid, profile.digest, profile.name, profile.alias, profile.body,
            profile.registered_ns, int(profile.is_active),
        )  # fmt: skip
        return self.write({"profiles": [row]})

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles with their latest body, in order of registration.

        Active is what was made so last for its alias, if any.
        """
        latest: dict[tuple[str, str], ProfileRow] = {}
        active: dict[tuple[str, str], str] = {}
        for space, uid, digest, name, alias, body, registered_ns, is_active in self.read(_ALL):
            latest[space, uid] = ProfileRow(
                space=space, uid=uid, digest=digest, name=name, alias=alias, body=body,
                registered_ns=registered_ns,
            )  # fmt: skip
            if is_active:
                active[space, alias] = uid
            elif active.get((space, alias)) == uid:
                del active[space, alias]
        return [
            replace(row, is_active=active.get((row.space, row.alias)) == row.uid)
            for row in latest.values()
        ]

    def profile_changes(self) -> list[ProfileChange]:
        """Everything that became of profiles, in order, without their bodies."""
        return [
            ProfileChange(*row, is_active=bool(is_active))
            for *row, is_active in self.read(_CHANGES)
        ]

    def profile_uids(self, space: str, name: str) -> list[str] | None:
        """The uids under which evaluations name a profile: to compare one column is quicker.

        A profile is asked for by its alias, name, uid or digest. To compare these four columns of a
        million evaluations takes 20 to 50 ms, one of them 3 ms.

        Args:
            space: Their space.
            name: Alias, name, uid or digest.

        Returns:
            The uids, which stand for the name: none was ever registered under another one. None
            where that is not so, where there are too many, or where no profile has the name.
        """
        rows = self.read(_IDENTITIES, [space, name])
        found = {uid for uid, is_named in rows if is_named}
        others = {uid for uid, is_named in rows if not is_named}
        return None if not found or len(found) > _FEW or found & others else sorted(found)
