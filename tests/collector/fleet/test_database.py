"""A session with PostgreSQL: made anew after a loss, and silent about the password."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from collector.fleet.database import Address, Session, open_beside, settings
from scouter.errors import ConfigError, DataError, TransientError
from tests.contracts.tokens import Clock
from tests.support.postgresql_server import PostgresqlServer

TABLES = (
    "CREATE TABLE numbers (number BIGINT)",
    "INSERT INTO numbers SELECT 7 FROM pg_sleep(0.05)",
)


def with_tables(url: str, tables: Sequence[str] = TABLES) -> Session:
    return Session(Address(url), settings("scouter", statement_s=30.0), tables=tables)


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    made = with_tables(url)
    yield made
    made.close()


def one(session: Session) -> object:
    return session.read("SELECT 1")[0][0]


def pid_of(session: Session) -> int:
    return session.read("SELECT pg_backend_pid()")[0][0]


def test_tables_are_made_once_by_many_at_a_time(url: str) -> None:
    sessions = [with_tables(url) for _ in range(6)]
    found: list[object] = []

    def work(session: Session) -> None:
        sql = "SELECT number FROM numbers"
        found.append(session.run(lambda each: each.read(sql)))

    threads = [threading.Thread(target=work, args=(each,)) for each in sessions]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in sessions:
        each.close()
    assert found == [[(7,)]] * 6


def test_who_may_make_no_tables_uses_those_of_others(
    postgresql_server: PostgresqlServer, url: str, session: Session
) -> None:
    session.run(one)
    with postgresql_server.connect() as connection:
        name = url.rpartition("=")[2]
        connection.execute(f"CREATE ROLE {name}_reader LOGIN".encode())
    session.read(f"GRANT SELECT ON numbers TO {name}_reader")
    as_reader = url.replace("user=postgres", f"user={name}_reader")
    reader = with_tables(as_reader)
    assert reader.run(lambda each: each.read("SELECT * FROM numbers")) == [(7,)]
    reader.close()
    other = with_tables(as_reader, ["CREATE TABLE others (n BIGINT)"])
    with pytest.raises(TransientError, match="permission denied for schema public"):
        other.run(one)
    assert other.read("SELECT 1") == [(1,)]
    other.close()


def test_a_server_that_was_started_again_is_not_noticed(own_server: PostgresqlServer) -> None:
    session = open_beside(own_server.new_database("own"))
    assert session.run(one) == 1
    own_server.crash()
    own_server.start()
    assert session.run(one) == 1
    session.close()


def test_a_session_that_was_ended_is_started_anew(
    postgresql_server: PostgresqlServer, session: Session
) -> None:
    pid = session.run(pid_of)
    with postgresql_server.connect() as connection:
        connection.execute("SELECT pg_terminate_backend($1, 10000)", (pid,))
    assert session.run(one) == 1
    assert session.run(pid_of) != pid


def test_a_server_that_takes_no_writes_any_more_is_looked_for_anew(
    postgresql_server: PostgresqlServer, url: str, session: Session
) -> None:
    """As where another one has its place, and the address leads to that one."""
    session.run(one)
    pid = session.run(pid_of)
    session.read("SET default_transaction_read_only = on")
    session.read("INSERT INTO numbers VALUES (8)")
    assert session.run(pid_of) != pid


def test_who_stands_still_in_a_transaction_loses_it(session: Session) -> None:
    """What it did is undone, and done again on a new connection."""
    session.run(one)
    session.read("SET idle_in_transaction_session_timeout = '50ms'")
    stood: list[int] = []

    def work(session: Session) -> None:
        with session.transaction():
            session.read("INSERT INTO numbers VALUES (8)")
            if not stood:
                stood.append(pid_of(session))
                threading.Event().wait(0.5)
            session.read("INSERT INTO numbers VALUES (9)")

    session.run(work)
    rows = session.read("SELECT * FROM numbers ORDER BY 1")
    assert rows == [(7,), (8,), (9,)]
    assert stood != [session.run(pid_of)]


def test_a_server_that_is_away_is_looked_for_twice_a_second(own_server: PostgresqlServer) -> None:
    """In between all fail at once, with the reason of the last attempt."""
    clock = Clock()
    session = open_beside(own_server.new_database("own"), clock=clock)
    own_server.crash()
    with pytest.raises(TransientError) as first:
        session.run(one)
    own_server.start()
    clock.now += 0.4
    with pytest.raises(TransientError) as second:
        session.run(one)
    assert str(first.value) == str(second.value)
    clock.now += 0.2
    assert session.run(one) == 1
    session.close()


def test_a_server_that_is_frozen_counts_as_lost(url: str) -> None:
    """Its machine acknowledges all that is sent, and no answer comes."""
    session = Session(Address(url), settings("test", statement_s=0.2), answer_s=0.2)
    pid = session.run(pid_of)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert session.run(one) == 1
        assert session.run(pid_of) != pid
    finally:
        os.kill(pid, signal.SIGCONT)
    session.close()


def test_what_is_wrong_with_a_statement_costs_no_connection(session: Session) -> None:
    pid = session.run(pid_of)
    with pytest.raises(DataError, match="out of range"):
        session.read("SELECT 9223372036854775807 + $1", [1])
    with pytest.raises(DataError, match="surrogates"):
        session.read("SELECT $1::text", ["\ud800"])
    with pytest.raises(TransientError, match="no_such"):
        session.read("SELECT * FROM no_such")
    assert session.run(pid_of) == pid


def test_a_dropped_one_opens_again_and_a_closed_one_never(session: Session) -> None:
    assert session.submit(one).result() == 1
    session.drop()
    assert session.submit(one).result() == 1
    session.close()
    with pytest.raises(TransientError, match="closed"):
        session.submit(one).result()


def test_a_password_is_in_no_text() -> None:
    for url, password in (
        ("postgresql://me:hunter2@127.0.0.1:1/none", None),
        ("postgresql://me@127.0.0.1:1/none", "hunter2"),
    ):
        session = open_beside(url, password)
        with pytest.raises(TransientError, match=r"PostgreSQL at 127\.0\.0\.1:1/none ") as found:
            session.run(one)
        assert "hunter2" not in f"{found.value} {session.address}"
    for bad in ("postgresql://me:hunter2@[::1", "postgresql:/me:hunter2@host", "hunter2"):
        with pytest.raises(ConfigError, match="postgresql: expected") as refused:
            open_beside(bad)
        assert "hunter2" not in str(refused.value)
