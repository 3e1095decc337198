"""What an api has done by the workers of its fleet, or does itself in their place."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from collector.care.data_folder import KnownBackup
from collector.fleet.ends import FleetLag
from collector.fleet.past import Past
from collector.fleet.store import FleetStore
from collector.judging.answers import Answers
from collector.operation import Eraser, Erasing, Erasure
from collector.store.commit import Commit
from collector.store.erase import Erased, EraseTarget
from collector.store.rows import EvaluationRow
from collector.worker.backfill import Added, commits_of, letters_of, still_missing
from collector.worker.reevaluate import Revision
from collector.worker.stored_values import parts_of_rows
from scouter.errors import ConfigError, TransientError

_ERASE_S: Final = 30.0
T = TypeVar("T")


class FleetHand:
    """Erases, revises and replays in a fleet; any thread.

    Args:
        store: The store of the whole fleet.
        lag: Says whether what was acknowledged is stored.
    """

    def __init__(self, store: FleetStore, lag: FleetLag) -> None:
        self._store, self._lag = store, lag

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names, of what was acknowledged before this call."""

        def erase() -> Erased:
            if not self._lag.catch_up(_ERASE_S):
                raise TransientError("the workers are behind, and have to store it first", 5)
            return self._store.erase(target)

        return _done(erase)

    def append_again(self, append: Callable[[], object]) -> int:
        """Append what a dead letter holds; the result means nothing."""
        append()
        return 0

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until everything that was appended is stored; False after the time."""
        del offset
        return self._lag.catch_up(timeout_s)

    def revise(self, revisions: Sequence[Revision]) -> "Future[frozenset[str]]":
        """Store evaluations of another version of a profile; see `Revising.revise`."""
        return _done(lambda: self._revise(revisions))

    def _revise(self, revisions: Sequence[Revision]) -> frozenset[str]:
        store = self._store
        latest = store.latest_evaluations([each.key for each in revisions])
        found: list[EvaluationRow] = [
            each.row
            for each in revisions
            if (before := latest.get(each.key)) is not None
            and before.revision + 1 == each.row.revision
        ]
        for part in parts_of_rows(found):
            store.commit(Commit(evaluations=list(part)))
        return frozenset(row.record_uid for row in found)

    def add(self, added: Sequence[Added]) -> "Future[frozenset[str]]":
        """Store first evaluations that come late; see `Revising.add`."""

        def add() -> frozenset[str]:
            with self._store.alone():
                found = still_missing(self._store, added)
                if letters := letters_of(found):
                    self._store.remove_dead_letters(found[0].row.space, letters)
                for each in commits_of(found):
                    self._store.commit(each)
            return frozenset(each.row.record_uid for each in found)

        return _done(add)


def _done(action: Callable[[], T]) -> "Future[T]":
    future: Future[T] = Future()
    try:
        future.set_result(action())
    except Exception as error:  # noqa: BLE001 who requested it gets it
        future.set_exception(error)
    return future


class FleetOperation:
    """Erases; see `Operation`. A fleet makes no backups, and knows of none.

    Args:
        eraser: Erases in the whole store.
        answers: Of judges; None where none are stored.
        past: The folder of the days that are over; None where there is none.
    """

    def __init__(self, eraser: Eraser, answers: Answers | None, past: Past | None = None) -> None:
        self._erasing, self._past = Erasing(eraser, answers), past

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on.

        Bytes of it are in Kafka as long as it keeps its messages, and in PostgreSQL until it has
        written over deleted rows: nobody here knows when that is. The files of days that are over
        have none of it.
        """
        if self._past is None:
            erased = self._erasing.erase(target)
        else:
            erased = self._past.erase(target, lambda: self._erasing.erase(target))
        return Erasure(erased=erased, is_gone=False, backups=())

    def back_up(self, name: str) -> KnownBackup:
        """Refuse: whoever runs PostgreSQL backs it up.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"no backup {name[:100]!r} is made: the data of a fleet is in PostgreSQL; back that "
            "up, as with pg_dump"
        )
