"""Caches, in a file and in memory."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from scouter.agent.cache import MAX_AGE_S, MAX_BYTES, MemoryCache, SqliteCache, usual_cache_file
from scouter.evaluate.judge.port import JudgeReply
from tests.contracts.judge_cache import Clock, JudgeCacheContract, Make, key_of, stored_in


class TestSqliteCache(JudgeCacheContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Make]:
        made: list[SqliteCache] = []

        def make(most: int, age: float, clock: Clock) -> SqliteCache:
            made.append(SqliteCache(tmp_path / "c.db", max_bytes=most, max_age_s=age, clock=clock))
            return made[-1]

        yield make
        for cache in made:
            cache.close()


def put(cache: SqliteCache, names: str) -> None:
    put_on(cache, names, "")


def put_on(cache: SqliteCache, names: str, shelf: str, text: str = "SENTINEL") -> None:
    async def run() -> None:
        for name in names:
            await cache.put(key_of(name), JudgeReply(response=f"{text} {name}"), shelf)

    asyncio.run(run())


def test_it_outlives_its_process(tmp_path: Path) -> None:
    first, second = SqliteCache(tmp_path / "c.db"), SqliteCache(tmp_path / "c.db")
    put(first, "ab")
    first.close()
    assert asyncio.run(stored_in(second, "abc")) == "ab"
    second.close()


def test_the_file_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        cache = SqliteCache(tmp_path / "new" / "folder" / "c.db")
        put(cache, "a")
        files = list((tmp_path / "new" / "folder").iterdir())
        assert len(files) > 1, "there are files beside it while it is open"
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "new" / "folder").stat().st_mode) == 0o700
        cache.close()
    finally:
        os.umask(old)


def broken(path: Path, kind: str) -> None:
    """Make a file that is no cache, in one of several ways."""
    match kind:
        case "text":
            path.write_text("this is no database, " * 500)
        case "cut":
            cache = SqliteCache(path)
            put(cache, "abcdefgh")
            cache.close()
            whole = path.read_bytes()
            path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
        case "other":
            with sqlite3.connect(path) as db:
                db.execute("CREATE TABLE photos (name TEXT)")
            db.close()
        case _:
            path.mkdir()


@pytest.mark.parametrize("kind", ["text", "cut", "other", "folder"])
def test_a_file_that_is_no_cache_is_reported_once_and_passed_over(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.db"
    broken(path, kind)
    before = path.read_bytes() if path.is_file() else b""
    cache = SqliteCache(path)
    put(cache, "ab")
    assert asyncio.run(stored_in(cache, "ab")) == ""
    put(cache, "c")
    cache.close()

    (warning,) = caplog.records
    assert str(path) in warning.getMessage()
    assert (path.read_bytes() if path.is_file() else b"") == before, "nobody else's file changes"


def test_a_locked_file_is_reported_once_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.db"
    first = SqliteCache(path)
    put(first, "a")
    first.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    cache = SqliteCache(path)
    assert asyncio.run(stored_in(cache, "a")) == "a", "who writes does not hold up who reads"
    put(cache, "bc")
    holder.execute("ROLLBACK")
    holder.close()
    assert asyncio.run(stored_in(cache, "abc")) == ""
    cache.close()
    assert len(caplog.records) == 1
    assert "locked" in caplog.records[0].getMessage()


WORK = """
import asyncio, sys
from scouter.agent.cache import SqliteCache
from scouter.evaluate.judge.port import JudgeReply
from hashlib import sha256

async def main():
    cache = SqliteCache(sys.argv[1], max_bytes=60_000)
    for at in range(150):
        key = sha256(f"{sys.argv[2]} {at}".encode()).digest()
        await cache.put(key, JudgeReply(response="x" * 500))
        await cache.get(key)
    cache.close()

