"""Ledgers, in a file that other processes use as well and in memory."""

import asyncio
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scouter.agent.ledger import LedgerError, Reserved, SqliteLedger, usual_ledger_file
from tests.contracts.ledger import DAY, LedgerContract, Make, account
from tests.support.processes import wait_until


class TestSqliteLedger(LedgerContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Make]:
        made: list[SqliteLedger] = []

        def make() -> SqliteLedger:
            if not made:
                made.append(SqliteLedger(tmp_path / "l.db"))
            return made[0]

        yield make
        for ledger in made:
            ledger.close()


WORKER = '''
"""Spends until nothing is left. The bill is what the provider wrote down."""
import asyncio, os, random, sys
from scouter.agent.ledger import Account, Refused
from scouter.agent.ledger import SqliteLedger

path, bill, seed = sys.argv[1:]
draw = random.Random(seed)
account = Account(name="all", day="2026-11-23", limit_nano_usd=30_000)
bills = os.open(bill, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
ledger = SqliteLedger(path)

async def one():
    while True:
        most = draw.randrange(1, 40)
        found = await ledger.reserve([account], most)
        if isinstance(found, Refused):
            return
        cost = draw.randrange(0, most + 1)
        os.write(bills, b"%d\\n" % cost)  # called: from here on it is to be paid for
        await asyncio.sleep(0.001)
        await ledger.settle(found, cost)

async def main():
    await asyncio.gather(*(one() for _ in range(5)))
    ledger.close()

asyncio.run(main())
'''


def start(folder: Path, seed: int) -> "subprocess.Popen[str]":
    paths = [str(folder / "l.db"), str(folder / "bill")]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *paths, str(seed)], stderr=subprocess.PIPE, text=True
    )


def is_larger(file: Path, size: int) -> bool:
    return file.exists() and file.stat().st_size > size + 100


def billed(folder: Path) -> int:
    return sum(map(int, (folder / "bill").read_text().split()))


def spent(folder: Path) -> int:
    ledger = SqliteLedger(folder / "l.db")
    try:
        return asyncio.run(ledger.spent_nano_usd("all", DAY))
    finally:
        ledger.close()


def test_processes_share_a_budget(tmp_path: Path) -> None:
    """Without crashes the ledger's sum is the bill, to the last billionth."""
    workers = [start(tmp_path, seed) for seed in range(3)]
    said = [worker.communicate(timeout=120)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 3, said
    assert spent(tmp_path) == billed(tmp_path)
    # Nobody stops before what he wants next, at most 39, no longer fits beside what the others
    # have put aside: 14 askers at most.
    assert 30_000 - 15 * 39 <= billed(tmp_path) <= 30_000


def test_processes_that_are_killed_never_overspend(tmp_path: Path) -> None:
    """A crash loop: killed at any moment and started again, until the budget is spent."""
    draw = random.Random(7)
    workers = [start(tmp_path, seed) for seed in range(3)]
    killed = 0
    for seed in range(3, 11):
        before = (tmp_path / "bill").stat().st_size if seed > 3 else 0
        wait_until(
            lambda before=before: is_larger(tmp_path / "bill", before) or None, what="spending"
        )
        time.sleep(draw.random() * 0.01)  # somewhere in the middle of its work
        worker = workers.pop(draw.randrange(3))
        killed += worker.poll() is None
        worker.kill()
        worker.communicate()
        workers.append(start(tmp_path, seed))
    said = [worker.communicate(timeout=120)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 3, said
    assert killed >= 3, "some were killed while they spent"
    assert billed(tmp_path) <= spent(tmp_path) <= 30_000
    # Lost is at most what the killed ones had put aside: five questions each, of at most 39.
    assert spent(tmp_path) - billed(tmp_path) <= killed * 5 * 39
    assert (tmp_path / "l.db").stat().st_mode & 0o777 == 0o600


def test_a_copy_is_what_the_file_was(tmp_path: Path) -> None:
    """Also of what is only in the log beside the file; nothing is overwritten."""
    ledger = SqliteLedger(tmp_path / "l.db")
    asyncio.run(ledger.reserve([account("all")], 7))
    ledger.copy_to(tmp_path / "copy.db")
    asyncio.run(ledger.reserve([account("all")], 1))
    copy = SqliteLedger(tmp_path / "copy.db")
    assert asyncio.run(copy.spent_nano_usd("all", DAY)) == 7
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    copy.close()
    with pytest.raises(LedgerError, match="cannot be copied"):
        ledger.copy_to(tmp_path / "copy.db")
    ledger.close()


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_text("no database " * 100)
    ledger = SqliteLedger(tmp_path / "l.db")
    with pytest.raises(LedgerError, match=r"l\.db cannot be used"):
        asyncio.run(ledger.reserve([account("a")], 1))
    ledger.close()


def test_old_days_are_forgotten(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.db")

    async def run() -> None:
        for day in ("2026-01-01", "2026-11-22", DAY):
            found = await ledger.reserve([account("a", day=day)], 10)
            assert isinstance(found, Reserved)

    asyncio.run(run())
    ledger.close()
    with sqlite3.connect(tmp_path / "l.db") as db:
        found = [
            db.execute(f"SELECT day FROM {table} ORDER BY day").fetchall()  # noqa: S608 — two names
            for table in ("account", "reservation")
        ]
    db.close()
    assert found == [[("2026-11-22",), (DAY,)]] * 2


def test_where_it_is() -> None:
    assert usual_ledger_file({"XDG_STATE_HOME": "/x"}) == Path("/x/scouter/budget.db")
    assert usual_ledger_file({}) == Path.home() / ".local/state/scouter/budget.db"


class TestLedgerInMemory(LedgerContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self) -> Make:
        return lambda: SqliteLedger(":memory:")
