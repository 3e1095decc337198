"""Short texts of a fleet that outlive its processes, in its PostgreSQL."""

from typing import Final

from collector.fleet.database import Session

SENT_TO: Final = "results sent to "
"""Begins the name of the note with the place of each endpoint."""
RETENTION_NOTE: Final = "retention"
"""Name of the note of retention's clock."""


def all_notes(session: Session) -> dict[str, str]:
    """All notes by name.

    Raises:
        TransientError: They cannot be read now.
    """
    sql = "SELECT name, content FROM fleet_notes"
    return dict(session.run(lambda each: each.read(sql)))


class FleetNote:
    """A note, such as `RetentionClock` has one.

    Args:
        session: A connection to the database.
        name: Its name, one for all processes.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name

    def __str__(self) -> str:
        return f"the note {self._name!r}"

    def read(self) -> str | None:
        """The text that was written last; None if none was.

        Raises:
            TransientError: It cannot be read now.
        """
        sql = "SELECT content FROM fleet_notes WHERE name = $1"
        found = self._session.run(lambda each: each.read(sql, [self._name]))
        return found[0][0] if found else None

    def write(self, text: str) -> None:
        """Keep a text in the place of the one before.

        Raises:
            TransientError: It cannot be written now.
        """
        sql = (
            "INSERT INTO fleet_notes VALUES ($1, $2) "
            "ON CONFLICT (name) DO UPDATE SET content = excluded.content"
        )
        self._session.run(lambda each: each.read(sql, [self._name, text]))
