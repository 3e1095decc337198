"""The store of a fleet: opening it, and taking partitions."""

import pytest

from collector.fleet.share import FencedError
from collector.fleet.store import FleetStore
from collector.store.commit import Commit
from scouter.errors import ConfigError


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


def test_password_is_in_no_text(url: str) -> None:
    """Neither of an address that nobody can read, nor of one where nobody answers."""
    for bad in ("postgresql://me:secret@[::1", "postgresql://me:secret@127.0.0.1:1/none"):
        with pytest.raises(ConfigError) as found:
            FleetStore(bad)
        assert "secret" not in str(found.value)
