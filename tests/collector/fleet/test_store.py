"""The store of a fleet: opening it, and taking partitions."""

import pytest

from collector.fleet.share import FencedError
from collector.fleet.store import FleetStore, Recent
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from scouter.errors import ConfigError, TransientError
from tests.contracts.store_data import SPACE, record
from tests.support.postgresql_server import PostgresqlServer


def test_number_of_partitions_is_fixed_once(fleet: FleetStore, url: str) -> None:
    """The partition of a trace follows from it."""
    other = FleetStore(url)
    try:
        assert other.partitions == 4
        other.fix_partitions(4)
        with pytest.raises(ConfigError, match="4 partitions, and the topic 8"):
            other.fix_partitions(8)
    finally:
        other.close()


def test_new_owner_goes_on_where_the_old_one_ended(fleet: FleetStore) -> None:
    """And the old one writes nothing any more."""
    old = fleet.take(1, "old", "topic")
    old.commit(Commit(offset=7, low_seq=1))
    new = fleet.take(1, "new", "topic")

    assert (new.offset, new.epoch) == (7, old.epoch + 1)
    with pytest.raises(FencedError, match="belongs to new now"):
        old.commit(Commit(offset=9, low_seq=1))
    third = fleet.take(1, "third", "topic")
    assert third.offset == 7
    for each in (old, new, third):
        each.close()


def test_topic_made_anew_is_refused(fleet: FleetStore) -> None:
    """Its offsets mean other messages."""
    fleet.take(1, "old", "topic").close()

    with pytest.raises(ConfigError, match="id topic, and this one has the id another"):
        fleet.take(1, "new", "another")


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ("postgresql://me:secret@[::1", ConfigError),
        ("postgresql://me:secret@127.0.0.1:1/none", TransientError),
    ],
)
def test_password_is_in_no_text(bad: str, kind: type[Exception]) -> None:
    """Neither of an address that nobody can read, nor of one where nobody answers."""
    with pytest.raises(kind) as found:
        FleetStore(bad)
    assert "secret" not in str(found.value)


def test_a_server_that_refuses_differs_from_one_that_is_away(
    own_server: PostgresqlServer,
) -> None:
    """Waiting helps only where it is away, or has no room for one more connection."""
    url = own_server.new_database("own")
    FleetStore(url).close()
    with pytest.raises(ConfigError, match=r'database "none" does not exist.*check user, password'):
        FleetStore(url.replace("dbname=own", "dbname=none"))
    with own_server.connect() as admin:
        admin.execute("CREATE ROLE shut LOGIN")
        admin.execute("REVOKE CONNECT ON DATABASE own FROM public")
        with pytest.raises(ConfigError, match="permission denied"):
            FleetStore(f"{url} user=shut")
        admin.execute("ALTER ROLE shut CONNECTION LIMIT 0")
        admin.execute("GRANT CONNECT ON DATABASE own TO public")
        with pytest.raises(TransientError, match="too many connections for role"):
            FleetStore(f"{url} user=shut")
        admin.execute("ALTER ROLE shut CONNECTION LIMIT -1")
        with pytest.raises(ConfigError, match="GRANT CREATE"):
            FleetStore(f"{url} user=shut")
    own_server.crash()
    with pytest.raises(TransientError, match="is away"):
        FleetStore(url)
    own_server.start()
    FleetStore(url).close()


def test_an_erasure_leaves_no_note_of_bytes_that_nobody_takes_out(fleet: FleetStore) -> None:
    """PostgreSQL writes over them by itself."""
    share = fleet.take(0, "me")
    share.commit(Commit(records=[record("u1")]))
    assert fleet.erase(EraseTarget(space=SPACE, record_uid="u1")).uids == {"u1"}
    tables = fleet.read("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert ("erased",) in tables
    assert ("erasures",) not in tables
    share.close()


def test_a_value_that_took_long_is_used_for_thirty_times_as_long() -> None:
    """By a hand clock: 0.1 s is quick, 2 s is slow and holds for a minute."""
    now, costs, made = 0.0, iter([0.1, 2.0, 2.0]), 0

    def make(name: str) -> str:
        nonlocal now, made
        now, made = now + next(costs), made + 1
        return f"{name}{made}"

    recent = Recent(make, lambda: now)
    assert [recent.get("a"), recent.get("a")] == ["a1", "a2"]
    now += 59.9
    assert recent.get("a") == "a2"
    now += 0.1
    assert recent.get("a") == "a3"
