"""Short texts of a fleet that outlive its processes, in its PostgreSQL."""

from typing import Final

from collector.fleet.connection import Connection, Link, Tables

RETENTION_NOTE: Final = "retention"
"""Name of the note of retention's clock."""
_TABLES: Final = Tables(
    name="fleet_notes",
    statements=(
        """CREATE TABLE fleet_notes (
            name TEXT COLLATE "C" PRIMARY KEY, content TEXT NOT NULL
        )""",
    ),
)


def all_notes(link: Link) -> dict[str, str]:
    """All notes by name.

    Raises:
        TransientError: They cannot be read now.
    """

    def work(connection: Connection) -> dict[str, str]:
        rows = connection.execute("SELECT name, content FROM fleet_notes").fetchall()
        return {str(name): str(content) for name, content in rows}

    return link.run(work, _TABLES)


class FleetNote:
    """A note, such as `RetentionClock` has one.

    Args:
        link: A connection to the database.
        name: Its name, one for all processes.
    """

    def __init__(self, link: Link, name: str) -> None:
        self._link, self._name = link, name

    def __str__(self) -> str:
        return f"the note {self._name!r}"

    def read(self) -> str | None:
        """The text that was written last; None if none was.

        Raises:
            TransientError: It cannot be read now.
        """

        def work(connection: Connection) -> str | None:
            sql = "SELECT content FROM fleet_notes WHERE name = $1"
            found = connection.execute(sql, (self._name,)).fetchone()
            return None if found is None else str(found[0])

        return self._link.run(work, _TABLES)

    def write(self, text: str) -> None:
        """Keep a text in the place of the one before.

        Raises:
            TransientError: It cannot be written now.
        """

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO fleet_notes VALUES ($1, $2) "
                "ON CONFLICT (name) DO UPDATE SET content = excluded.content",
                (self._name, text),
            )

        self._link.run(work, _TABLES)
