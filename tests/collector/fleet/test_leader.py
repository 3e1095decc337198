"""One process at a time has the duties; who loses them ends."""

import threading

from collector.fleet.leader import Leader
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until


def holders(server: PostgresqlServer) -> list[tuple[object, ...]]:
    """Process ids of the sessions that hold the lock."""
    with server.connect() as connection:
        sql = b"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
        return connection.execute(sql).fetchall()


def test_duties_go_to_another_one_once_the_first_ends(own_server: PostgresqlServer) -> None:
    """Of two, one begins; the other one does so after it has ended."""
    url = own_server.new_database("leader")
    begun = threading.Semaphore(0)
    first, second = Leader(url, begun.release), Leader(url, begun.release)
    first.start()
    wait_until(lambda: first.has_duties, what="the first has the duties")
    second.start()
    assert begun.acquire(timeout=120)
    assert (second.has_duties, second.has_lost) == (False, False)
    first.stop()
    wait_until(lambda: second.has_duties, what="the second has the duties")
    assert begun.acquire(timeout=120)
    second.stop()
    wait_until(lambda: not holders(own_server), what="nobody has the lock")
    assert not first.has_lost
    assert not second.has_lost


def test_who_loses_the_lock_is_to_end(own_server: PostgresqlServer) -> None:
    """As somebody else may have the duties; one that only waits goes on waiting."""
    url = own_server.new_database("leader")
    first, second = Leader(url, lambda: None), Leader(url, lambda: None)
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
    first.stop()
    second.stop()


def test_duties_that_cannot_be_begun_are_let_go(own_server: PostgresqlServer) -> None:
    """Whatever it is: another process may do better."""

    def fail() -> None:
        raise ValueError("broken")

    first = Leader(own_server.new_database("leader"), fail)
    first.start()
    wait_until(lambda: first.has_lost, what="the first gives up")
    first.stop()
    wait_until(lambda: not holders(own_server), what="nobody has the lock")
