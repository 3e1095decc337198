"""The uids that stand for a profile's name."""

from pathlib import Path

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.profile_uids import ProfileUids


def put(database: Database, seq: int, alias: str, name: str, uid: str, digest: str) -> None:
    """Store an evaluation of a profile in a commit."""
    database.connection().execute(
        "INSERT INTO evaluations (seq, alias, profile_name, profile_uid, profile_digest)"
        " VALUES (?, ?, ?, ?, ?)",
        [seq, alias, name, uid, digest],
    )


def test_a_name_stands_for_the_uids_that_bear_it_alone(tmp_path: Path) -> None:
    """Two versions of `shop`; a uid that two aliases share stands for neither of them."""
    database = Database(tmp_path, 128 * 10**6)
    uids = ProfileUids(database.read)
    assert uids.of("shop") == []
    put(database, 1, "shop", "The shop", "u1", "d1")
    put(database, 1, "bank", "The bank", "u2", "d2")
    put(database, 2, "shop", "The shop", "u3", "d3")
    assert uids.of("shop") == uids.of("The shop") == ["u1", "u3"]
    assert [uids.of(name) for name in ("u1", "d3", "bank", "nobody")] == [
        ["u1"], ["u3"], ["u2"], [],
    ]  # fmt: skip
    put(database, 3, "old", "The shop", "u3", "d3")
    assert uids.of("shop") is None, "u3 has evaluations of another alias"
    assert uids.of("The shop") == ["u1", "u3"]
    database.abandon()


def test_many_uids_are_no_help(tmp_path: Path) -> None:
    database = Database(tmp_path, 128 * 10**6)
    for number in range(101):
        put(database, 1, "shop" if number else "bank", "all", f"u{number:03}", f"d{number}")
    uids = ProfileUids(database.read)
    assert uids.of("all") is None
    assert uids.of("shop") == [f"u{number:03}" for number in range(1, 101)]
    database.abandon()
