"""Stored answers of a fleet's judges, so that no process pays for a question of another again."""

import logging
import time
import uuid
from collections.abc import Callable
from typing import Final

from collector.fleet.cache import PostgresqlCache, lock_answers
from collector.fleet.database import Session
from collector.judging.answers import Answers, Shelf, own, sent
from scouter.agent.cache import Kept
from scouter.errors import ScouterError
from scouter.evaluate.judge.port import Judge, JudgeReply

_log: Final = logging.getLogger(__name__)
_LONGEST_S: Final = 3_600.0
"""An erasure that has not ended after so long is one of a process that died."""


class FleetAnswers(Answers):
    """Answers by space, in PostgreSQL; see `StoredAnswers`, which is the same for one process.

    What is erased in one process was read in others, whose judges may be answering: of each space
    the database has the last commit that erased something, and the erasures that run. An answer is
    stored only by those who know that commit, and while none runs.

    Args:
        session: A connection to the database.
        judge: Called for what is not here.
        entry_of: From the provider that a question names to what stands for it in keys.
        last_seq: The newest commit of the store.
        max_bytes: Most bytes of answers; the oldest make room.
        max_age_s: Answers older than this are not there.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        session: Session,
        judge: Judge,
        entry_of: Callable[[str], str],
        last_seq: Callable[[], int],
        *,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(judge, entry_of, max_bytes)
        self._session, self._clock, self._last_seq = session, clock, last_seq
        self._cache = PostgresqlCache(
            session, max_bytes=max_bytes, max_age_s=max_age_s, clock=clock
        )
        self._started: dict[str, list[str]] = {}
        """Numbers of the erasures that this process has started, by space."""
        self._owed: list[tuple[str, str, int]] = []
        """Erasures whose end could not be written yet: number, space and commit."""
        self._is_reported = False
        try:
            for space, seq in session.run(_known).items():
                self._shelves[space] = self._new_shelf(space, seq)
        except ScouterError as error:  # each space is known once an answer of it is put
            _log.warning("the cache of judges' answers cannot be read: %s", error)

    async def keep(self, space: str, key: bytes, reply: JudgeReply) -> None:
        """Keep what a client sends; not while something of its space is being erased."""
        await self._cache.put(
            key,
            reply,
            sent(space),
            is_wanted=lambda session: self._erased(session, space) is not None,
        )

    def stored(self) -> Kept:
        """Number of the fleet's answers, and their size; zeros if that cannot be read now."""
        self._pay()
        try:
            return self._cache.stored()
        except ScouterError:
            return Kept(0, 0)

    # --- erasing ----------------------------------------------------------------------------

    def begin_erasing(self, space: str) -> None:
        """Remove all answers of a space, and have no process keep one until the end.

        Raises:
            TransientError: They cannot be removed; they stay.
        """
        number, now = uuid.uuid4().hex, self._clock()
        self._pay()

        def note(session: Session) -> None:
            session.read(
                "INSERT INTO judge_answers_erasures VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                (number, space, now),
            )

        try:
            self._cache.clear([own(space), sent(space)], also=note)
        except ScouterError:
            with self._lock:  # it may have started, and only the word of it was lost
                self._owed.append((number, space, 0))
            raise
        with self._lock:
            self._started.setdefault(space, []).append(number)

    def end_erasing(self, space: str, seq: int) -> None:
        """Go on keeping answers.

        Args:
            space: The space.
            seq: The commit that erased; what was read before it may be of what went.
        """
        with self._lock:
            numbers = self._started.get(space)
            if not numbers:
                return
            self._owed.append((numbers.pop(), space, seq))
        self._pay()

    def close(self) -> None:
        """Close the connection; a later question opens it again."""
        if self._owed:
            self._session.drop()  # a new attempt to connect waits for nothing then
            self._pay()
        self._session.drop()

    # --- parts ------------------------------------------------------------------------------

    async def get(self, key: bytes, shelf: str) -> JudgeReply | None:
        """Look an answer up on a shelf."""
        return await self._cache.get(key, shelf)

    async def put(self, key: bytes, reply: JudgeReply, shelf: Shelf) -> None:
        """Keep an answer of the fleet's judges, unless something was erased meanwhile."""

        def is_wanted(session: Session) -> bool:
            seq = self._erased(session, shelf.space)
            if seq is not None and seq > shelf.seq:
                self._renew(shelf.space, seq)
            return seq is not None and seq <= shelf.seq

        await self._cache.put(key, reply, own(shelf.space), is_wanted=is_wanted)

    def _erased(self, session: Session, space: str) -> int | None:
        """The commit of a space's last erasure; None while one runs.

        Nobody begins or ends one meanwhile, as who does waits for the same lock.
        """
        rows = session.read(
            "SELECT number, begun_s FROM judge_answers_erasures WHERE space = $1", [space]
        )
        now = self._clock()
        if any(started_s > now - _LONGEST_S for _, started_s in rows):
            return None
        for number, _ in rows:  # whoever began it is dead, and what it erased is stored by now
            _end(session, number, space, self._last_seq())
        found = session.read("SELECT since_seq FROM judge_answers_spaces WHERE space = $1", [space])
        return int(found[0][0]) if found else 0

    def _pay(self) -> None:
        """Write the ends of erasures that are owed, as far as that can be done now."""
        with self._lock:
            owed = list(self._owed)
        for each in owed:
            number, space, seq = each

            def work(
                session: Session, number: str = number, space: str = space, seq: int = seq
            ) -> None:
                with session.transaction():
                    lock_answers(session)
                    _end(session, number, space, seq)

            try:
                self._session.run(work)
            except ScouterError as error:
                if not self._is_reported:
                    _log.warning("no answers of space %r are stored for now: %s", space, error)
                self._is_reported = True
                return
            self._is_reported = False
            self._renew(space, seq)
            with self._lock:
                self._owed = [other for other in self._owed if other != each]


def remove_answers(session: Session) -> None:
    """Remove all stored answers of a fleet that stores none any more.

    Raises:
        TransientError: They cannot be removed now.
    """
    PostgresqlCache(session).remove_all()


def _known(session: Session) -> dict[str, int]:
    return dict(session.read("SELECT space, since_seq FROM judge_answers_spaces"))


def _end(session: Session, number: str, space: str, seq: int) -> None:
    """Note that an erasure has ended, once."""
    if session.read(
        "DELETE FROM judge_answers_erasures WHERE number = $1 RETURNING number", [number]
    ):
        session.read(
            "INSERT INTO judge_answers_spaces VALUES ($1, $2) ON CONFLICT (space) "
            "DO UPDATE SET since_seq = greatest(judge_answers_spaces.since_seq, $2)",
            (space, seq),
        )
