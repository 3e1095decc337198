"""Kept answers of judges, so that no question is paid for twice."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from scouter.agent.cache import Kept, SqliteCache
from scouter.agent.cached_judge import CachedJudge
from scouter.errors import TransientError
from scouter.evaluate.judge.port import Judge, JudgeReply

FILE_NAME: Final = "judge_cache.db"
"""Name of the file inside a data folder.

Not a table of the store: answers are read and written one at a time while a judge is waited for,
and would queue there behind batches of spans, as commits do (1.1 ms at best, 0.02 ms here); they
are deleted all the time, which DuckDB gives no room back for; and they can be made again, so that
no backup has to hold them.
"""

_WAIT_S: Final = 30.0
_log: Final = logging.getLogger(__name__)


class Answers(Protocol):
    """Kept answers of judges, by space; any thread."""

    def judge_of(self, space: str, read_seq: int) -> Judge:
        """The judge for questions of a space, about what was read after a commit."""
        ...

    async def find(self, space: str, key: bytes) -> JudgeReply | None:
        """Look up an answer for a client."""
        ...

    async def keep(self, space: str, key: bytes, reply: JudgeReply) -> None:
        """Keep what a client sends; not while something of its space is being erased."""
        ...

    def kept(self) -> Kept:
        """Number of stored answers, and their size; zeros if that cannot be read now."""
        ...

    def begin_erasing(self, space: str) -> None:
        """Remove all answers of a space, and keep none until the end.

        Raises:
            TransientError: They cannot be removed; they stay.
        """
        ...

    def end_erasing(self, space: str, seq: int) -> None:
        """Go on keeping answers; the commit is the one that erased."""
        ...

    def close(self) -> None:
        """Let go of what is open; a later question opens it again."""
        ...


class KeptAnswers:
    """Answers by space, in a file of the data folder.

    Answers of the collector's own judges and answers that clients have put here lie on separate
    shelves: an evaluation of the collector never rests on an answer that a client sent. Clients
    read both.

    An answer may quote the question, and nothing says which records it is about: two
    with the same question share one, and what a client sends may come from any of them. So whatever
    is erased, all answers of its space go. They can be made again.

    Args:
        folder: The data folder.
        judge: Asked what is not here.
        entry_of: From the provider that a question names to what stands for it in keys.
        max_bytes: Most bytes of answers; the oldest make room.
        max_age_s: Answers older than this are not there.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        folder: Path,
        judge: Judge,
        entry_of: Callable[[str], str],
        *,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = folder / FILE_NAME
        self._judge, self._entry_of, self.max_bytes = judge, entry_of, max_bytes
        self._make = lambda: SqliteCache(
            self._path, max_bytes=max_bytes, max_age_s=max_age_s, clock=clock
        )
        self._cache = self._make()
        self._lock = threading.Lock()
        self._spaces: dict[str, _Space] = {}
        try:
            self._cache.kept().result(_WAIT_S)
        except (sqlite3.Error, OSError) as error:
            _log.warning("the cache of judges' answers begins anew: %s: %s", self._path, error)
            self._begin_anew()

    def judge_of(self, space: str, read_seq: int) -> Judge:
        """The judge for questions of a space.

        Args:
            space: The space.
            read_seq: Last commit before the data of the questions was read. If data was erased
                since, the questions may be about it, and their answers are not stored.
        """
        with self._lock:
            found = self._of(space)
            is_current = not found.erasing and read_seq >= found.since_seq
        return found.judge if is_current else self._judge

    async def find(self, space: str, key: bytes) -> JudgeReply | None:
        """Look up an answer for a client."""
        own = await self._cache.get(key, _own(space))
        return await self._cache.get(key, _sent(space)) if own is None else own

    async def keep(self, space: str, key: bytes, reply: JudgeReply) -> None:
        """Keep what a client sends; not while something of its space is being erased."""
        with self._lock:
            found = self._of(space)
        await self._cache.put(key, reply, _sent(space), is_wanted=lambda: not found.erasing)

    def kept(self) -> Kept:
        """Number of stored answers, and their size; zeros if that cannot be read now."""
        try:
            return self._cache.kept().result(_WAIT_S)
        except (sqlite3.Error, OSError, TimeoutError):
            return Kept(0, 0)

    # --- erasing ----------------------------------------------------------------------------

    def begin_erasing(self, space: str) -> None:
        """Remove all answers of a space, and keep none until the end.

        So nothing is left wherever the process dies between this and the end.

        Raises:
            TransientError: They cannot be removed; they stay.
        """
        with self._lock:
            found = self._of(space)
            found.erasing += 1
            found.shelf.is_open = False
        try:
            self._cache.clear([_own(space), _sent(space)]).result(_WAIT_S)
        except (sqlite3.Error, OSError, TimeoutError) as error:
            _log.warning("the cache of judges' answers begins anew: %s: %s", self._path, error)
            try:
                self._begin_anew()
            except OSError as failure:
                self.end_erasing(space, 0)
                raise TransientError(
                    f"nothing is erased, as {self._path} cannot be removed: {failure}", 5
                ) from failure

    def end_erasing(self, space: str, seq: int) -> None:
        """Go on keeping answers.

        Args:
            space: The space.
            seq: The commit that erased; what was read before it may be of what went.
        """
        with self._lock:
            found = self._of(space)
            found.erasing -= 1
            found.since_seq = max(found.since_seq, seq)
            if not found.erasing:
                found.shelf = _Shelf(self, _own(space))
                found.judge = self._cached(found.shelf)

    def close(self) -> None:
        """Close the file; a later question opens it again."""
        self._cache.close()

    # --- parts ------------------------------------------------------------------------------

    def _of(self, space: str) -> "_Space":
        found = self._spaces.get(space)
        if found is None:
            shelf = _Shelf(self, _own(space))
            found = self._spaces[space] = _Space(shelf=shelf, judge=self._cached(shelf))
        return found

    def _cached(self, shelf: "_Shelf") -> CachedJudge:
        # The space is the shelf and not in the digest as well, which a client makes that does not
        # know the space of its token.
        return CachedJudge(self._judge, shelf, entry_of=self._entry_of)

    def _begin_anew(self) -> None:
        self._cache.close()  # first, as it takes files away by their names
        remove_answers(self._path.parent)
        self._cache = self._make()

    async def get(self, key: bytes, shelf: str) -> JudgeReply | None:
        """Look an answer up on a shelf."""
        return await self._cache.get(key, shelf)

    async def put(
        self, key: bytes, reply: JudgeReply, shelf: str, is_wanted: Callable[[], bool]
    ) -> None:
        """Keep an answer on a shelf."""
        await self._cache.put(key, reply, shelf, is_wanted=is_wanted)


class _Shelf:
    """The answers of one space since the last erasure, as a cache for its judge."""

    def __init__(self, answers: KeptAnswers, name: str) -> None:
        self._answers, self._name = answers, name
        self.is_open = True
        """False once something was erased: questions of before store no answer."""

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up."""
        return await self._answers.get(key, self._name)

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer."""
        await self._answers.put(key, reply, self._name, lambda: self.is_open)

    def close(self) -> None:
        """The file belongs to all spaces."""


@dataclass(slots=True, kw_only=True)
class _Space:
    shelf: _Shelf
    judge: CachedJudge
    erasing: int = 0
    """Erasures that have started and not ended."""
    since_seq: int = 0
    """The last commit that erased something."""


def remove_answers(folder: Path) -> None:
    """Remove the file with the answers from a data folder that no collector uses.

    Raises:
        OSError: It cannot be removed.
    """
    for each in folder.glob(f"{FILE_NAME}*"):
        each.unlink(missing_ok=True)


def _own(space: str) -> str:
    return f"own {space}"


def _sent(space: str) -> str:
    return f"sent {space}"
