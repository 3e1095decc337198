"""A small SQLite file: what waits for its thread at the same time shares a transaction."""

import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from scouter.transport.sqlite_file import SqliteFile

_FULL, _NORMAL = 2, 1
"""Values of `PRAGMA synchronous`: synced with every commit, or not."""


@pytest.fixture
def file(tmp_path: Path) -> Generator[SqliteFile]:
    made = SqliteFile(
        tmp_path / "a.db",
        application_id=7,
        schema=("CREATE TABLE line (word TEXT)",),
        wait_s=5.0,
    )
    yield made
    made.close()


@contextmanager
def busy(file: SqliteFile) -> Generator[None]:
    """Keep the file's thread busy meanwhile."""
    started, gate = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        started.set()
        assert gate.wait(120)

    waiting = file.run(wait)
    assert started.wait(120)
    try:
        yield
    finally:
        gate.set()
        waiting.result(120)


def writes(word: str) -> Callable[[sqlite3.Connection], str]:
    def work(db: sqlite3.Connection) -> str:
        db.execute("INSERT INTO line VALUES (?)", (word,))
        return word

    return work


def words(db: sqlite3.Connection) -> list[str]:
    return [word for (word,) in db.execute("SELECT word FROM line ORDER BY rowid")]


def seen_from_outside(file: SqliteFile) -> list[str]:
    with closing(sqlite3.connect(file.path)) as db:
        return words(db)


def test_calls_that_wait_share_a_transaction(file: SqliteFile) -> None:
    """Within the last of them nothing of the others is committed, and none of them answered."""
    made: list[Future[str]] = []

    def look(_: sqlite3.Connection) -> tuple[list[str], list[bool]]:
        return seen_from_outside(file), [each.done() for each in made]

    with busy(file):
        made += [file.run(writes("a")), file.run(writes("b"))]
        looking = file.run(look)

    assert looking.result(120) == ([], [False, False])
    assert [each.result(120) for each in made] == ["a", "b"]
    assert seen_from_outside(file) == ["a", "b"]


def test_what_is_answered_is_committed(file: SqliteFile) -> None:
    with busy(file):
        made = [file.run(writes(str(at))) for at in range(50)]

    made[0].result(120)
    assert seen_from_outside(file) == [str(at) for at in range(50)]


def test_one_that_fails_is_undone_alone(file: SqliteFile) -> None:
    def fails(db: sqlite3.Connection) -> None:
        writes("lost")(db)
        raise ValueError("no")

    with busy(file):
        before, failing, after = file.run(writes("a")), file.run(fails), file.run(writes("b"))

    with pytest.raises(ValueError, match="no"):
        failing.result(120)
    assert (before.result(120), after.result(120)) == ("a", "b")
    assert seen_from_outside(file) == ["a", "b"]


def test_none_is_done_where_all_was_undone(file: SqliteFile) -> None:
    """As SQLite does where a disk is full; who was before learns that it came to nothing."""

    def fails(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk is full")

    with busy(file):
        made = [file.run(writes("a")), file.run(fails), file.run(writes("b"))]

    for each in made:
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            each.result(120)
    assert seen_from_outside(file) == []
    assert file.run(writes("c")).result(120) == "c"


def test_what_is_requested_between_keeps_its_place(file: SqliteFile) -> None:
    """A later call does not join those before a reader, or before what erases."""
    with busy(file):
        file.run(writes("a"))
        reading = file.read(words)
        file.run(writes("b"))
        erasing = file.erase(lambda db: db.execute("DELETE FROM line"))
        file.run(writes("c"))
        last = file.read(words)

    assert reading.result(120) == ["a"]
    erasing.result(120)
    assert last.result(120) == ["c"]


def test_a_call_that_is_given_up_is_not_made(file: SqliteFile) -> None:
    with busy(file):
        made = [file.run(writes(word)) for word in "abc"]
        assert made[1].cancel()

    assert (made[0].result(120), made[2].result(120)) == ("a", "c")
    with pytest.raises(CancelledError):
        made[1].result(120)
    assert seen_from_outside(file) == ["a", "c"]


@pytest.mark.parametrize("synced", [{0}, {1}, {2}, {0, 2}, set[int]()])
def test_one_that_has_to_be_synced_has_all_synced(file: SqliteFile, synced: set[int]) -> None:
    def level(db: sqlite3.Connection) -> int:
        return int(db.execute("PRAGMA synchronous").fetchone()[0])

    with busy(file):
        made = [file.run(level, is_synced=at in synced) for at in range(3)]

    assert {each.result(120) for each in made} == {_FULL if synced else _NORMAL}


def test_closing_waits_for_what_was_requested(file: SqliteFile) -> None:
    with busy(file):
        made = [file.run(writes(word)) for word in "ab"]
        closing_it = threading.Thread(target=file.close)
        closing_it.start()
    closing_it.join(120)

    assert not closing_it.is_alive()
    assert [each.done() for each in made] == [True, True]
    assert file.read(words).result(120) == ["a", "b"], "opened again"


def test_a_forked_child_loses_nothing_when_its_parent_closes_the_file(file: SqliteFile) -> None:
    """SQLite would take the parent's connection, open at the fork, for one of the child's own."""
    assert file.run(writes("parent")).result(120) == "parent"
    to_parent, to_child = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            file.run(writes("early")).result(120)
            os.write(to_parent[1], b".")
            os.read(to_child[0], 1)
            file.run(writes("late")).result(120)
        finally:
            os._exit(0)
    assert os.read(to_parent[0], 1) == b"."
    file.close()
    os.write(to_child[1], b".")
    os.waitpid(pid, 0)
    for end in (*to_parent, *to_child):
        os.close(end)

    assert seen_from_outside(file) == ["parent", "early", "late"]
