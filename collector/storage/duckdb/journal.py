"""Makes spans durable at once, and has the database take them up in larger groups behind that."""

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final

from collector.storage.duckdb.tombstones import Tombstones
from collector.storage.duckdb.write import SpansJob
from collector.storage.log.span_codec import EncodedBatch, encode_batch
from collector.storage.log.span_log import Frame, SpanLog
from collector.store.rows import SpansAppended
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
_SYNC_BYTES: Final = 4 * 2**20
"""Requests that are synced together take no further one above this size."""
_PENDING_BYTES: Final = 8 * 2**20
"""Most bytes of requests in the log that the database has not taken.

Beyond it nothing is acknowledged. This bounds the rows in memory, and the work of a start after a
crash.
"""


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A batch on its way into the log."""

    space: str
    received_ns: int
    batch: EncodedBatch
    durable: "Future[None]"
    future: "Future[SpansAppended]"
    erased: int = 0
    """Spans of it that were erased before it came, and are not written."""


class Journal:
    """A thread that appends to the span log and hands on what is synced, in that order.

    Args:
        log: The log; nobody else appends to it.
        submit: Takes each batch that is durable; its future is answered once it is committed.
        hurry: Has all that was submitted committed at once, as somebody waits for it.
        fault: Gives the reason that the database takes nothing now; empty if it takes jobs. With a
            reason nothing is acknowledged.
        tombstones: Marks of erased spans, which do not get into the log again.
        suspect: Is told of a write that failed, in the thread of the journal.
    """

    def __init__(
        self,
        log: SpanLog,
        submit: Callable[[SpansJob], None],
        hurry: Callable[[], None],
        fault: Callable[[], str],
        tombstones: Tombstones,
        suspect: Callable[[Exception], None],
    ) -> None:
        self._log, self._tombstones, self._suspect = log, tombstones, suspect
        self._submit, self._hurry, self._fault = submit, hurry, fault
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._lock = threading.Condition()
        self._closed = False
        self._pending = 0
        self._submitted = 0
        self._uncommitted: dict[int, Collection[str]] = {}
        """The traces of each batch that the database has not taken, by the batch's number."""
        self.on_sync: Callable[[float], None] | None = None
        """Is told the seconds that each write with its sync took."""
        self._thread = threading.Thread(target=self._run, name="scouter-journal")
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """Bytes of requests that are durable, but not in the database yet."""
        return self._pending

    def append(
        self, space: str, batch: EncodedBatch, received_ns: int, durable: "Future[None]"
    ) -> "Future[SpansAppended]":
        """Take a batch.

        Args:
            space: Space of the batch.
            batch: The spans.
            received_ns: Time of arrival, nanoseconds since the epoch.
            durable: Is done once the batch is in the log and synced.

        Returns:
            Done once it is committed.

        Raises:
            TransientError: The journal is closed.
        """
        entry = _Entry(
            space=space, received_ns=received_ns, batch=batch, durable=durable, future=Future()
        )
        with self._lock:
            if self._closed:
                raise TransientError("the store is closed")
            self._entries.put(entry)
        return entry.future

    def catch_up(self, timeout_s: float, trace_id: str | None = None) -> bool:
        """Wait until everything that was durable before this call is committed.

        Args:
            timeout_s: At most so long.
            trace_id: Only batches with spans of this trace matter.

        Returns:
            False if it is not after that time, or if the database takes nothing now.
        """
        with self._lock:
            wanted = {
                number
                for number, traces in self._uncommitted.items()
                if trace_id is None or trace_id in traces
            }
            if wanted and timeout_s:
                self._hurry()
            self._lock.wait_for(
                lambda: wanted.isdisjoint(self._uncommitted) or bool(self._fault()), timeout_s
            )
            return wanted.isdisjoint(self._uncommitted)

    def close(self) -> None:
        """Write what was appended, then end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._entries.put(None)
        self._thread.join()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            closing = self._write_next()

    def _write_next(self) -> bool:
        """Wait for batches and write them; tells whether these are the last."""
        entries: list[_Entry] = []
        size = 0
        entry = self._entries.get()
        while entry is not None:
            entries.append(entry)
            size += len(entry.batch.body)
            if size >= _SYNC_BYTES or self._entries.empty():
                break
            entry = self._entries.get()
        if entries:
            try:
                self._write(entries)
            except Exception as error:  # noqa: BLE001 the thread outlives any fault
                _log.exception("the journal failed")
                _fail(entries, TransientError(f"the store failed: {error!r}"))
        return entry is None

    def _write(self, entries: list[_Entry]) -> None:
        """Make a group durable, acknowledge it and hand it on."""
        if fault := self._wait_for_room():
            _fail(entries, TransientError(fault))
            return
        entries = list(map(self._without_erased, entries))
        frames = [
            Frame(space=each.space, received_ns=each.received_ns, body=each.batch.body)
            for each in entries
        ]
        began = time.monotonic()
        try:
            places = self._log.append(frames)
        except OSError as error:
            self._suspect(error)
            self._hurry()  # the thread that commits tries whether there is room again
            _fail(entries, TransientError(f"the store cannot write: {error}"))
            return
        if self.on_sync is not None:
            self.on_sync(time.monotonic() - began)
        for entry, place in zip(entries, places, strict=True):
            size = len(entry.batch.body)
            job = SpansJob(
                space=entry.space,
                batch=entry.batch.without_body(),
                received_ns=entry.received_ns,
                place=place,
                erased=entry.erased,
                future=entry.future,
            )
            with self._lock:
                self._pending += size
                self._submitted += 1
                number = self._submitted
                self._uncommitted[number] = entry.batch.traces
            settle = functools.partial(self._committed, number, size)
            entry.future.add_done_callback(settle)
            try:
                self._submit(job)
            except TransientError as error:  # the next start takes it up, or the sender's next try
                _fail([entry], error)
            else:
                entry.durable.set_result(None)

    def _without_erased(self, entry: _Entry) -> _Entry:
        """The entry without the spans that were erased."""
        batch = entry.batch
        kept = self._tombstones.kept(entry.space, batch.spans, batch.traces)
        if kept is None:
            return entry
        # Of none that are left nobody could tell what they were.
        rest = encode_batch([batch.spans[at] for at in kept])._replace(kind=batch.kind)
        return replace(entry, batch=rest, erased=len(batch.spans) - len(kept))

    def _wait_for_room(self) -> str:
        """Wait for the database; says why it takes nothing, if so."""
        with self._lock:
            if self._pending > _PENDING_BYTES:
                self._hurry()
            while self._pending > _PENDING_BYTES and not self._fault():
                self._lock.wait(0.1)
        return self._fault()

    def _committed(self, number: int, size: int, _: "Future[SpansAppended]") -> None:
        with self._lock:
            self._pending -= size
            del self._uncommitted[number]
            self._lock.notify_all()


def _fail(entries: list[_Entry], error: Exception) -> None:
    for entry in entries:
        futures: tuple[Future[Any], ...] = (entry.durable, entry.future)
        for future in futures:
            if not future.done():
                future.set_exception(error)
