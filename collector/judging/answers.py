"""Stored answers of judges, so that no question is paid for twice."""

import logging
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

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


class Answers(ABC):
    """Stored answers of judges by space, each with a judge that asks nothing twice; any thread.

    Answers of the collector's own judges and answers that clients have put here lie on separate
    shelves: an evaluation of the collector never rests on an answer that a client sent. Clients
    read both.

    An answer may quote the question, and nothing says which records it is about: two
    with the same question share one, and what a client sends may come from any of them. So whatever
    is erased, all answers of its space go. They can be made again.

    Args:
        judge: Called for what is not here.
        entry_of: From the provider that a question names to what stands for it in keys.
        max_bytes: Most bytes of answers.
    """

    def __init__(self, judge: Judge, entry_of: Callable[[str], str], max_bytes: int) -> None:
        self._judge, self._entry_of, self.max_bytes = judge, entry_of, max_bytes
        self._lock = threading.Lock()
        self._shelves: dict[str, Shelf] = {}

    def judge_of(self, space: str, read_seq: int) -> Judge:
        """The judge for questions of a space.

        Args:
            space: The space.
            read_seq: Last commit before the data of the questions was read. If data was erased
                since, the questions may be about it, and their answers are not stored.
        """
        with self._lock:
            shelf = self._shelf(space)
        return shelf.judge if read_seq >= shelf.seq else self._judge

    async def find(self, space: str, key: bytes) -> JudgeReply | None:
        """Look up an answer for a client."""
        found = await self.get(key, own(space))
        return await self.get(key, sent(space)) if found is None else found

    @abstractmethod
    async def keep(self, space: str, key: bytes, reply: JudgeReply) -> None:
        """Keep what a client sends; not while something of its space is being erased."""

    @abstractmethod
    def stored(self) -> Kept:
        """Number of stored answers, and their size; zeros if that cannot be read now."""

    @abstractmethod
    def begin_erasing(self, space: str) -> None:
        """Remove all answers of a space, and keep none until the end.

        Raises:
            TransientError: They cannot be removed; they stay.
        """

    @abstractmethod
    def end_erasing(self, space: str, seq: int) -> None:
        """Go on keeping answers; the commit is the one that erased."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open; a later question opens it again."""

    @abstractmethod
    async def get(self, key: bytes, shelf: str) -> JudgeReply | None:
        """Look an answer up on a shelf."""

    @abstractmethod
    async def put(self, key: bytes, reply: JudgeReply, shelf: "Shelf") -> None:
        """Keep an answer of the collector's own judges, unless something was erased meanwhile."""

    def _shelf(self, space: str) -> "Shelf":
        """The shelf of a space, under the lock."""
        found = self._shelves.get(space)
        if found is None:
            found = self._shelves[space] = self._new_shelf(space, 0)
        return found

    def _new_shelf(self, space: str, seq: int) -> "Shelf":
        # The space is the shelf and not in the digest as well, which a client makes that does not
        # know the space of its token.
        shelf = Shelf(self, space, seq)
        shelf.judge = CachedJudge(self._judge, shelf, entry_of=self._entry_of)
        return shelf

    def _renew(self, space: str, seq: int) -> None:
        """Let questions about what was read since a commit keep their answers."""
        with self._lock:
            if seq > self._shelf(space).seq:
                self._shelves[space] = self._new_shelf(space, seq)


class Shelf:
    """The answers of one space about what was read since a commit, as a cache for its judge."""

    judge: Judge

    def __init__(self, answers: Answers, space: str, seq: int) -> None:
        self._answers, self.space, self.seq = answers, space, seq

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up."""
        return await self._answers.get(key, own(self.space))

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer."""
        await self._answers.put(key, reply, self)

    def close(self) -> None:
        """Leave open what all spaces share."""


def own(space: str) -> str:
    """The name of the shelf for answers of the collector's own judges."""
    return f"own {space}"


def sent(space: str) -> str:
    """The name of the shelf for answers that clients sent."""
    return f"sent {space}"


class StoredAnswers(Answers):
    """Answers by space, in a file of the data folder.

    Args:
        folder: The data folder.
        judge: Called for what is not here.
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
        super().__init__(judge, entry_of, max_bytes)
        self._path = folder / FILE_NAME
        self._make = lambda: SqliteCache(
            self._path, max_bytes=max_bytes, max_age_s=max_age_s, clock=clock
        )
        self._cache = self._make()
        self._erasing = Counter[str]()
        """Erasures that have started and not ended, by space."""
        try:
            self._cache.kept().result(_WAIT_S)
        except (sqlite3.Error, OSError) as error:
            _log.warning("the cache of judges' answers begins anew: %s: %s", self._path, error)
            self._begin_anew()

    async def get(self, key: bytes, shelf: str) -> JudgeReply | None:
        """Look an answer up on a shelf."""
        return await self._cache.get(key, shelf)

    async def put(self, key: bytes, reply: JudgeReply, shelf: Shelf) -> None:
        """Keep an answer of the collector's own judges, unless something was erased meanwhile."""

        def is_wanted() -> bool:
            with self._lock:
                return not self._erasing[shelf.space] and shelf.seq >= self._shelf(shelf.space).seq

        await self._cache.put(key, reply, own(shelf.space), is_wanted=is_wanted)

    async def keep(self, space: str, key: bytes, reply: JudgeReply) -> None:
        """Keep what a client sends; not while something of its space is being erased."""
        await self._cache.put(key, reply, sent(space), is_wanted=lambda: not self._erasing[space])

    def stored(self) -> Kept:
        """Number of stored answers, and their size; zeros if that cannot be read now."""
        try:
            return self._cache.kept().result(_WAIT_S)
        except (sqlite3.Error, OSError, TimeoutError):
            return Kept(0, 0)

    def begin_erasing(self, space: str) -> None:
        """Remove all answers of a space, and keep none until the end.

        So nothing is left wherever the process dies between this and the end.

        Raises:
            TransientError: They cannot be removed; they stay.
        """
        with self._lock:
            self._erasing[space] += 1
        try:
            self._cache.clear([own(space), sent(space)]).result(_WAIT_S)
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
        self._renew(space, seq)
        with self._lock:
            self._erasing[space] -= 1

    def close(self) -> None:
        """Close the file; a later question opens it again."""
        self._cache.close()

    def _begin_anew(self) -> None:
        self._cache.close()  # first, as it takes files away by their names
        remove_answers(self._path.parent)
        self._cache = self._make()


def remove_answers(folder: Path) -> None:
    """Remove the file with the answers from a data folder that no collector uses.

    Raises:
        OSError: It cannot be removed.
    """
    for each in folder.glob(f"{FILE_NAME}*"):
        each.unlink(missing_ok=True)
