"""Caches of judges' answers: in a file for all processes of a user, or in memory for a run."""

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeReply
from scouter.transport.sqlite_file import IN_MEMORY, sqlite_at

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_AGE_S: Final = 30 * 24 * 3600.0
MAX_CHARACTERS: Final = 500_000
"""Most characters of one answer, written as JSON, that a collector keeps for a client."""


class JudgeCache(Protocol):
    """Keeps answers. Called from any event loop and thread, many calls at a time.

    Neither method raises: what cannot be read is not there, and what cannot be stored is not. An
    implementation says once, in the log, that it is of no use.
    """

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up.

        Args:
            key: From `cache_key`.

        Returns:
            The answer as it was put; None where there is none, or it is too old.
        """
        ...

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer, in the place of an earlier one; the oldest make room for it."""
        ...

    def close(self) -> None:
        """Let go of what is open; a later call opens it again."""
        ...


_OVERHEAD: Final = 100
"""Bytes that an entry takes beside its text: key, times and the store's own data. An estimate."""


def write(reply: JudgeReply) -> str | None:
    """Write an answer as text; None for one without a JSON form.

    Tokens and cost are left out: an answer that is stored takes none again.
    """
    try:
        return json.dumps([reply.response, reply.model], separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def read(text: object) -> JudgeReply | None:
    """Read an answer; None for what is none."""
    try:
        found: JsonValue = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    match found:
        case [response, str(model)]:
            return JudgeReply(response=response, model=model)
        case _:
            return None


def size_of(text: str) -> int:
    """Bytes that an answer takes in a store, roughly."""
    return len(text) + _OVERHEAD


FILE_VARIABLE: Final = "SCOUTER_JUDGE_CACHE"
"""Names the file or a collector's address, or says `none`."""
NO_FILE: Final = "none"

_LOG: Final = logging.getLogger(__name__)
_APPLICATION_ID: Final = 0x53636A32  # "Scj2": Scouter, judge's answers, second form
_WAIT_S: Final = 2.0
_SCHEMA: Final = (
    """CREATE TABLE answer (
        number INTEGER PRIMARY KEY,
        shelf TEXT NOT NULL,
        key BLOB NOT NULL,
        made_s REAL NOT NULL,
        bytes INTEGER NOT NULL,
        reply TEXT NOT NULL,
        UNIQUE (shelf, key)
    )""",
    "CREATE TABLE total (answers INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    """CREATE TRIGGER added AFTER INSERT ON answer BEGIN
        UPDATE total SET answers = answers + 1, bytes = bytes + new.bytes; END""",
    """CREATE TRIGGER removed AFTER DELETE ON answer BEGIN
        UPDATE total SET answers = answers - 1, bytes = bytes - old.bytes; END""",
)


def is_address(named: str) -> bool:
    """Say whether what is named is a collector, and no file."""
    return named.startswith(("http://", "https://"))


def cache_file(named: str) -> Path | None:
    """The file that a flag or a variable names; None for `none`.

    Raises:
        ConfigError: It is an address, where a file is wanted.
    """
    if is_address(named):
        raise ConfigError(f"a cache of judges' answers: expected a file here, got {named!r}")
    return None if named == NO_FILE else Path(named)


def usual_cache_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Path of the file that keeps this user's judge answers.

    Returns:
        The path in `SCOUTER_JUDGE_CACHE`, or None if that says `none`. Without the variable it is
        `judge.db` in the user's cache folder: `scouter` in `XDG_CACHE_HOME`, else in `~/.cache`.
    """
    if named := environ.get(FILE_VARIABLE):
        return cache_file(named)
    folder = environ.get("XDG_CACHE_HOME")
    return (Path(folder) if folder else Path.home() / ".cache") / "scouter" / "judge.db"


class Kept(NamedTuple):
    """Number of answers in a cache, and their size."""

    answers: int
    bytes: int
    """Size of the answers, counted as for the bound of the cache."""


class SqliteCache:
    """Keeps answers in an SQLite file, which several processes may use at a time.

    Answers lie on shelves, which know nothing of each other and share the bounds; who does not
    name one uses the one without a name.

    The file holds hashes of questions and the answers to them, and no question. It is readable by
    its owner alone. Where it is damaged, locked for longer than two seconds, full or not ours, a
    warning is logged once, and for the rest of the process it is as if it were empty; it is
    neither repaired nor deleted.

    Args:
        path: The file; `:memory:` for one that lives as long as this object.
        max_bytes: Most bytes of answers; the oldest make room. The file itself may be some tens
            of percent larger.
        max_age_s: Answers older than this are not there.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes, self._max_age_s, self._clock = max_bytes, max_age_s, clock
        self._file = sqlite_at(path, application_id=_APPLICATION_ID, schema=_SCHEMA, wait_s=_WAIT_S)
        self._is_out = False

    async def get(self, key: bytes, shelf: str = "") -> JudgeReply | None:
        """Look an answer up."""
        if self._is_out:
            return None
        since = self._clock() - self._max_age_s
        try:
            found = self._file.read(lambda db: _find(db, shelf, key, since))
            text = await asyncio.wrap_future(found)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return None
        return read(text)

    async def put(
        self,
        key: bytes,
        reply: JudgeReply,
        shelf: str = "",
        *,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep an answer.

        Args:
            key: From `cache_key`.
            reply: The answer.
            shelf: Its shelf.
            is_wanted: Looked at when its turn has come: behind every `clear` that was before.
        """
        text = None if self._is_out else write(reply)
        if text is None or size_of(text) > self._max_bytes:
            return
        now = self._clock()

        def work(db: sqlite3.Connection) -> None:
            if not is_wanted():
                return
            db.execute("DELETE FROM answer WHERE shelf = ? AND key = ?", (shelf, key))
            db.execute(
                "INSERT INTO answer (shelf, key, made_s, bytes, reply) VALUES (?, ?, ?, ?, ?)",
                (shelf, key, now, size_of(text), text),
            )
            self._make_room(db, now - self._max_age_s)

        try:
            await asyncio.wrap_future(self._file.run(work))
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _make_room(self, db: sqlite3.Connection, since: float) -> None:
        while True:
            (total,) = db.execute("SELECT bytes FROM total").fetchone()
            oldest = db.execute(
                "SELECT number, made_s FROM answer ORDER BY number LIMIT 1"
            ).fetchone()
            if oldest is None or (total <= self._max_bytes and oldest[1] >= since):
                return
            db.execute("DELETE FROM answer WHERE number = ?", (oldest[0],))

    def _give_up(self, error: Exception) -> None:
        if not self._is_out:
            self._is_out = True
            _LOG.warning(
                "the cache of judges' answers %s cannot be used, and is passed over: %s. If it "
                "is damaged, delete it",
                self._file.path, error,
            )  # fmt: skip

    def clear(self, shelves: Collection[str]) -> "Future[None]":
        """Remove everything from some shelves; no byte of it is left in the files.

        Raises, in the future, `sqlite3.Error` or `OSError` where the file cannot be used.
        """

        def work(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM answer WHERE shelf = ?", [(each,) for each in shelves])

        return self._file.erase(work)

    def kept(self) -> "Future[Kept]":
        """The size of the cache; raises, in the future, as `clear` does."""
        sql = "SELECT answers, bytes FROM total"
        return self._file.read(lambda db: Kept(*db.execute(sql).fetchone()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class MemoryCache(SqliteCache):
    """Keeps answers in memory; its arguments are those of `SqliteCache`."""

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(IN_MEMORY, max_bytes=max_bytes, max_age_s=max_age_s, clock=clock)


def _find(db: sqlite3.Connection, shelf: str, key: bytes, since: float) -> object:
    found = db.execute(
        "SELECT reply FROM answer WHERE shelf = ? AND key = ? AND made_s >= ?", (shelf, key, since)
    ).fetchone()
    return None if found is None else found[0]
