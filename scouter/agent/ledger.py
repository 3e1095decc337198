"""Ledgers: what was spent and reserved, on which account and day; in a file, or in memory."""

import asyncio
import datetime
import math
import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from scouter.errors import ScouterError
from scouter.transport.sqlite_file import SqliteMemory, sqlite_at

NANO: Final = 1_000_000_000
"""Money is counted in whole billionths of a dollar, so that sums are exact."""


def to_nano_usd(usd: float) -> int:
    """Whole billionths of a dollar; what is less than one counts as one."""
    # Rounded first, so that 0.1 dollars are not a billionth more for being binary.
    return math.ceil(round(usd * NANO, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account on which money is counted for one day, with its limit.

    Args:
        name: Thing that the money is spent by, such as `provider entry openai`.
        day: The day in UTC, as 2026-11-23; for a run the day on which it began.
        limit_nano_usd: Most that may be spent and reserved together, in billionths of a dollar.
    """

    name: str
    day: str
    limit_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Money that was put aside for one question."""

    number: str
    """Names the reservation in its ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """There is not enough left."""

    account: Account
    """The first of the accounts on which there is not."""
    used_nano_usd: int
    """Money spent and reserved on the account, in billionths of a dollar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balances:
    """All that a ledger has, to be moved into another one."""

    accounts: Sequence[tuple[str, str, int]]
    """Name, day, and money spent and reserved, in billionths of a dollar."""
    reservations: Sequence[tuple[str, str, str, int]]
    """Number, name, day, and the money that is part of the account's."""


class LedgerError(ScouterError):
    """The ledger could not be read or written; nothing was reserved."""


class Ledger(Protocol):
    """Keeps accounts. Called from any event loop and thread, many calls at a time.

    Reserved money counts as spent until it is settled. So the reservation of a process that died
    counts as spent until its day ends, and a program that crashes again and again spends no more
    than the budget.
    """

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        """Put an amount aside on all of some accounts, or on none.

        Args:
            accounts: At least one.
            nano_usd: The amount, from 0.

        Raises:
            LedgerError: Nothing could be written; nothing is put aside.
        """
        ...

    async def settle(self, reserved: Reserved, nano_usd: int) -> None:
        """Replace a reservation by what was really spent, which may be more.

        The second time for one reservation does nothing.

        Raises:
            LedgerError: Nothing could be written; the reservation stays.
        """
        ...

    async def spent_nano_usd(self, name: str, day: str) -> int:
        """The sum of spent and reserved money of an account.

        Raises:
            LedgerError: It could not be read.
        """
        ...

    async def reserved_nano_usd(self, name: str, day: str) -> int:
        """The reserved part of it, for questions that were not settled.

        Raises:
            LedgerError: It could not be read.
        """
        ...

    def close(self) -> None:
        """Let go of what is open; a later call opens it again."""
        ...


_APPLICATION_ID: Final = 0x53636C31  # "Scl1": Scouter, ledger, first form
_WAIT_S: Final = 30.0
_KEPT_DAYS: Final = 100
_SCHEMA: Final = (
    """CREATE TABLE account (
        name TEXT NOT NULL, day TEXT NOT NULL, nano_usd INTEGER NOT NULL,
        PRIMARY KEY (name, day)
    )""",
    """CREATE TABLE reservation (
        number TEXT NOT NULL, name TEXT NOT NULL, day TEXT NOT NULL, nano_usd INTEGER NOT NULL,
        PRIMARY KEY (number, name, day)
    )""",
)
_T = TypeVar("_T")


def usual_ledger_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of the file that counts this user's spending, `budget.db` in the user's state folder.

    The folder is `scouter` in `XDG_STATE_HOME`, else in `~/.local/state`. It is not beside the
    cache, since users may delete a cache at any time.
    """
    folder = environ.get("XDG_STATE_HOME")
    return (Path(folder) if folder else Path.home() / ".local/state") / "scouter" / "budget.db"


class SqliteLedger:
    """Keeps accounts in an SQLite file, which several processes may use at a time.

    A reservation is on the disk before it is given out, so that not even a power cut takes it
    back; those that are requested while others are being written are written together. Accounts
    older than 100 days are deleted.

    Args:
        path: The file, readable by its owner alone; `:memory:` for one that lives as long as this
            object, as for the budget of one run.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = sqlite_at(path, application_id=_APPLICATION_ID, schema=_SCHEMA, wait_s=_WAIT_S)
        self._cleared = ""

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        """Put an amount aside on all accounts, or on none."""
        number = uuid.uuid4().hex

        def work(db: sqlite3.Connection) -> Reserved | Refused:
            for account in accounts:
                used = _spent(db, account.name, account.day)
                if used + nano_usd > account.limit_nano_usd:
                    return Refused(account=account, used_nano_usd=used)
            for account in accounts:
                self._clear(db, account.day)
                _add(db, account.name, account.day, nano_usd)
                db.execute(
                    "INSERT INTO reservation VALUES (?, ?, ?, ?)",
                    (number, account.name, account.day, nano_usd),
                )
            return Reserved(number=number)

        return await self._done(self._file.run(work, is_synced=True))

    async def settle(self, reserved: Reserved, nano_usd: int) -> None:
        """Replace a reservation by what was spent."""

        def work(db: sqlite3.Connection) -> None:
            rows = db.execute(
                "DELETE FROM reservation WHERE number = ? RETURNING name, day, nano_usd",
                (reserved.number,),
            ).fetchall()
            for name, day, put_aside in rows:
                _add(db, name, day, nano_usd - put_aside)

        await self._done(self._file.run(work))

    async def spent_nano_usd(self, name: str, day: str) -> int:
        """The sum of spent and reserved money of an account."""
        return await self._done(self._file.read(lambda db: _spent(db, name, day)))

    async def reserved_nano_usd(self, name: str, day: str) -> int:
        """The reserved part of it."""

        def work(db: sqlite3.Connection) -> int:
            sql = "SELECT coalesce(sum(nano_usd), 0) FROM reservation WHERE name = ? AND day = ?"
            return int(db.execute(sql, (name, day)).fetchone()[0])

        return await self._done(self._file.read(work))

    async def check(self) -> None:
        """Look at every page of the file.

        Raises:
            LedgerError: It is damaged, or cannot be read.
        """

        def work(db: sqlite3.Connection) -> None:
            ((found, *_), *_) = db.execute("PRAGMA integrity_check").fetchall()
            if found != "ok":
                raise sqlite3.DatabaseError(found.splitlines()[0])

        await self._done(self._file.read(work))

    def copy_to(self, path: Path) -> None:
        """Copy the file as it is now.

        Args:
            path: The copy; it must not be there yet.

        Raises:
            LedgerError: It cannot be read, or the copy not be written.
        """
        if isinstance(self._file, SqliteMemory):
            raise LedgerError(f"a ledger in memory cannot be copied to {path}: it has no file")
        try:
            self._file.copy_to(path).result()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self._file.path} cannot be copied: {error}") from error

    def balances(self) -> Balances:
        """Everything in the file.

        Raises:
            LedgerError: It cannot be read.
        """

        def work(db: sqlite3.Connection) -> Balances:
            return Balances(
                accounts=db.execute("SELECT name, day, nano_usd FROM account").fetchall(),
                reservations=db.execute(
                    "SELECT number, name, day, nano_usd FROM reservation"
                ).fetchall(),
            )

        try:
            return self._file.read(work).result()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self._file.path} cannot be used: {error}") from error

    def take_over(self, balances: Balances) -> None:
        """Write the balances of another ledger, in the place of those with the same names.

        Raises:
            LedgerError: They cannot be written; nothing has changed.
        """

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO account VALUES (?, ?, ?)", balances.accounts)
            db.executemany(
                "INSERT OR REPLACE INTO reservation VALUES (?, ?, ?, ?)", balances.reservations
            )

        try:
            self._file.run(work, is_synced=True).result()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self._file.path} cannot be used: {error}") from error

    async def _done(self, future: "Future[_T]") -> _T:
        try:
            return await asyncio.wrap_future(future)
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self._file.path} cannot be used: {error}") from error

    def _clear(self, db: sqlite3.Connection, day: str) -> None:
        """Forget old days, once a day."""
        if self._cleared == day:
            return
        self._cleared = day
        before = datetime.date.fromisoformat(day) - datetime.timedelta(days=_KEPT_DAYS)
        for table in ("account", "reservation"):
            db.execute(f"DELETE FROM {table} WHERE day < ?", (before.isoformat(),))  # noqa: S608

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _spent(db: sqlite3.Connection, name: str, day: str) -> int:
    found = db.execute(
        "SELECT nano_usd FROM account WHERE name = ? AND day = ?", (name, day)
    ).fetchone()
    return 0 if found is None else int(found[0])


def _add(db: sqlite3.Connection, name: str, day: str, nano_usd: int) -> None:
    db.execute(
        "INSERT INTO account VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET nano_usd = nano_usd + excluded.nano_usd",
        (name, day, nano_usd),
    )
