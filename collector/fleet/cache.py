"""A cache of judges' answers in the fleet's PostgreSQL, for all its processes."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from collector.fleet.database import Session
from scouter.agent.cache import MAX_AGE_S, MAX_BYTES, Kept, read, size_of, write
from scouter.errors import ScouterError
from scouter.evaluate.judge.port import JudgeReply

_log: Final = logging.getLogger(__name__)
_TOTAL: Final = "SELECT answers, bytes FROM judge_answers_total"
_SCAN: Final = 1_000
"""Most answers that make room in one statement."""
_OLDEST: Final = """
    WITH oldest AS (
        SELECT number, made_s, sum(bytes) OVER (ORDER BY number) - bytes AS before
        FROM (SELECT number, made_s, bytes FROM judge_answers ORDER BY number LIMIT $3) AS few
    ), gone AS (
        DELETE FROM judge_answers a USING oldest o
        WHERE a.number = o.number AND (o.made_s < $1 OR o.before < $2::bigint)
        RETURNING a.bytes
    ) SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone
"""
"""Takes, of the oldest, those that are too old, and as many as have so many bytes."""
_T = TypeVar("_T")


class PostgresqlCache:
    """Keeps answers in PostgreSQL.

    Answers lie on shelves, which know nothing of each other and share the bounds; who does not
    name one uses the one without a name. While the database is away, it is as if the cache were
    empty; that is logged once each time.

    One row has the total. Who writes locks it first, so that writers come one after another, and
    what one of them finds holds until it has committed.

    Args:
        session: A connection to the database.
        max_bytes: Most bytes of answers; the oldest make room.
        max_age_s: Answers older than this are not there.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        session: Session,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._session, self._clock = session, clock
        self._max_bytes, self._max_age_s = max_bytes, max_age_s
        self._is_out = False

    async def get(self, key: bytes, shelf: str = "") -> JudgeReply | None:
        """Look an answer up."""
        since = self._clock() - self._max_age_s

        sql = "SELECT reply FROM judge_answers WHERE shelf = $1 AND key = $2 AND made_s >= $3"
        found = await self._tried(lambda session: session.read(sql, [shelf, key, since]))
        return read(found[0][0] if found else None)

    async def put(
        self,
        key: bytes,
        reply: JudgeReply,
        shelf: str = "",
        *,
        is_wanted: Callable[[Session], bool] = lambda session: True,
    ) -> None:
        """Keep an answer.

        Args:
            key: From `cache_key`.
            reply: The answer.
            shelf: Its shelf.
            is_wanted: Looked at when its turn has come: behind every `clear` that was before.
        """
        text = write(reply)
        if text is None or size_of(text) > self._max_bytes:
            return
        now = self._clock()

        def work(session: Session) -> None:
            with session.transaction():
                # A crash of the server may take answers; they can be made again.
                session.read("SET LOCAL synchronous_commit = off")
                answers, total = lock_answers(session)
                if not is_wanted(session):
                    return
                before = session.read(
                    "DELETE FROM judge_answers WHERE shelf = $1 AND key = $2 RETURNING bytes",
                    (shelf, key),
                )
                session.read(
                    "INSERT INTO judge_answers (shelf, key, made_s, bytes, reply) "
                    "VALUES ($1, $2, $3, $4, $5)",
                    (shelf, key, now, size_of(text), text),
                )
                answers += 1 - len(before)
                total += size_of(text) - sum(size for (size,) in before)
                gone = self._make_room(session, total, now - self._max_age_s)
                _set_total(session, answers - gone.answers, total - gone.bytes)

        await self._tried(work)

    def clear(
        self,
        shelves: Collection[str],
        also: Callable[[Session], object] = lambda session: None,
    ) -> None:
        """Remove everything from some shelves, in one transaction.

        Args:
            shelves: Their names.
            also: Done in the same transaction.

        Raises:
            TransientError: Nothing is removed.
        """

        def work(session: Session) -> None:
            with session.transaction():
                answers, total = lock_answers(session)
                also(session)
                ((gone, size),) = session.read(
                    "WITH gone AS ("
                    "DELETE FROM judge_answers WHERE shelf = ANY($1::text[]) RETURNING bytes) "
                    "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
                    [list(shelves)],
                )
                _set_total(session, answers - gone, total - size)

        self._session.run(work)

    def remove_all(self) -> None:
        """Remove everything, and give its room back.

        Raises:
            TransientError: Nothing is removed.
        """

        def work(session: Session) -> None:
            with session.transaction():
                lock_answers(session)
                session.read("TRUNCATE judge_answers")
                _set_total(session, 0, 0)

        self._session.run(work)

    def stored(self) -> Kept:
        """The size of the cache.

        Raises:
            TransientError: It cannot be read now.
        """
        return self._session.run(_total)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self._session.drop()

    def _make_room(self, session: Session, total: int, since: float) -> Kept:
        """Take out what is too old or too much; tells what went."""
        answers = size = 0
        while True:
            ((gone, bytes_gone),) = session.read(
                _OLDEST, [since, total - size - self._max_bytes, _SCAN]
            )
            answers, size = answers + gone, size + bytes_gone
            if gone < _SCAN:
                return Kept(answers, size)

    async def _tried(self, work: Callable[[Session], _T]) -> _T | None:
        """Do something; None, and a word in the log, where it cannot be done."""
        try:
            found = await asyncio.wrap_future(self._session.submit(work))
        except ScouterError as error:
            if not self._is_out:
                self._is_out = True
                _log.warning("the cache of judges' answers is passed over for now: %s", error)
            return None
        self._is_out = False
        return found


def lock_answers(session: Session) -> Kept:
    """Wait for who writes, and have others wait until the transaction ends; tells the size."""
    return _total(session, f"{_TOTAL} FOR UPDATE")


def _total(session: Session, sql: str = _TOTAL) -> Kept:
    ((answers, size),) = session.read(sql)
    return Kept(answers, size)


def _set_total(session: Session, answers: int, size: int) -> None:
    sql = "UPDATE judge_answers_total SET answers = $1, bytes = $2"
    session.read(sql, (answers, size))
