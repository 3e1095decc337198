"""What is beside a store, from a data folder into a fleet's database and back.

Tokens, what judges have spent, the place up to which results were sent, and the date of retention.
Kept answers of judges stay behind: they are made again where they are missing.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Final

from collector.access.tokens import TokenFile
from collector.care.retention import FILE_NAME as RETENTION_NAME
from collector.care.retention import FileNote
from collector.fleet.budget import PostgresqlLedger
from collector.fleet.database import open_beside
from collector.fleet.notes import RETENTION_NOTE, SENT_TO, FleetNote, all_notes
from collector.fleet.tokens import FleetTokens
from collector.results.sender import FILE_NAME as CURSOR_NAME
from collector.store.ledger import LEDGER_NAME
from scouter.agent.ledger import SqliteLedger
from scouter.errors import ConfigError

NOTES_NAME: Final = "fleet_notes.json"
"""File of a folder with all notes of the fleet that it came from: a later fleet has them again."""


def copy_to_fleet(folder: Path, url: str) -> None:
    """Copy what is beside the store of a folder; what is there already stays or is the same.

    Raises:
        ConfigError: A file of the folder cannot be read.
        TransientError: The database takes nothing now; some may be there.
        LedgerError: The ledger cannot be read.
    """
    with closing(open_beside(url)) as session:
        tokens = TokenFile(folder).all()
        if tokens:
            FleetTokens(session).take_over(tokens)
        if (folder / LEDGER_NAME).exists():
            file = SqliteLedger(folder / LEDGER_NAME)
            try:
                PostgresqlLedger(session).take_over(file.balances())
            finally:
                file.close()
        try:
            if (folder / NOTES_NAME).exists():
                known = json.loads((folder / NOTES_NAME).read_text(encoding="utf-8"))
                for name, text in known.items():
                    FleetNote(session, name).write(str(text))
            retention = FileNote(folder / RETENTION_NAME).read()
            if retention is not None:
                FleetNote(session, RETENTION_NOTE).write(retention)
            if (place := FileNote(folder / CURSOR_NAME).read()) is not None:
                endpoint, _ = _place_of(place)
                FleetNote(session, f"{SENT_TO}{endpoint}").write(place)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            names = f"{RETENTION_NAME}, {CURSOR_NAME} or {NOTES_NAME}"
            raise ConfigError(
                f"{names} in {folder} cannot be read: mend it, or remove it if nobody needs it:"
                f" {error}"
            ) from error


def copy_to_folder(url: str, folder: Path) -> None:
    """Copy what is beside the store of a fleet; of several places of results the last one.

    Raises:
        ConfigError: A file cannot be written.
        TransientError: The database gives nothing now.
        LedgerError: The ledger cannot be written.
    """
    with closing(open_beside(url)) as session:
        TokenFile(folder).take_over(FleetTokens(session).all())
        balances = PostgresqlLedger(session).balances()
        if balances.accounts:
            file = SqliteLedger(folder / LEDGER_NAME)
            try:
                file.take_over(balances)
            finally:
                file.close()
        notes = all_notes(session)
        places = [text for name, text in notes.items() if name.startswith(SENT_TO)]
        try:
            if notes:
                FileNote(folder / NOTES_NAME).write(json.dumps(notes))
            if RETENTION_NOTE in notes:
                FileNote(folder / RETENTION_NAME).write(notes[RETENTION_NOTE])
            if places:
                last = max(places, key=lambda text: _place_of(text)[1])
                FileNote(folder / CURSOR_NAME).write(last)
        except OSError as error:
            raise ConfigError(f"cannot write {folder}: {error.strerror or error}") from error


def _place_of(text: str) -> tuple[str, tuple[int, int]]:
    """Endpoint and place of sent results, of a note that `Cursor` has written."""
    found = json.loads(text)
    return str(found["endpoint"]), (int(found["seq"]), int(found["ordinal"]))
