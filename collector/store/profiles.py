"""Profiles: everything that became of them, appended."""

from itertools import starmap
from typing import Final

from collector.store.reads import Reads
from collector.store.rows import ProfileChange, ProfileRow

_ALL: Final = f"""
    SELECT {", ".join(ProfileRow._fields)} FROM profiles ORDER BY seq
"""
_CHANGES: Final = """
    SELECT seq, space, uid, digest, name, alias, is_active FROM profiles ORDER BY seq
"""


class Profiles(Reads):
    """Registered profiles."""

    def append_profile(self, profile: ProfileRow) -> int:
        """Register a profile, or its newer body; returns the commit's number.

        `is_active` makes it its alias' active one; without, it is not, and others stay as they are.
        """
        row = profile._replace(is_active=int(profile.is_active))
        return self.write({"profiles": [row]})

    def profiles(self) -> list[ProfileRow]:
        """All registered profiles with their latest body, in order of registration.

        Active is what was made so last for its alias, if any.
        """
        latest: dict[tuple[str, str], ProfileRow] = {}
        active: dict[tuple[str, str], str] = {}
        for row in starmap(ProfileRow, self.read(_ALL)):
            latest[row.space, row.uid] = row
            if row.is_active:
                active[row.space, row.alias] = row.uid
            elif active.get((row.space, row.alias)) == row.uid:
                del active[row.space, row.alias]
        return [
            row._replace(is_active=active.get((row.space, row.alias)) == row.uid)
            for row in latest.values()
        ]

    def profile_changes(self) -> list[ProfileChange]:
        """Everything that became of profiles, in order, without their bodies."""
        return [
            ProfileChange(*row, is_active=bool(is_active))
            for *row, is_active in self.read(_CHANGES)
        ]
