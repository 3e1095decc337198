"""The cursor of sent results of a fleet, in its PostgreSQL."""

import json
import logging
from typing import Final

from collector.fleet.database import Session
from collector.fleet.notes import FleetNote
from collector.store.rows import FIRST_RESULT, ResultPlace

_log: Final = logging.getLogger(__name__)
SENT_TO: Final = "results sent to "
"""Begins the name of the note of each endpoint."""


class FleetCursor:
    """The place of the last evaluation that one endpoint has taken.

    It is the same wherever the sender runs. Two that send at a time, as one that was frozen and
    the one that took its place, send some results twice and leave none out.

    Args:
        session: A connection to the database.
        endpoint: The endpoint that took it; another one begins with the first evaluation.
    """

    def __init__(self, session: Session, endpoint: str) -> None:
        self._note = FleetNote(session, f"{SENT_TO}{endpoint}")

    def read(self) -> ResultPlace:
        """Read the place at which to go on; the beginning if none is known."""
        text = self._note.read()
        if text is None:
            return FIRST_RESULT
        try:
            found = json.loads(text)
            return ResultPlace(int(found["seq"]), int(found["ordinal"]))
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("%s is none, all results are sent again: %s", self._note, error)
            return FIRST_RESULT

    def write(self, place: ResultPlace) -> None:
        """Keep a place."""
        self._note.write(json.dumps({"seq": place.seq, "ordinal": place.ordinal}))
