"""Evaluations on their way into the store: the next ones are made while the last are committed."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from collector.storage.port.work import WorkStore
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, Scope
from collector.worker.kept_values import parts_of_rows
from collector.worker.letters import letter_of_evaluation
from collector.worker.progress import Progress
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
_IN_FLIGHT: Final = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    """Evaluations that were made together."""

    rows: Sequence[EvaluationRow]
    waits_s: Sequence[float]
    """Seconds that each record had waited for its trace."""
    ready_at: float
    """Time at which the records were ready, in seconds of the caller's clock."""
    is_answered: bool = False
    """True if they are what a judge's answers made of pending evaluations."""


class EvaluationWriter:
    """Stores evaluations in the order in which they were made.

    Args:
        store: Takes them.
        on_stored: Told of every batch once it is durable, in the thread that puts and flushes.
        stopping: Once set, a store that does not take anything is given up.
        progress: Told what was decided, and what keeps the store from taking it.
    """

    def __init__(
        self,
        store: WorkStore,
        on_stored: Callable[[Evaluations], None],
        stopping: threading.Event,
        progress: Progress,
    ) -> None:
        self._store, self._on_stored, self._stopping = store, on_stored, stopping
        self._progress = progress
        self._in_flight: deque[tuple[Evaluations, Future[int]]] = deque()

    @property
    def in_flight(self) -> int:
        """First evaluations on records that are not durable yet."""
        return sum(
            row.revision == 1 and row.scope is Scope.RECORD
            for evaluations, _ in tuple(self._in_flight)
            for row in evaluations.rows
        )

    def put(self, evaluations: Evaluations) -> None:
        """Hand evaluations to the store; waits while the ones before the last are not durable.

        Raises:
            TransientError: The store takes nothing, and the service ends.
        """
        waits_s = iter(evaluations.waits_s)
        for rows in parts_of_rows(evaluations.rows):
            part = replace(evaluations, rows=rows, waits_s=list(islice(waits_s, len(rows))))
            self._in_flight.append((part, self._store.append_evaluations(rows)))
            while len(self._in_flight) >= _IN_FLIGHT:
                self._finish()

    def put_aside(self, letters: Sequence[DeadLetter]) -> None:
        """Store dead letters, and wait until they are durable.

        Raises:
            TransientError: The store takes nothing, and the service ends.
        """
        if letters:
            self.insist(lambda: self._store.append_dead_letters(letters).result())
            self._progress.moved()

    def flush(self) -> None:
        """Wait until everything is durable.

        Raises:
            TransientError: The store takes nothing, and the service ends.
        """
        while self._in_flight:
            self._finish()

    def insist(self, action: Callable[[], T]) -> T:
        """Try something until the store can do it.

        Raises:
            TransientError: The service ends.
        """
        while True:
            try:
                return action()
            except TransientError as error:
                if self._stopping.is_set():
                    raise
                _log.warning("the store does not take evaluations, trying again: %s", error)
                self._progress.trouble(str(error))
                self._stopping.wait(RETRY_S)

    def _finish(self) -> None:
        """Wait for the oldest batch; what is decided is offered again, not decided again."""
        evaluations, first = self._in_flight[0]
        futures = [first]

        def wait() -> None:
            future = futures.pop() if futures else self._store.append_evaluations(evaluations.rows)
            future.result()

        try:
            self.insist(wait)
        except DataError as error:
            self._one_by_one(evaluations, error)
            self._in_flight.popleft()
        else:
            self._in_flight.popleft()  # first: an observer's fault must not come again for ever
            self._progress.moved()
            self._on_stored(evaluations)

    def _one_by_one(self, evaluations: Evaluations, error: DataError) -> None:
        """Find the evaluation that cannot be stored."""
        if len(evaluations.rows) == 1:
            _log.warning("an evaluation cannot be stored: %s", error)
            self.put_aside([letter_of_evaluation(evaluations.rows[0], str(error))])
            return
        for row, wait_s in zip(evaluations.rows, evaluations.waits_s, strict=True):
            alone = replace(evaluations, rows=(row,), waits_s=(wait_s,))
            try:
                self.insist(lambda row=row: self._store.append_evaluations((row,)).result())
            except DataError as fault:
                self._one_by_one(alone, fault)
            else:
                self._progress.moved()
                self._on_stored(alone)
