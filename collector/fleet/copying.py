"""A copy of all that a collector has stored: from a data folder into a fleet's database, or back.

It goes by parts: the rows of some commits, of all tables, in the order of the commits. Each part is
one transaction of the target, with the number of its last commit. So the same copy, started again,
goes on behind the last part that is there. Numbers of commits stay, and with them all places that
others have noted: cursors, answers as of a commit, what a detector has seen.

Beside the store there are tokens, what judges have spent, the place up to which results were sent,
and the date of retention. Stored answers of judges stay behind: they are made again.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
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
from collector.store.reads import Reads
from collector.store.schema import COLUMNS, NOT_COPIED
from scouter.agent.ledger import SqliteLedger
from scouter.errors import ConfigError

COPIED: Final = tuple(
    table for table in COLUMNS if table not in NOT_COPIED and table not in {"identity", "offsets"}
)
"""The tables whose rows are copied as they are; `offsets` is made of the numbers of commits."""
PART_ROWS: Final = 20_000
PART_BYTES: Final = 16 * 2**20
"""Rows and bytes of a part; a commit that has more is a part of its own."""
NOTHING: Final = -1
"""The last commit of a target that has none."""
_LONG: Final = {
    "bodies": "sum(size_bytes)::BIGINT",
    "records": "sum(context_bytes)::BIGINT",
    "dead_letters": "sum(octet_length(payload))::BIGINT",
    "runs": "sum(octet_length(body))::BIGINT",
}
"""Bytes of tables whose rows may be long, in SQL."""
_ROW_BYTES: Final = 500
_PLACES: Final = "WHERE space <> ''"
"""Rows of `begun` that name no space are places in a log, which stays behind."""
WHERE: Final = {"begun": _PLACES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be copied; a target remembers it until all is there, and longer."""

    identity: int
    """Number of the source."""
    last_seq: int
    """Its newest commit."""
    rows: Mapping[str, int]
    """Rows of its tables, `offsets` with them."""

    def text(self) -> str:
        """The plan in one line, which is the same for the same source that nobody has changed."""
        return json.dumps(asdict(self), sort_keys=True)

    def check(self, text: str, target: object) -> None:
        """Check that a copy that was started is this one.

        Args:
            text: Of its plan.
            target: Where it was started.

        Raises:
            ConfigError: It is another one.
        """
        if text == self.text():
            return
        empty = f"empty {target}, or give another one, and begin anew"
        if json.loads(text)["identity"] != self.identity:
            raise ConfigError(
                f"{target} has a part of the data of another source: run the copy of that one"
                f" again to go on with it, or {empty}"
            )
        raise ConfigError(
            f"what is to be copied has changed since a part of it went to {target}: {empty}"
        )


@dataclass(slots=True, kw_only=True)
class Part:
    """The rows of some commits."""

    after: int
    until: int
    rows: int = 0
    tables: set[str] = field(default_factory=set[str])


def parts_of(store: Reads, offsets: str, after: int, last: int) -> Iterator[Part]:
    """The parts of a store behind a commit, in order.

    Args:
        store: Of either kind.
        offsets: Its table of commits.
        after: The last commit that is there.
        last: The newest commit.
    """
    of_tables = " UNION ALL ".join(
        f"SELECT seq, '{table}' AS name, count(*) AS n, {_LONG.get(table, '0::BIGINT')} AS size"
        f" FROM {offsets if table == 'offsets' else table} {WHERE.get(table, '')} GROUP BY seq"
        for table in (*COPIED, "offsets")
    )
    rows = store.read_for_work(f"SELECT * FROM ({of_tables}) c WHERE seq > $1", [after])
    part, part_bytes = Part(after=after, until=after), 0
    for seq, of_commit in groupby(sorted(rows, key=itemgetter(0)), itemgetter(0)):
        own = list(of_commit)
        n = sum(each for _, _, each, _ in own)
        size = n * _ROW_BYTES + sum(long or 0 for *_, long in own)
        if part.rows and (part.rows + n > PART_ROWS or part_bytes + size > PART_BYTES):
            yield part
            part, part_bytes = Part(after=part.until, until=part.until), 0
        part.until, part.rows, part_bytes = seq, part.rows + n, part_bytes + size
        part.tables.update(name for _, name, _, _ in own)
    part.until = last
    if part.rows:
        yield part


def counts_of(store: Reads, offsets: str) -> dict[str, int]:
    """Rows of each table of a store.

    Args:
        store: Of either kind.
        offsets: Its table of commits.
    """
    found: dict[str, int] = {}
    for table in (*COPIED, "offsets"):
        name = offsets if table == "offsets" else table
        ((found[table],),) = store.read_for_work(
            f"SELECT count(*) FROM {name} {WHERE.get(table, '')}"
        )
    return found


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
