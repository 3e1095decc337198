"""One process at a time has the duties; who loses them ends, and writes nothing."""

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from typing import Final

import pytest

from collector.fleet.leader import Leader
from collector.fleet.store import FleetStore
from scouter.errors import TransientError
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

FROZEN: Final = """
import sys, threading
from collector.fleet.leader import Leader
from collector.fleet.store import FleetStore

store = FleetStore(sys.argv[1], idle_s=1.0)
started = threading.Event()
leader = Leader(sys.argv[1], lambda epoch: (store.have_duties(epoch), started.set()), frozen_s=5.0)

def stand(connection):
    print("inside", flush=True)
    sys.stdin.readline()

leader.start()
started.wait()
for changes in ([stand], []):
    try:
        store.write({"begun": [("default", "frozen")]}, changes)
    except Exception as error:
        print(type(error).__name__, flush=True)
while not leader.has_lost:
    threading.Event().wait(0.05)
print("lost", flush=True)
leader.close()
store.close()
"""


@pytest.fixture
def url(own_server: PostgresqlServer) -> str:
    """A database with the tables of a fleet."""
    url = own_server.new_database("leader")
    FleetStore(url).close()
    return url


def ignore(epoch: str) -> None:
    del epoch


def holders(server: PostgresqlServer) -> list[tuple[object, ...]]:
    """Process ids of the sessions that hold the lock."""
    with server.connect() as connection:
        sql = b"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
        return connection.execute(sql).fetchall()


def tries(server: PostgresqlServer) -> list[tuple[object, ...]]:
    """Process ids of the sessions that last tried to get the lock."""
    with server.connect() as connection:
        sql = b"SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_try_advisory_lock%'"
        return connection.execute(sql).fetchall()


def test_duties_go_to_another_one_once_the_first_ends(
    own_server: PostgresqlServer, url: str
) -> None:
    """Of two, one begins; the other one does so after it has ended."""
    epochs: list[str] = []
    first, second = Leader(url, epochs.append), Leader(url, epochs.append)
    first.start()
    wait_until(lambda: epochs, what="the first has the duties")
    second.start()
    wait_until(lambda: tries(own_server), what="the second has tried")
    assert (second.has_duties, second.has_lost) == (False, False)
    first.stop()
    assert holders(own_server)
    first.close()
    wait_until(lambda: len(epochs) == 2, what="the second has the duties")
    assert epochs == ["1", "2"]
    second.close()
    wait_until(lambda: not holders(own_server), what="nobody has the lock")
    assert not first.has_lost
    assert not second.has_lost


def test_who_loses_the_lock_is_to_end(own_server: PostgresqlServer, url: str) -> None:
    """As somebody else may have the duties; one that only waits goes on waiting."""
    first, second = Leader(url, ignore), Leader(url, ignore)
    first.start()
    wait_until(lambda: first.has_duties, what="the first has the duties")
    second.start()
    with own_server.connect() as connection:
        for (pid,) in holders(own_server):
            connection.execute(b"SELECT pg_terminate_backend($1)", [pid])
    wait_until(lambda: first.has_lost, what="the first has lost them")
    wait_until(lambda: second.has_duties, what="the second has the duties")
    own_server.crash()
    wait_until(lambda: second.has_lost, what="the second has lost them")
    own_server.start()
    first.close()
    second.close()


def test_duties_that_cannot_be_started_are_let_go(own_server: PostgresqlServer, url: str) -> None:
    """Whatever it is: another process may do better."""

    def fail(epoch: str) -> None:
        raise ValueError(epoch)

    first = Leader(url, fail)
    first.start()
    wait_until(lambda: first.has_lost, what="the first gives up")
    first.close()
    wait_until(lambda: not holders(own_server), what="nobody has the lock")


def test_a_frozen_process_loses_the_duties_and_writes_nothing_once_it_wakes_up(url: str) -> None:
    """Neither what it was about to commit, nor anything anew; another one goes on meanwhile."""
    store = FleetStore(url)
    started = threading.Event()

    def begin(epoch: str) -> None:
        store.have_duties(epoch)
        started.set()

    second = Leader(url, begin)
    with subprocess.Popen(
        [sys.executable, "-c", FROZEN, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        os.kill(process.pid, signal.SIGSTOP)
        second.start()
        assert started.wait(240)
        store.write({"begun": [("default", "second")]})
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate("\n", timeout=120)
    assert said.split() == ["TransientError", "TransientError", "lost"]
    assert store.read("SELECT uid FROM begun") == [("second",)]
    second.close()
    store.close()


def test_who_has_no_duties_writes_whoever_has_them(url: str) -> None:
    """People change alerts and profiles by any api; only one that had the duties is refused."""
    one, other = FleetStore(url), FleetStore(url)
    leader = Leader(url, one.have_duties)
    leader.start()
    wait_until(lambda: leader.has_duties, what="it has the duties")
    other.write({"begun": [("default", "other")]})
    leader.close()
    again = Leader(url, ignore)
    again.start()
    wait_until(lambda: again.has_duties, what="another one has them")
    for write in (partial(one.write, {"begun": [("default", "one")]}), one.add_up):
        with pytest.raises(TransientError, match="another api has the duties"):
            write()
    other.write({"begun": [("default", "other")]})
    assert one.read("SELECT uid FROM begun") == [("other",), ("other",)]
    again.close()
    for each in (one, other):
        each.close()
