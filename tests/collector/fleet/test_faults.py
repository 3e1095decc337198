"""The store of a fleet while processes stand still, connections break and PostgreSQL goes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import psycopg
import pytest

from collector.fleet import writing
from collector.fleet.schema import DAY_NS
from collector.fleet.share import Share
from collector.fleet.store import FleetStore
from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit
from collector.store.reads import Connection
from scouter.errors import TransientError
from tests.collector.fleet.store_support import frozen, rows
from tests.contracts.store_data import SPACE, record, span
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

RECEIVED: Final = TotalKey(TotalName.RECORDS_RECEIVED, SPACE, "answers", "answers")
OWNER: Final = """
import sys
from collector.fleet.store import FleetStore
from collector.store.commit import Commit

store = FleetStore(sys.argv[1], idle_s=1.0)
share = store.take(0, "frozen")

def stand(connection):
    print("inside", flush=True)
    sys.stdin.readline()

for attempt in (
    lambda: share.write({"begun": [("default", "u1")]}, [stand]),
    lambda: share.commit(Commit(offset=9)),
):
    try:
        attempt()
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def test_an_owner_that_is_frozen_inside_a_transaction_loses_it(fleet: FleetStore, url: str) -> None:
    """After the second that it has; thawed, it writes nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "inside\n"
        os.kill(process.pid, signal.SIGSTOP)
        share = fleet.take(0, "new")
        share.commit(Commit(offset=3, records=[record()]))
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate("\n", timeout=120)
    assert said.split() == ["TransientError", "FencedError"]
    assert fleet.read("SELECT count(*) FROM begun") == [(0,)]
    assert (share.offset, share.epoch) == (3, 2)
    assert fleet.last_seq() == share.last_seq()
    share.close()


# --- PostgreSQL ends -----------------------------------------------------------------------------


@pytest.fixture
def own_url(own_server: PostgresqlServer) -> str:
    return own_server.new_database("own")


@pytest.fixture
def own(own_url: str) -> Iterator[FleetStore]:
    """The store on a server of this test alone."""
    store = FleetStore(own_url)
    store.fix_partitions(1)
    yield store
    store.close()


@pytest.fixture
def share(own: FleetStore) -> Iterator[Share]:
    share = own.take(0, "me")
    yield share
    share.close()


def test_the_store_goes_on_by_itself_once_postgresql_is_back(
    own_server: PostgresqlServer, own: FleetStore, own_url: str, share: Share
) -> None:
    """What was under way is not stored, and is tried again; nothing else has to be done."""
    first = share.commit(rows(SPACE, [span(1)], [record("u1")], offset=1, low_seq=1))
    assert own.totals()[RECEIVED] == 1
    again = rows(SPACE, [span(2)], [record("u2")], offset=2, low_seq=1)
    with frozen(share) as done:
        own_server.crash()
    with pytest.raises(TransientError, match="takes or gives nothing now"):
        done.result(120)
    for attempt in (
        lambda: share.commit(again),
        lambda: own.read("SELECT 1"),
        lambda: own.last_seq(),
        lambda: own.take(0, "another"),
        lambda: share.undecided(1),
        lambda: own.add_up(),
    ):
        with pytest.raises(TransientError):
            attempt()
    assert "this goes on by itself" in share.fault()
    assert (share.offset, share.is_broken) == (1, False)
    with pytest.raises(TransientError, match="is away"):
        FleetStore(own_url)

    own_server.start()
    assert share.commit(again) > first
    assert (share.offset, share.fault()) == (2, "")
    assert [row.uid for row in share.undecided(1)] == ["u1", "u2"]
    assert own.conservation(SPACE).spans.stored == 2
    assert own.totals()[RECEIVED] == 2


@contextmanager
def nobody_confirms(
    server: PostgresqlServer, share: Share, rows: Commit
) -> Generator["Future[int]"]:
    """Have a commit stored whose writer waits for a word of it that never comes."""
    share.whole.need_days({each.received_ns // DAY_NS for each in rows.spans})
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    is_over = threading.Event()
    with server.connect() as admin, ThreadPoolExecutor(2) as pool:

        def wait_for(count: int) -> None:
            wait_until(
                lambda: admin.execute(waits).fetchone() == (count,), what=f"{count} commits wait"
            )

        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        admin.execute("SELECT pg_reload_conf()")
        pool.submit(_commit_until_one_waits, server, is_over)
        wait_for(1)
        done = pool.submit(share.commit, rows)
        wait_for(2)
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
        try:
            yield done
        finally:
            is_over.set()


def _commit_until_one_waits(server: PostgresqlServer, is_over: threading.Event) -> None:
    """Commit until one waits, as the process that has commits wait learns of it last of all."""
    with suppress(psycopg.OperationalError), server.connect() as connection:
        while not is_over.is_set():
            connection.execute("SELECT pg_logical_emit_message(true, 'a commit', '')")


def test_a_commit_that_lost_its_answer_is_found_stored(
    own_server: PostgresqlServer, own: FleetStore, share: Share
) -> None:
    """Its connection was ended between the commit and the word of it."""
    sent = rows(SPACE, [span(1)], [record()], offset=4, low_seq=1)
    with nobody_confirms(own_server, share, sent) as done, own_server.connect() as admin:
        admin.execute("SELECT pg_reload_conf()")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        )
        assert done.result(120) == share.last_seq() == own.last_seq()
    assert (share.offset, own.totals()[RECEIVED]) == (4, 1)


@pytest.mark.parametrize("is_short", [True, False])
def test_a_commit_that_postgresql_ended_with_is_stored_once(
    own_server: PostgresqlServer,
    own: FleetStore,
    share: Share,
    monkeypatch: pytest.MonkeyPatch,
    is_short: bool,
) -> None:
    """Whether it is back at once, or only after the commit was given up and is tried again."""
    if not is_short:
        monkeypatch.setattr(writing, "_UNKNOWN_S", 0.0)
    sent = rows(SPACE, [span(1)], [record()], offset=4, low_seq=1)
    with nobody_confirms(own_server, share, sent) as done:
        own_server.crash()
        if is_short:
            own_server.start()
            seq = done.result(120)
        else:
            with pytest.raises(TransientError):
                done.result(120)
            assert share.offset == 0
            own_server.start()
            seq = share.commit(sent)
    assert seq == share.last_seq() <= own.last_seq()
    assert (share.offset, own.totals()[RECEIVED]) == (4, 1)
    assert own.conservation(SPACE).spans.stored == 1
    assert share.commit(Commit(offset=5)) > seq


def run(sql: str, connection: Connection) -> None:
    connection.execute(sql, [])


def test_a_commit_that_ended_without_an_answer_and_is_not_stored_is_tried_again(
    own: FleetStore, share: Share
) -> None:
    """Its connection breaks while PostgreSQL looks for the last time whether all holds."""
    statements = (
        "CREATE FUNCTION fall() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER fall AFTER INSERT ON records"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fall()",
    )
    own.write({}, [partial(run, sql) for sql in statements])
    sent = rows(SPACE, [span(1)], [record()], offset=4, low_seq=1)
    with pytest.raises(TransientError):
        share.commit(sent)
    assert (share.offset, own.conservation(SPACE).spans.stored) == (0, 0)
    own.write({}, [partial(run, "DROP FUNCTION fall CASCADE")])
    share.commit(sent)
    assert (share.offset, own.totals()[RECEIVED]) == (4, 1)