asyncio.run(main())
"""


def test_several_processes_at_a_time(tmp_path: Path) -> None:
    """From the first moment on, when all of them make the file; the bound holds for all."""
    path = tmp_path / "c.db"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORK), str(path), str(at)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for at in range(4)
    ]
    said = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    assert said == [""] * 4, "nobody has given up"
    with sqlite3.connect(path) as db:
        (count, size), (total,) = (
            db.execute("SELECT count(*), sum(length(reply)) FROM answer").fetchone(),
            db.execute("SELECT bytes FROM total").fetchone(),
        )
    db.close()
    # 500 letters, quotes, brackets and the empty model: 507; and 100 for the rest of the row.
    assert count == 60_000 // 607
    assert (size, total) == (count * 507, count * 607)


def test_after_a_fork(tmp_path: Path) -> None:
    """A child has a connection and a thread of its own, and disturbs nothing of the parent's."""
    cache = SqliteCache(tmp_path / "c.db")
    put(cache, "a")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            put(cache, "b")
            code = 0 if asyncio.run(stored_in(cache, "ab")) == "ab" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(cache, "c")
    assert asyncio.run(stored_in(cache, "abc")) == "abc"
    cache.close()


def on_shelf(cache: SqliteCache, names: str, shelf: str) -> str:
    async def run() -> str:
        return "".join([name for name in names if await cache.get(key_of(name), shelf) is not None])

    return asyncio.run(run())


def test_a_cleared_shelf_leaves_no_byte(tmp_path: Path) -> None:
    """Nor does what was replaced, or made room, before it was cleared; the others stay."""
    cache = SqliteCache(tmp_path / "c.db", max_bytes=100_000)
    for _ in range(3):
        put_on(cache, "abcdefgh", "one", "a secret sentence" * 500)
    put_on(cache, "ab", "two", "stays")
    found = [file for file in tmp_path.iterdir() if b"a secret sentence" in file.read_bytes()]
    assert found, "the search finds what is there"
    cache.clear(["one", "none"]).result()
    assert [file for file in tmp_path.iterdir() if b"a secret sentence" in file.read_bytes()] == []
    assert (on_shelf(cache, "abcdefgh", "one"), on_shelf(cache, "ab", "two")) == ("", "ab")
    # Two answers of `["stays a",""]`, and 100 for the rest of each row.
    assert cache.kept().result() == (2, 2 * (14 + 100))
    cache.close()


def test_clearing_says_where_bytes_may_be_left(tmp_path: Path) -> None:
    """Another process reads: what is in the log cannot be moved away under it."""
    cache = SqliteCache(tmp_path / "c.db")
    put(cache, "a")
    reader = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM answer").fetchall()
    with pytest.raises(sqlite3.OperationalError, match=r"reading|locked"):
        cache.clear([""]).result()
    reader.close()
    cache.clear([""]).result()
    assert asyncio.run(stored_in(cache, "a")) == ""
    cache.close()


def test_what_nobody_wants_any_more_is_not_stored(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c.db")
    asyncio.run(cache.put(key_of("a"), JudgeReply(response=1), is_wanted=lambda: False))
    assert asyncio.run(stored_in(cache, "a")) == ""
    cache.close()


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/scouter/judge.db")),
        ({}, Path.home() / ".cache/scouter/judge.db"),
        ({"SCOUTER_JUDGE_CACHE": "a.db", "XDG_CACHE_HOME": "/x"}, Path("a.db")),
        ({"SCOUTER_JUDGE_CACHE": "none"}, None),
    ],
)
def test_where_it_is(environ: dict[str, str], file: Path | None) -> None:
    assert usual_cache_file(environ) == file


def test_the_bounds_are_those_of_the_page() -> None:
    assert (MAX_BYTES, MAX_AGE_S) == (256 * 2**20, 30 * 24 * 3600)


class TestMemoryCache(JudgeCacheContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self) -> Make:
        return lambda most, age, clock: MemoryCache(max_bytes=most, max_age_s=age, clock=clock)
