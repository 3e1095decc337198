"""The connection of the small parts: made anew after a loss, and silent about the password."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from collector.fleet.connection import Connection, Link, Tables
from scouter.errors import ConfigError, DataError, TransientError
from tests.contracts.tokens import Clock
from tests.support.postgresql_server import PostgresqlServer

TABLES = Tables(
    name="numbers",
    statements=(
        "CREATE TABLE numbers (number BIGINT)",
        "INSERT INTO numbers SELECT 7 FROM pg_sleep(0.05)",
    ),
)


@pytest.fixture
def link(url: str) -> Iterator[Link]:
    made = Link(url)
    yield made
    made.close()


def one(connection: Connection) -> object:
    found = connection.execute("SELECT 1").fetchone()
    return None if found is None else found[0]


def test_tables_are_made_once_by_many_at_a_time(url: str) -> None:
    links = [Link(url) for _ in range(6)]
    found: list[object] = []

    def work(link: Link) -> None:
        sql = "SELECT number FROM numbers"
        found.append(link.run(lambda each: each.execute(sql).fetchall(), TABLES))

    threads = [threading.Thread(target=work, args=(each,)) for each in links]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in links:
        each.close()
    assert found == [[(7,)]] * 6


def test_who_may_make_no_tables_uses_those_of_others(
    postgresql_server: PostgresqlServer, url: str, link: Link
) -> None:
    link.run(one, TABLES)
    with postgresql_server.connect() as connection:
        name = url.rpartition("=")[2]
        connection.execute(f"CREATE ROLE {name}_reader LOGIN".encode())
    link.run(lambda each: each.execute(f"GRANT SELECT ON numbers TO {name}_reader".encode()))
    reader = Link(url.replace("user=postgres", f"user={name}_reader"))
    assert reader.run(lambda each: each.execute("SELECT * FROM numbers").fetchall(), TABLES) == [
        (7,)
    ]
    with pytest.raises(TransientError, match="permission denied for schema public"):
        reader.run(one, Tables(name="others", statements=("CREATE TABLE others (n BIGINT)",)))
    assert reader.run(one) == 1
    reader.close()


def test_a_server_that_was_started_again_is_not_noticed(own_server: PostgresqlServer) -> None:
    link = Link(own_server.new_database("own"))
    assert link.run(one) == 1
    own_server.crash()
    own_server.start()
    assert link.run(one) == 1
    link.close()


def test_a_session_that_was_ended_is_begun_anew(
    postgresql_server: PostgresqlServer, link: Link
) -> None:
    pid = link.run(lambda each: each.info.backend_pid)
    with postgresql_server.connect() as connection:
        connection.execute("SELECT pg_terminate_backend($1, 10000)", (pid,))
    assert link.run(one) == 1
    assert link.run(lambda each: each.info.backend_pid) != pid


def test_a_server_that_takes_no_writes_any_more_is_looked_for_anew(
    postgresql_server: PostgresqlServer, url: str, link: Link
) -> None:
    """As where another one has its place, and the address leads to that one."""
    link.run(one, TABLES)
    pid = link.run(lambda each: each.info.backend_pid)
    link.run(lambda each: each.execute("SET default_transaction_read_only = on"))
    link.run(lambda each: each.execute("INSERT INTO numbers VALUES (8)"))
    assert link.run(lambda each: each.info.backend_pid) != pid


def test_who_stands_still_in_a_transaction_loses_it(link: Link) -> None:
    """What it did is undone, and done again on a new connection."""
    link.run(one, TABLES)
    link.run(lambda each: each.execute("SET idle_in_transaction_session_timeout = '50ms'"))
    stood: list[int] = []

    def work(connection: Connection) -> None:
        with connection.transaction():
            connection.execute("INSERT INTO numbers VALUES (8)")
            if not stood:
                stood.append(connection.info.backend_pid)
                threading.Event().wait(0.5)
            connection.execute("INSERT INTO numbers VALUES (9)")

    link.run(work)
    rows = link.run(lambda each: each.execute("SELECT * FROM numbers ORDER BY 1").fetchall())
    assert rows == [(7,), (8,), (9,)]
    assert stood != [link.run(lambda each: each.info.backend_pid)]


def test_a_server_that_is_away_is_looked_for_twice_a_second(own_server: PostgresqlServer) -> None:
    """In between all fail at once, with the reason of the last attempt."""
    clock = Clock()
    link = Link(own_server.new_database("own"), clock=clock)
    own_server.crash()
    with pytest.raises(TransientError) as first:
        link.run(one)
    own_server.start()
    clock.now += 0.4
    with pytest.raises(TransientError) as second:
        link.run(one)
    assert str(first.value) == str(second.value)
    clock.now += 0.2
    assert link.run(one) == 1
    link.close()


def test_a_server_that_is_frozen_counts_as_lost(url: str) -> None:
    """Its machine acknowledges all that is sent, and no answer comes."""
    link = Link(url, patience_s=0.4)
    pid = link.run(lambda each: each.info.backend_pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert link.run(one) == 1
        assert link.run(lambda each: each.info.backend_pid) != pid
    finally:
        os.kill(pid, signal.SIGCONT)
    link.close()


def test_what_is_wrong_with_a_statement_costs_no_connection(link: Link) -> None:
    pid = link.run(lambda each: each.info.backend_pid)
    with pytest.raises(DataError, match="out of range"):
        link.run(lambda each: each.execute("SELECT 9223372036854775807 + $1", (1,)))
    with pytest.raises(DataError, match="NUL"):
        link.run(lambda each: each.execute("SELECT $1::text", ("\0",)))
    with pytest.raises(TransientError, match="no_such"):
        link.run(lambda each: each.execute("SELECT * FROM no_such"))
    assert link.run(lambda each: each.info.backend_pid) == pid


def test_a_closed_one_opens_again(link: Link) -> None:
    assert link.submit(one).result() == 1
    link.close()
    assert link.submit(one).result() == 1


def test_a_password_is_in_no_text() -> None:
    for url, password in (
        ("postgresql://me:hunter2@127.0.0.1:1/none", None),
        ("postgresql://me@127.0.0.1:1/none", "hunter2"),
    ):
        link = Link(url, password)
        with pytest.raises(TransientError, match=r"PostgreSQL at 127\.0\.0\.1:1/none: ") as found:
            link.run(one)
        assert "hunter2" not in f"{found.value} {link!r} {link.where}"
    for bad in ("postgresql://me:hunter2@[::1", "postgresql:/me:hunter2@host", "hunter2"):
        with pytest.raises(ConfigError, match="postgresql: expected") as refused:
            Link(bad)
        assert "hunter2" not in str(refused.value)
