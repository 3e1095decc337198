"""The ledger of a fleet: its processes share a budget, and none that is killed overspends."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from collector.fleet.budget import PostgresqlLedger
from collector.fleet.database import Address, Session, open_beside, settings
from collector.fleet.schema import BESIDE
from scouter.agent.ledger import LedgerError, Reserved
from tests.contracts.ledger import DAY, LedgerContract, Make, account
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

T = TypeVar("T")


class TestPostgresqlLedger(LedgerContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, url: str) -> Iterator[Make]:
        ledger = PostgresqlLedger(open_beside(url))
        yield lambda: ledger
        ledger.close()


WORKER = '''
"""Spends until nothing is left. The bill is what the provider wrote down."""
import asyncio, os, random, sys
from collector.fleet.budget import PostgresqlLedger
from collector.fleet.database import open_beside
from scouter.agent.ledger import Account, LedgerError, Refused, to_nano_usd

url, bill, seed = sys.argv[1:]
draw = random.Random(seed)
accounts = [
    Account(name=name, day="2026-11-23", limit_nano_usd=to_nano_usd(1.0))
    for name in draw.sample(["all", f"entry {int(seed) % 2}"], 2)
]
bills = os.open(bill, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
ledger = PostgresqlLedger(open_beside(url))

async def one():
    while True:
        most = draw.randrange(1, 2_000_000)
        try:
            found = await ledger.reserve(accounts, most)
        except LedgerError:  # the server is away: nothing is called
            await asyncio.sleep(0.05)
            continue
        if isinstance(found, Refused):
            return
        cost = draw.randrange(0, most + 1)
        os.write(bills, b"%d\\n" % cost)  # called: from here on it is to be paid for
        await asyncio.sleep(0.001)
        try:
            await ledger.settle(found, cost)
        except LedgerError:
            pass

async def main():
    await asyncio.gather(*(one() for _ in range(5)))
    ledger.close()

asyncio.run(main())
'''
LIMIT = 10**9
MOST = 2_000_000
"""Most that one question reserves."""


class Spenders:
    """Four processes with a budget of 1 USD together."""

    def __init__(self, url: str, bill: Path) -> None:
        self._url, self._bill = url, bill
        self._seeds = 0
        self.killed = 0
        self._running = [self._start() for _ in range(4)]

    def _start(self) -> "subprocess.Popen[str]":
        self._seeds += 1
        command = [sys.executable, "-c", WORKER, self._url, str(self._bill), str(self._seeds)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def wait_for_spending(self) -> None:
        """Until something more is billed, or all have ended."""
        before = self._bill.stat().st_size if self._bill.exists() else 0

        def has_increased() -> bool:
            size = self._bill.stat().st_size if self._bill.exists() else 0
            return size > before + 200 or all(each.poll() is not None for each in self._running)

        wait_until(has_increased, what="spending")

    def replace(self, number: int) -> None:
        """Kill one, and start another in its place."""
        process = self._running[number]
        self.killed += process.poll() is None
        process.kill()
        process.communicate()
        self._running[number] = self._start()

    def finish(self) -> None:
        """Wait until nobody can spend any more."""
        said = [each.communicate(timeout=240)[1] for each in self._running]
        assert [each.returncode for each in self._running] == [0] * 4, said

    @property
    def billed(self) -> int:
        return sum(map(int, self._bill.read_text().split()))


def spent(url: str, name: str = "all") -> int:
    ledger = PostgresqlLedger(open_beside(url))
    try:
        return asyncio.run(ledger.spent_nano_usd(name, DAY))
    finally:
        ledger.close()


def test_four_processes_share_a_budget_of_one_dollar(url: str, tmp_path: Path) -> None:
    """Without crashes the ledger's sum is the bill, to the last billionth.

    Nobody deadlocks, though they name their accounts in different orders.
    """
    spenders = Spenders(url, tmp_path / "bill")
    spenders.finish()
    assert spent(url) == spenders.billed
    assert spent(url) == spent(url, "entry 0") + spent(url, "entry 1")
    # Nobody stops before what he wants next no longer fits beside what the others have put aside.
    assert LIMIT - 21 * MOST <= spenders.billed <= LIMIT


def test_processes_that_are_killed_never_overspend(url: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    spenders = Spenders(url, tmp_path / "bill")
    for _ in range(6):
        spenders.wait_for_spending()
        time.sleep(draw.random() * 0.01)  # somewhere in the middle of its work
        spenders.replace(draw.randrange(4))
    spenders.finish()
    assert spenders.killed, "some were killed while they spent"
    assert spenders.billed <= spent(url) <= LIMIT
    # Lost is at most what the killed ones had put aside: five questions each.
    assert spent(url) - spenders.billed <= spenders.killed * 5 * MOST


def test_a_crash_of_the_server_takes_no_reservation_back(
    own_server: PostgresqlServer, tmp_path: Path
) -> None:
    """Twice in the middle of spending; those that are called meanwhile are refused for now."""
    url = own_server.new_database("own")
    spenders = Spenders(url, tmp_path / "bill")
    for _ in range(2):
        spenders.wait_for_spending()
        own_server.crash()
        own_server.start()
    spenders.finish()
    assert spenders.billed <= spent(url) <= LIMIT


class LosingSession(Session):
    """Loses the connection right behind the first reservation, before the word of it is out."""

    def __init__(self, url: str) -> None:
        super().__init__(Address(url), settings("scouter"), tables=BESIDE)
        self.has_lost = False

    def run(self, work: Callable[[Session], T]) -> T:
        def work_and_lose(session: Session) -> T:
            found = work(session)
            if not self.has_lost and isinstance(found, Reserved):
                self.has_lost = True
                session.read("SELECT pg_terminate_backend(pg_backend_pid())")
            return found

        return super().run(work_and_lose)


def test_a_reservation_is_made_once_where_the_word_of_it_is_lost(url: str) -> None:
    """Done again on a new connection, it finds what it did."""
    session = LosingSession(url)
    ledger = PostgresqlLedger(session)
    assert asyncio.run(ledger.spent_nano_usd("a", DAY)) == 0  # there is a connection to lose
    found = asyncio.run(ledger.reserve([account("a")], 60))
    assert session.has_lost
    assert isinstance(found, Reserved)
    assert asyncio.run(ledger.spent_nano_usd("a", DAY)) == 60
    asyncio.run(ledger.settle(found, 10))
    assert asyncio.run(ledger.spent_nano_usd("a", DAY)) == 10
    ledger.close()


def test_nothing_is_put_aside_without_the_server(own_server: PostgresqlServer) -> None:
    url = own_server.new_database("own")
    own_server.crash()
    ledger = PostgresqlLedger(open_beside(url))
    with pytest.raises(LedgerError, match=r"the ledger cannot be used: PostgreSQL at /tmp"):
        asyncio.run(ledger.reserve([account("a")], 1))
    ledger.close()
    own_server.start()
    assert isinstance(asyncio.run(ledger.reserve([account("a")], 1)), Reserved)
    ledger.close()


def test_old_days_are_forgotten(url: str) -> None:
    session = open_beside(url)
    ledger = PostgresqlLedger(session)
    for day in ("2026-01-01", "2026-11-22", DAY):
        found = asyncio.run(ledger.reserve([account("a", day=day)], 10))
        assert isinstance(found, Reserved)
    for table in ("budget_accounts", "budget_reservations"):
        rows = session.read(f"SELECT day FROM {table} ORDER BY day")  # noqa: S608 two names
        assert rows == [("2026-11-22",), (DAY,)]
    ledger.close()
