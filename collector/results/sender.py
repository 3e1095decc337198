"""A thread that sends every evaluation on, in the order of the commits, each at least once.

It reads the store from a stored cursor: nothing waits for it and nothing is retained for it.
After a crash it goes on behind the last evaluation whose place was written; what was sent since is
sent again.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from collector.care.retention import Note
from collector.results.endpoint import Endpoint
from collector.results.events import Behind, Linked, links_of, requests
from collector.store.rows import FIRST_RESULT, EvaluationRow, ResultPlace
from collector.store.store import Store
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "results_otlp.json"
"""Name of the file inside a data folder."""


class Cursor:
    """The place of the last evaluation that one endpoint has taken.

    It is the same wherever the sender runs. Two that send at a time, as an api that was frozen and
    the one that took its place, send some results twice and leave none out.

    Args:
        note: Has it.
        endpoint: The endpoint that took it; another one begins with the first evaluation.
    """

    def __init__(self, note: Note, endpoint: str) -> None:
        self._note, self._endpoint = note, endpoint

    def read(self) -> ResultPlace:
        """Read the place at which to go on; the beginning if none is known.

        Raises:
            TransientError: It cannot be read now, and may be another time.
        """
        try:
            if (text := self._note.read()) is not None:
                found = json.loads(text)
                if found["endpoint"] == self._endpoint:
                    return ResultPlace(int(found["seq"]), int(found["ordinal"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read, all results are sent again: %s", self._note, error)
        return FIRST_RESULT

    def write(self, place: ResultPlace) -> None:
        """Keep a place: after a crash it is either this one or one before.

        Raises:
            OSError | TransientError: It cannot be written.
        """
        content = {"endpoint": self._endpoint, "seq": place.seq, "ordinal": place.ordinal}
        self._note.write(json.dumps(content))


class ResultsMeasures:
    """The series of one sender, since this process started.

    Args:
        registry: Shows the metrics.
        lag_s: Gives the age of the oldest evaluation that is not sent, in seconds; 0 if all are.
    """

    def __init__(self, registry: CollectorRegistry, lag_s: Callable[[], float]) -> None:
        self.sent = Counter(
            "scouter_results_sent", "Task results that the OTLP endpoint took.", registry=registry
        )
        self.refused = Counter(
            "scouter_results_refused",
            "Task results that the OTLP endpoint will never take; they were passed over.",
            registry=registry,
        )
        self.failures = Counter(
            "scouter_results_failures",
            "Requests with task results that failed and were made again.",
            registry=registry,
        )
        lag = Gauge(
            "scouter_results_lag_seconds",
            "Age of the oldest evaluation that was not sent on; 0 if all were.",
            registry=registry,
        )
        lag.set_function(lag_s)


PAGE: Final = 32
"""Evaluations in memory at a time."""
_LONGEST_S: Final = 3_600.0
"""Wait that an endpoint may ask for."""
_STOP_S: Final = 15.0
"""Longest wait for a request at a stop; more than an endpoint gives it."""


class ResultsSender:
    """Sends results on; see the module.

    Args:
        store: Holds the evaluations.
        endpoint: Takes them.
        cursor: The last one that it took.
        registry: Shows lag and failures.
        behind: Tells what is known of judges.
        look_every_s: Between two looks for new evaluations.
        first_wait_s: After a failure; doubled by each one that follows, up to `longest_wait_s`.
        longest_wait_s: See there; an endpoint that wants more gets up to an hour.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        endpoint: Endpoint,
        cursor: Cursor,
        registry: CollectorRegistry,
        behind: Behind,
        *,
        look_every_s: float = 0.5,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._endpoint, self._cursor = store, endpoint, cursor
        self._look_every_s, self._now_ns = look_every_s, now_ns
        self._behind = behind
        self._first_wait_s, self._longest_wait_s = first_wait_s, longest_wait_s
        self._measures = ResultsMeasures(registry, self._lag_s)
        self._place = FIRST_RESULT
        self._seen = -1
        """The last commit of which everything was sent."""
        self._oldest_ns: int | None = None
        self._failures = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-results", daemon=True)

    def start(self) -> None:
        """Begin where the cursor is."""
        self._place = self._cursor.read()
        if self._place.seq > self._store.last_seq():
            _log.warning(
                "results were sent up to commit %d, but the store ends at %d: it is another one, "
                "and all its results are sent",
                self._place.seq,
                self._store.last_seq(),
            )
            self._place = FIRST_RESULT
        self._thread.start()

    def stop(self) -> None:
        """End after the request that is under way; the rest is sent after the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        self._endpoint.close()

    def _lag_s(self) -> float:
        oldest = self._oldest_ns
        return 0.0 if oldest is None else max(0.0, (self._now_ns() - oldest) / 1e9)

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                wait_s = 0.0 if self._step() else self._look_every_s
                self._failures = 0
            except TransientError as error:
                wait_s = self._wait_after(error)
            except Exception:  # noqa: BLE001 the thread outlives any fault; the cursor stays
                _log.exception("a fault while results are sent; it is tried again")
                wait_s = self._wait_after(TransientError("a fault"))
            self._stopping.wait(wait_s)

    def _step(self) -> bool:
        """Send one page; says whether there may be more."""
        last = self._store.last_seq()
        if last == self._seen:
            return False
        page = self._store.results_after(self._place, PAGE)
        if not page:
            self._seen, self._oldest_ns = last, None
            return False
        rows = [row for _, row in page]
        self._oldest_ns = _oldest_ns(rows)
        linked = list(zip(rows, links_of(self._store, rows), strict=True))
        self._send(linked, [place for place, _ in page])
        return True

    def _send(self, linked: Sequence[Linked], places: Sequence[ResultPlace]) -> None:
        """Send evaluations in order; the cursor follows every request that was taken."""
        at = 0
        for count, request in requests(linked, self._behind):
            if self._stopping.is_set():
                return
            tasks = sum(len(row.tasks) for row, _ in linked[at : at + count])
            try:
                refused = min(tasks, self._endpoint.send(request)) if tasks else 0
            except DataError as error:
                if count > 1:
                    self._one_by_one(linked[at : at + count], places[at : at + count])
                    at += count
                    continue
                refused = tasks
                _log.warning("an evaluation's results are refused for good: %s", error)
            self._measures.refused.inc(refused)
            self._measures.sent.inc(tasks - refused)
            at += count
            self._keep(places[at - 1], linked[at:])

    def _one_by_one(self, linked: Sequence[Linked], places: Sequence[ResultPlace]) -> None:
        """Find the evaluation that is refused, so that the others are not."""
        for each, place in zip(linked, places, strict=True):
            self._send([each], [place])

    def _keep(self, place: ResultPlace, left: Sequence[tuple[EvaluationRow, object]]) -> None:
        self._place = place
        if left:
            self._oldest_ns = _oldest_ns(row for row, _ in left)
        try:
            self._cursor.write(place)
        except (OSError, TransientError) as error:
            _log.warning("the place of sent results cannot be stored: %s", error)

    def _wait_after(self, error: TransientError) -> float:
        self._measures.failures.inc()
        if not self._failures:
            _log.warning("results wait: %s", error)
        self._failures = min(self._failures + 1, 30)
        if error.retry_after_s is not None:
            return min(error.retry_after_s, _LONGEST_S)
        return min(self._first_wait_s * 2 ** (self._failures - 1), self._longest_wait_s)


def _oldest_ns(rows: Iterable[EvaluationRow]) -> int | None:
    """Time of the first result that is sent in its time."""
    return next((row.evaluated_ns for row in rows if not row.is_backfill), None)
