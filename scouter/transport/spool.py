"""Batches that are stored on disk while the far side is away, and delivered later."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Final

from scouter.errors import ConfigError, DataError, ScouterError, TransientError
from scouter.transport.drops import NONE_DROPPED, Dropped, joined
from scouter.transport.guard import GUARD
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import NOTHING_WRITTEN, RecordItem, RemoteTransport, encode_record
from scouter.transport.process import own_thread, watch
from scouter.transport.spool_table import Kind, Row, SpoolTable
from scouter.transport.worker import WorkerLimits, backoff_s

_Call = Callable[[], int]
_Send = Callable[[RemoteTransport, Dropped], int]

_CLOSE_S: Final = 0.8
"""A spool that is delivering when it is closed goes on for so long."""
_ROW_BYTES: Final = 8192
"""A row takes up to two pages more than its payload."""
_PATIENCE_S: Final = 2.0
"""Less than a closing process has: what waits behind a batch that hangs still gets to disk."""


class SpoolTransport(OtlpSpans):
    """A transport with a folder behind it.

    While nothing waits, a batch goes straight to the far side. Once the far side is away or slow,
    or takes nothing with these settings, batches go to disk and return at once. A batch on disk
    counts as taken. One thread sends all batches, the oldest first, with growing pauses.

    Args:
        connect: Opens the transport to the far side.
        folder: Folder of the table; made if it is not there.
        max_bytes: Bound of what waits there.
        limits: Pauses between two tries.
        clock: Seconds, monotonic.
        jitter: Random numbers in [0, 1).
        patience_s: Longest wait for the far side's answer before a batch goes to disk. The answer
            may still come, and the batch is sent twice then.

    Raises:
        ConfigError: The folder cannot be used.
        TransientError: The file system refuses.
    """

    def __init__(
        self,
        connect: Callable[[], RemoteTransport],
        folder: Path,
        max_bytes: int,
        limits: WorkerLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._connect, self._limits, self._jitter = connect, limits or WorkerLimits(), jitter
        self._clock, self._patience_s = clock, patience_s
        self._max_bytes = max_bytes
        self._table = SpoolTable(folder, max_bytes)
        self._inner: RemoteTransport | None = None
        self._thread: threading.Thread | None = None
        self._past_disk: tuple[_Call, Future[int]] | None = None  # to be sent past the disk
        self._stored = 1  # batches on disk that the thread has to look for
        self._seen = 0  # of them, when nothing waited
        with contextlib.suppress(TransientError):  # it looks once more
            self._seen = 1 - self._table.look()[0]
        self._is_slow = False  # the last answer took so long that the next one may take too long
        self._end_s: float | None = None  # set by `close`: deliver until then
        self._changed = threading.Condition()
        watch(self)
        self._wake()

    def after_fork_in_child(self) -> None:
        """Stay behind: a child opens a transport of its own."""
        self._changed = threading.Condition()
        self._thread = self._past_disk = None

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver or keep records; see `Transport`."""
        refused = self._direct(lambda inner, drops: inner.send_records(items, drops), dropped)
        if refused is not None:
            return refused
        texts = [(item, text) for item in items if (text := encode_record(item)) is not None]
        if not texts:
            raise DataError(NOTHING_WRITTEN)
        rows = [Row(Kind.RECORD, 1, text) for _, text in texts]
        written = [item for item, _ in texts]
        return (len(items) - len(texts)) + self._keep(
            rows, dropped, lambda inner, drops: inner.send_records(written, drops)
        )

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver or keep spans; see `Transport`."""
        row = Row(Kind.SPANS, count, data)

        def send(inner: RemoteTransport, drops: Dropped) -> int:
            return inner.send_otlp(data, count, drops)

        refused = self._direct(send, dropped, fits=self._fits(row))
        return self._keep([row], dropped, send) if refused is None else refused

    def close(self) -> None:
        """Stop delivering; what waits is delivered by the next process."""
        with self._changed:
            if self._end_s is None:
                self._end_s = self._clock() + _CLOSE_S
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            self._release()
        else:
            thread.join(_CLOSE_S)  # inside a longer send it releases at the end of it

    def _release(self) -> None:
        self._table.close()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

    # --- the worker's side ---

    def _direct(
        self, send: _Send, dropped: Dropped, *, fits: bool = True, in_turn: bool = True
    ) -> int | None:
        """Send past the disk; None if something waits there, or the far side takes nothing now.

        A batch that does not fit on the disk has no other way, and waits for as long as it takes.
        """
        if in_turn and (self._may_wait or (self._is_slow and fits)):
            return None
        with contextlib.suppress(TransientError):  # the disk may fail, the far side be well
            dropped = joined(self._table.look()[1], dropped)
        try:
            refused = self._ask(
                lambda: self._send(lambda inner: send(inner, dropped)),
                self._patience_s if fits else None,
            )
        except (TransientError, ConfigError) as error:
            # Nothing is given up for settings, which this or another process may have right later.
            away = "far side is away" if isinstance(error, TransientError) else "settings are wrong"
            GUARD.refuse("spool", f"the {away}, keeping on disk", error)
            return None
        with contextlib.suppress(TransientError):  # or it hears the same once more
            self._table.note(known=dropped)
        return refused

    def _ask(self, call: _Call, patience_s: float | None) -> int:
        """Have the thread send; without one, send here."""
        answer = Future[int]()
        with self._changed:
            self._wake()
            if has_thread := self._thread is not None:
                self._past_disk = call, answer
        if not has_thread:
            return call()
        if not wait((answer,), patience_s).done:
            answer.cancel()  # if it has not started
            self._is_slow = True
            raise TransientError(f"no answer within {patience_s} s")
        return answer.result()

    def _keep(self, rows: Sequence[Row], dropped: Dropped, send: _Send) -> int:
        """Write rows; returns how many items the far side, or the whole spool, never takes.

        Where the disk is full or fails, they go past those that wait there: else nothing would
        leave any more, though the far side were back.
        """
        fitting = [row for row in rows if self._fits(row)]
        if fitting:
            waited = self._may_wait
            try:
                self._table.append(fitting, dropped)
            except TransientError:
                refused = self._direct(send, dropped, in_turn=False) if waited else None
                if refused is None:
                    raise
                return refused
            self._stored += 1
            self._wake()
        else:
            self._table.note(dropped)  # with the next batch: this one is not sent
        return sum(row.items for row in rows) - sum(row.items for row in fitting)

    @property
    def _may_wait(self) -> bool:
        return self._stored != self._seen

    def _fits(self, row: Row) -> bool:
        return len(row.payload) + _ROW_BYTES <= self._max_bytes

    def _wake(self) -> None:
        """Have the thread look what there is to do."""
        with self._changed:
            self._changed.notify_all()
            if self._thread is not None or self._end_s is not None:
                return
            thread = own_thread(self._run, "scouter-spool")
            try:
                thread.start()
            except RuntimeError as error:  # the interpreter ends, or the system has none to give
                GUARD.refuse("spool", "no thread yet", error)
            else:
                self._thread = thread

    # --- the thread's side: it alone talks to the far side ---

    def _run(self) -> None:
        attempt = 0
        while self._has_more(attempt):
            if self._answer():
                continue
            stored = self._stored
            try:
                if self._deliver():
                    self._seen = stored
                attempt = 0
            except (TransientError, ConfigError) as error:
                attempt += 1
                self._table.put_back()  # another process may have the right settings
                GUARD.refuse("spool", "retrying", error)
                wanted_s = error.retry_after_s if isinstance(error, TransientError) else None
                self._pause(backoff_s(attempt, self._limits, wanted_s, self._jitter()))

    def _has_more(self, attempt: int) -> bool:
        """Wait for something to do; False once the spool is closed."""
        with self._changed:
            while self._past_disk is None and not self._may_wait and self._end_s is None:
                self._changed.wait()
            if self._end_s is None:
                return True
            is_over = attempt or self._clock() >= self._end_s
            if not is_over and (self._past_disk is not None or self._may_wait):
                return True
            self._thread = None
        self._release()
        return False

    def _answer(self) -> bool:
        """Send what is to go past the disk; False if there is nothing."""
        with self._changed:
            direct, self._past_disk = self._past_disk, None
        if direct is None:
            return False
        call, answer = direct
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(call())
            except Exception as error:  # noqa: BLE001 - the caller's
                answer.set_exception(error)
        return True

    def _send(self, send: Callable[[RemoteTransport], int]) -> int:
        started_s = self._clock()
        try:
            if self._inner is None:
                self._inner = self._connect()
            return send(self._inner)
        finally:
            self._is_slow = self._clock() - started_s > self._patience_s / 2

    def _deliver(self) -> bool:
        """Deliver the oldest batch, or wait while another process delivers; True if none waits."""
        if not self._table.lead():
            waits, _ = self._table.look()
            if waits:
                self._pause(self._limits.retry_base_s)
            return not waits
        batch = self._table.oldest()
        if batch is None:
            return True
        reported = self._table.look()[1] if batch.rows else NONE_DROPPED
        reason, refused = "rejected", 0
        try:
            if batch.rows:
                refused = self._send(lambda inner: _send(inner, batch.rows, reported))
        except (TransientError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - the thread has to outlive a bug
            refused, reported = batch.items, NONE_DROPPED
            reason = "permanent" if isinstance(error, ScouterError) else "internal"
            if reason == "permanent":
                GUARD.refuse("spool", reason, error)
            else:
                with contextlib.suppress(type(error)):
                    GUARD.internal("spool", error)
        self._table.settle(batch, reported, {reason: refused})
        return False

    def _pause(self, pause_s: float) -> None:
        """Wait, but send meanwhile what is to go past the disk."""
        until_s = self._clock() + pause_s
        while True:
            with self._changed:
                while self._end_s is None and self._past_disk is None:
                    left_s = until_s - self._clock()
                    if left_s <= 0:
                        return
                    self._changed.wait(left_s)
            if not self._answer():
                return


def _send(inner: RemoteTransport, rows: Sequence[Row], dropped: Dropped) -> int:
    if rows[0].kind == Kind.SPANS:
        (row,) = rows
        return inner.send_otlp(row.payload, row.items, dropped)
    return inner.send_records([_item(row.payload) for row in rows], dropped)


def _item(payload: bytes) -> RecordItem:
    """A record as `encode_record` wrote it."""
    wire = json.loads(payload)
    text = json.dumps(wire.pop("context"), ensure_ascii=False, separators=(",", ":"))
    context = text.encode("utf-8", errors="replace")
    return RecordItem(context_json=context, created_ns=wire.pop("created_at"), **wire)
