"""The ledger of judges' spending of a fleet, in its PostgreSQL."""

import asyncio
import datetime
import uuid
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from collector.fleet.database import Session
from scouter.agent.ledger import Account, Balances, LedgerError, Refused, Reserved
from scouter.errors import ScouterError

_STORED_DAYS: Final = 100
_LOCK: Final = (
    "SELECT a.name, a.day, a.nano_usd FROM budget_accounts a "
    "JOIN unnest($1::text[], $2::text[]) AS w (name, day) ON a.name = w.name AND a.day = w.day "
    "ORDER BY a.name, a.day FOR UPDATE OF a"
)
"""All lock accounts in one order, so that none waits for another that waits for it."""
_OPEN: Final = (
    "INSERT INTO budget_accounts SELECT name, day, 0 "
    "FROM unnest($1::text[], $2::text[]) AS w (name, day) "
    "ORDER BY name, day ON CONFLICT DO NOTHING"
)
_RESERVE: Final = (
    "WITH w AS (SELECT * FROM unnest($1::text[], $2::text[]) AS w (name, day)), "
    "noted AS (INSERT INTO budget_reservations SELECT $3, name, day, $4::bigint FROM w) "
    "UPDATE budget_accounts a SET nano_usd = a.nano_usd + $4::bigint FROM w "
    "WHERE a.name = w.name AND a.day = w.day"
)
_LOCK_RESERVED: Final = (
    "SELECT 1 FROM budget_accounts a "
    "JOIN budget_reservations r ON a.name = r.name AND a.day = r.day "
    "WHERE r.number = $1 ORDER BY a.name, a.day FOR UPDATE OF a"
)
_SETTLE: Final = (
    "WITH gone AS ("
    "DELETE FROM budget_reservations WHERE number = $1 RETURNING name, day, nano_usd) "
    "UPDATE budget_accounts a SET nano_usd = a.nano_usd + $2::bigint - gone.nano_usd FROM gone "
    "WHERE a.name = gone.name AND a.day = gone.day"
)
_T = TypeVar("_T")


class PostgresqlLedger:
    """Keeps accounts in PostgreSQL, for all processes of a fleet.

    A reservation is on the server's disk before it is given out. It locks the rows of its accounts,
    so that processes reserve one after another. Accounts older than 100 days are deleted.

    Args:
        session: A connection to the database.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cleared = ""

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        """Put an amount aside on all accounts, or on none."""
        reserved = Reserved(number=uuid.uuid4().hex)
        keys = list({(each.name, each.day): None for each in accounts})
        wanted = [name for name, _ in keys], [day for _, day in keys]
        tries = 0

        def work(session: Session) -> Reserved | Refused:
            nonlocal tries
            tries += 1
            with session.transaction():
                if tries > 1 and _is_reserved(session, reserved):
                    return reserved  # its commit was done, and only the word of it was lost
                used = _locked(session, wanted)
                if len(used) < len(keys):
                    self._clear(session, max(wanted[1]))
                    session.read(_OPEN, wanted)
                    used = _locked(session, wanted)
                for each in accounts:
                    spent = used[each.name, each.day]
                    if spent + nano_usd > each.limit_nano_usd:
                        return Refused(account=each, used_nano_usd=spent)
                session.read(_RESERVE, (*wanted, reserved.number, nano_usd))
                return reserved

        return await self._done(work)

    async def settle(self, reserved: Reserved, nano_usd: int) -> None:
        """Replace a reservation by what was spent."""

        def work(session: Session) -> None:
            with session.transaction():
                # If the server crashes, the reservation is there again: too much is counted.
                session.read("SET LOCAL synchronous_commit = off")
                session.read(_LOCK_RESERVED, (reserved.number,))
                session.read(_SETTLE, (reserved.number, nano_usd))

        await self._done(work)

    async def spent_nano_usd(self, name: str, day: str) -> int:
        """The sum of spent and reserved money of an account."""
        return await self._sum("SELECT sum(nano_usd) FROM budget_accounts", name, day)

    async def reserved_nano_usd(self, name: str, day: str) -> int:
        """The reserved part of it."""
        return await self._sum("SELECT sum(nano_usd) FROM budget_reservations", name, day)

    def balances(self) -> Balances:
        """Everything in the tables.

        Raises:
            TransientError: They cannot be read now.
        """

        def work(session: Session) -> Balances:
            return Balances(
                accounts=session.read("SELECT name, day, nano_usd FROM budget_accounts"),
                reservations=session.read(
                    "SELECT number, name, day, nano_usd FROM budget_reservations"
                ),
            )

        return self._session.run(work)

    def take_over(self, balances: Balances) -> None:
        """Write the balances of another ledger, in the place of those with the same names.

        Raises:
            TransientError: They cannot be written now; nothing has changed.
        """

        def work(session: Session) -> None:
            with session.transaction():
                for row in balances.accounts:
                    session.read(
                        "INSERT INTO budget_accounts VALUES ($1, $2, $3) "
                        "ON CONFLICT (name, day) DO UPDATE SET nano_usd = excluded.nano_usd",
                        row,
                    )
                for row in balances.reservations:
                    session.read(
                        "INSERT INTO budget_reservations VALUES ($1, $2, $3, $4) "
                        "ON CONFLICT DO NOTHING",
                        row,
                    )

        self._session.run(work)

    def close(self) -> None:
        """Close the connection."""
        self._session.drop()

    async def _sum(self, select: str, name: str, day: str) -> int:
        sql = f"{select} WHERE name = $1 AND day = $2"
        ((found,),) = await self._done(lambda session: session.read(sql, [name, day]))
        return int(found or 0)

    async def _done(self, work: Callable[[Session], _T]) -> _T:
        try:
            return await asyncio.wrap_future(self._session.submit(work))
        except ScouterError as error:
            raise LedgerError(f"the ledger cannot be used: {error}") from error

    def _clear(self, session: Session, day: str) -> None:
        """Forget old days, once a day."""
        if self._cleared == day:
            return
        self._cleared = day
        before = datetime.date.fromisoformat(day) - datetime.timedelta(days=_STORED_DAYS)
        for sql in (
            "DELETE FROM budget_accounts WHERE day < $1",
            "DELETE FROM budget_reservations WHERE day < $1",
        ):
            session.read(sql, (before.isoformat(),))


def _locked(session: Session, wanted: tuple[list[str], list[str]]) -> dict[tuple[str, str], int]:
    """What was used on accounts, which nobody else changes until the transaction ends."""
    return {(name, day): used for name, day, used in session.read(_LOCK, wanted)}


def _is_reserved(session: Session, reserved: Reserved) -> bool:
    sql = "SELECT 1 FROM budget_reservations WHERE number = $1 LIMIT 1"
    return bool(session.read(sql, [reserved.number]))
