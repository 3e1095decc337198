"""One bounded queue with one background thread: what carries records and spans off the host.

`put` neither blocks nor raises: beyond the bound the newest item is dropped and counted. The
thread starts at the first `put`, takes batches by count, bytes or age, retries what may work
later with growing pauses, and gives a batch up after a bounded time, counted.

A signal handler, or the garbage collector when it closes a generator with a span, can call `put`
on a thread that is inside `put` already. So the lock can be taken again by its owner, and no
call separates the reading of a counter from its writing: the interpreter switches only at calls.
"""

import contextlib
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from scouter.errors import ScouterError, TransientError
from scouter.transport.drops import Dropped, report_of
from scouter.transport.guard import GUARD, logger
from scouter.transport.process import arm_exit, close_at_exit, forks_wait, own_thread, watch

T = TypeVar("T")

MEASURED_TOGETHER: Final = 64
"""Items of unknown size that may gather before somebody measures them."""
_MEASURED_WITHIN_S: Final = 0.01
"""They gather no longer: what a process can make in this time is little, however large each is."""
_LEAST_JOIN_S: Final = 0.1
"""A thread whose far side does not hang has closed its transport within this time."""
_WAITED_PAUSE_S: Final = 0.5
"""While somebody waits for the delivery, the next attempt is made after this time at the latest."""
_SMALL_PART: Final = 64
"""Items measured together that take no more than this part of the bound are small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of one worker."""

    max_items: int = sys.maxsize
    max_bytes: int = 64 * 1024 * 1024
    """Estimated size of everything that waits, the batch under way included."""
    max_batch_items: int = 512
    max_batch_bytes: int = 4 * 1024 * 1024
    delay_s: float = 1.0
    """The oldest waiting item is sent after this time at the latest."""
    retry_base_s: float = 0.5
    retry_max_s: float = 30.0
    retry_total_s: float = 300.0
    """After this time of retries a batch is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStats:
    """Counts of the items that were put into a worker; the parts add up to `put`."""

    put: int = 0
    sent: int = 0
    """Taken by the far side."""
    waiting: int = 0
    """Queued or under way."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """By reason: `full`, `closed`, `retries_exhausted`, `permanent`, `rejected`, `internal`."""


Send = Callable[[Sequence[T], Dropped], int]
"""Delivers a batch and reports what was dropped and is not reported yet; returns how many items
the far side refused for good."""


def backoff_s(
    attempt: int, limits: WorkerLimits, retry_after_s: float | None, jitter: float
) -> float:
    """Pause before the next attempt.

    Args:
        attempt: Failures so far, from 1.
        limits: Base and maximum of the pause.
        retry_after_s: Seconds that the far side requested; they are a lower bound.
        jitter: Random number in [0, 1).

    Returns:
        Seconds: half to the whole of base * 2^(attempt-1), at most `retry_max_s`, at least the
        seconds that were requested (themselves capped by `retry_total_s`).
    """
    full = min(limits.retry_max_s, limits.retry_base_s * 2.0 ** min(attempt - 1, 30))
    pause = full * (0.5 + 0.5 * jitter)
    return max(pause, min(retry_after_s or 0.0, limits.retry_total_s))


class BatchWorker(Generic[T]):
    """Bounded queue plus thread.

    Args:
        name: For the thread's name and log lines.
        open_send: Called in the thread before the first batch, and again after a fork; returns
            the function that delivers a batch, and the one that closes its transport.
        limits: Bounds.
        size_of: Estimates the size of an item in bytes, for `put_unmeasured`.
        clock: Seconds, monotonic.
        jitter: Random numbers in [0, 1).
    """

    def __init__(
        self,
        name: str,
        open_send: Callable[[], tuple[Send[T], Callable[[], None]]],
        limits: WorkerLimits | None = None,
        *,
        size_of: Callable[[T], int] = sys.getsizeof,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self._open_send = open_send
        self._limits = limits = limits or WorkerLimits()
        self._batch_items, self._batch_bytes = limits.max_batch_items, limits.max_batch_bytes
        self._size_of = size_of
        self._clock = clock
        self._jitter = jitter
        self._close_at_s: float | None = None
        self._send: Send[T] | None = None
        self._reset()
        close_at_exit(self)
        watch(self)

    def after_fork_in_child(self) -> None:
        """Start empty: the parent keeps, and delivers, what waits."""
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._fresh: deque[T] = deque()  # not measured yet
        self._measure_at = 1  # so many of them at the latest
        self._measure_by_s = 0.0  # and with the next one from this time on
        self._items: deque[T] = deque()
        self._sizes: deque[int] = deque()  # of the items: two queues, but no pair for each item
        self._bytes = 0
        self._in_flight = 0
        self._room = self._limits.max_items  # for what waits beside the batch under way
        self._room_bytes = self._limits.max_bytes
        self._oldest_s = 0.0
        self._refused = 0  # dropped before they waited
        self._taken = 0  # of the accepted ones, those that no longer wait
        self._finished = 0  # of the taken ones, in the order of acceptance
        self._sent = 0
        self._dropped: dict[str, int] = {}
        self._cut_short = 0  # of the dropped ones, those that closing left no time for
        self._sender = os.urandom(8).hex()  # a forked child counts from 0 and is another one
        self._known_drops: Mapping[str, int] = {}  # those the far side knows of
        self._flush_to = 0
        self._waited_until_s = float("-inf")  # by `flush` and `close`
        self._not_before_s = 0.0  # the far side requested silence until then
        self._thread: threading.Thread | None = None
        self._retry_start_s: float | None = None  # a thread could not be started: not before this
        if self._send is not None:
            _ABANDONED.append(self._send)  # a finalizer would end the parent's connections
        self._send = None
        self._close_send: Callable[[], None] | None = None

    # --- callers' side ---

    def put(self, item: T, size_bytes: int) -> bool:
        """Queue one item.

        Args:
            item: Anything.
            size_bytes: Its estimated size.

        Returns:
            False if it was dropped (and counted): the queue is full or closed.
        """
        with self._lock:  # the condition's own: entering it here costs a call less
            return self._add(item, size_bytes)

    def _add(self, item: T, size_bytes: int) -> bool:
        if self._close_at_s is not None:
            return self._refuse("closed")
        items = self._items
        number, before = len(items), self._bytes
        if number >= self._room or before + size_bytes > self._room_bytes:
            return self._refuse("full")
        self._bytes += size_bytes
        self._sizes.append(size_bytes)
        items.append(item)
        if self._thread is None:
            self._start()
        if not number:
            self._oldest_s = self._clock()
            self._changed.notify_all()
        elif number + 1 == self._batch_items or before < self._batch_bytes <= self._bytes:
            self._changed.notify_all()  # once: a thread that is busy now looks by itself later
        if self._close_at_s is not None:  # by a signal handler, since the test above
            self._drop_waiting()
            return False
        return True

    def put_unmeasured(self, item: T) -> None:
        """Queue one item whose size is not known yet.

        Sizes are taken of many items at once, which costs half as much for each: measuring is
        slow where a processor comes to it from other work (`tests.bench.sdk` shows it). Until
        then an item is in no bound. So only what comes within a few milliseconds is measured
        together, and large ones are measured one by one.

        Args:
            item: Anything.
        """
        self._fresh.append(item)  # before the question: the thread looks in the other order
        if len(self._fresh) >= self._measure_at or self._clock() >= self._measure_by_s:
            self._measure()

    def _measure(self) -> None:
        """Put what is not measured yet."""
        with self._lock:
            fresh, number, total = self._fresh, 0, 0
            while fresh:
                try:
                    item = fresh.popleft()
                except IndexError:
                    break  # a signal handler has measured it since the question
                number += 1
                try:
                    size_bytes = self._size_of(item)
                except Exception as error:  # noqa: BLE001 - the others must not suffer from one
                    self._refuse("internal")
                    with contextlib.suppress(type(error)):
                        GUARD.internal(self.name, error)
                    continue
                total += size_bytes
                self._add(item, size_bytes)
            if self._close_at_s is not None or not (self._items or self._in_flight):
                self._measure_at = 1  # the thread sleeps without end, and only a call can wake it
            elif total > self._limits.max_bytes // _SMALL_PART:
                self._measure_at = 1
            elif number >= self._measure_at:
                self._measure_at = min(2 * number, MEASURED_TOGETHER)
            self._measure_by_s = self._clock() + _MEASURED_WITHIN_S

    def drop(self, reason: str) -> None:
        """Count an item that its owner could not even put."""
        with self._changed:
            self._refuse(reason)

    def _refuse(self, reason: str) -> bool:
        self._refused += 1
        self._count_dropped(reason, 1)
        return False

    def _count_dropped(self, reason: str, number: int) -> None:
        if reason not in self._dropped:
            self._dropped[reason] = 0
        self._dropped[reason] += number

    def _drop_waiting(self) -> None:
        """Count everything that waits as dropped for lack of time."""
        left = len(self._items)
        self._items.clear()
        self._sizes.clear()
        self._bytes = 0
        if left:
            self._count_dropped("closed", left)
            self._cut_short += left
        self._taken += left
        self._finished += left

    def _start(self) -> None:
        """Start the thread; where the system has none to give, a later call tries again."""
        now_s = self._clock()
        if self._retry_start_s is not None and now_s < self._retry_start_s:
            return
        thread = own_thread(self._run, f"scouter-{self.name}")
        self._thread = thread  # first, so that a call from inside `start` starts no second one
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            self._retry_start_s = now_s + self._limits.delay_s
            GUARD.refuse(self.name, "no thread yet", error)
        else:
            self._retry_start_s = None
        arm_exit()

    def _start_at_last(self) -> None:
        """Start the thread for items that a failed start left waiting, whatever the pause."""
        if self._thread is None and self._items:
            self._retry_start_s = None
            self._start()

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything put so far is delivered or dropped.

        Args:
            timeout_s: Longest wait; of a worker that was closed nobody waits for longer than
                closing takes.

        Returns:
            True if nothing of it is left.
        """
        with self._changed:
            self._measure()
            target = self._taken + len(self._items)
            self._flush_to = max(self._flush_to, target)
            self._waited_until_s = max(self._waited_until_s, self._clock() + timeout_s)
            self._start_at_last()
            self._changed.notify_all()
            if self._close_at_s is not None:  # what a hanging send holds then is lost already
                timeout_s = min(timeout_s, self._close_at_s - self._clock())
            return self._changed.wait_for(lambda: self._finished >= target, timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Deliver what waits, then end the thread; later `put`s are dropped as `closed`.

        Args:
            timeout_s: Longest wait; what is left then is dropped and counted.

        Returns:
            True if nothing had to be dropped for lack of time.
        """
        end_s = time.monotonic() + timeout_s
        with self._changed:
            is_first = self._close_at_s is None
            if self._close_at_s is None:
                self._measure()
                self._close_at_s = self._waited_until_s = self._clock() + timeout_s
                self._measure_at = 1  # what came in between is counted as `closed` later
            self._start_at_last()
            self._changed.notify_all()
            thread = self._thread
            if thread is None:
                self._drop_waiting()
                return self._cut_short == 0
            if thread is threading.current_thread():
                return True
            self._changed.wait_for(lambda: not (self._items or self._in_flight), timeout_s)
            self._drop_waiting()
            lost = self._cut_short + self._in_flight
            self._close_at_s = min(self._close_at_s, self._clock())
            self._changed.notify_all()
        thread.join(min(max(end_s - time.monotonic(), _LEAST_JOIN_S), 1.0))
        if lost and is_first:  # nobody reads the counts of a process that has ended
            logger.warning(
                "%s: %d items were not delivered within %.1f s of closing, and are lost",
                self.name, lost, timeout_s,
            )  # fmt: skip
        return not lost

    @property
    def stats(self) -> WorkerStats:
        """A consistent snapshot of the counters."""
        with self._changed:
            self._measure()
            return WorkerStats(
                put=self._refused + self._taken + len(self._items),
                sent=self._sent,
                waiting=len(self._items) + self._in_flight,
                dropped=dict(self._dropped),
            )

    # --- the thread's side ---

    def _run(self) -> None:
        try:
            self._opened()  # early: nothing can be opened any more once the interpreter ends
        except Exception as error:  # noqa: BLE001 - it comes again, and is sorted, with the first batch
            GUARD.refuse(self.name, "not open yet", error)
        while batch := self._next_batch():
            sent, reason = self._deliver(batch)
            with self._changed:
                self._sent += sent
                if lost := len(batch) - sent:
                    self._count_dropped(reason, lost)
                    self._cut_short += lost if reason == "closed" else 0
                self._finished += len(batch)
                self._make_room(0, 0)
                self._changed.notify_all()
        close_send, self._send, self._close_send = self._close_send, None, None
        if close_send is not None:
            close_send()

    def _next_batch(self) -> list[T]:
        """Wait until a batch is due; empty when the worker is closed and nothing waits."""
        limits = self._limits
        with self._changed:
            while True:
                self._measure()
                if self._items:
                    age_s = self._clock() - self._oldest_s
                    if (
                        age_s >= limits.delay_s
                        or len(self._items) >= limits.max_batch_items
                        or self._bytes >= limits.max_batch_bytes
                        or self._finished < self._flush_to
                        or self._close_at_s is not None
                    ):
                        return self._take()
                    self._changed.wait(limits.delay_s - age_s)
                elif self._close_at_s is not None:
                    return []
                elif not self._fresh:  # looked at after `_measure_at` is 1: no item slips through
                    self._changed.wait()

    def _take(self) -> list[T]:
        items, size, limits = self._items, self._bytes, self._limits
        batch: list[T]
        if len(items) <= limits.max_batch_items and size <= limits.max_batch_bytes:
            fresh: tuple[deque[T], deque[int]] = deque(), deque()
            items, size = self._items, self._bytes  # no call from here on: all or nothing
            self._items, self._sizes = fresh
            batch = list(items)
        else:
            batch = []
            size = 0
            while items and len(batch) < limits.max_batch_items:
                if batch and size + self._sizes[0] > limits.max_batch_bytes:
                    break
                batch.append(items.popleft())
                size += self._sizes.popleft()
        number = len(batch)
        self._taken += number
        self._bytes -= size
        self._make_room(number, size)
        return batch

    def _make_room(self, in_flight: int, in_flight_bytes: int) -> None:
        self._in_flight = in_flight
        self._room = self._limits.max_items - in_flight
        self._room_bytes = self._limits.max_bytes - in_flight_bytes

    def _deliver(self, items: Sequence[T]) -> tuple[int, str]:
        """Send one batch until it is taken or given up; returns (taken, reason of the rest)."""
        started_s = self._clock()
        pause_s = self._not_before_s - started_s
        attempt = 0
        while True:
            if pause_s > 0 and not self._pause(pause_s):
                return 0, "closed"
            with self._changed:
                dropped = dict(self._dropped)
            try:
                rejected = self._opened()(
                    items, report_of(self._sender, dropped, self._known_drops)
                )
            except TransientError as error:
                attempt += 1
                now_s, total_s = self._clock(), self._limits.retry_total_s
                if error.retry_after_s:  # not for ever, whatever it requests
                    self._not_before_s = now_s + min(error.retry_after_s, total_s)
                left_s = started_s + total_s - now_s
                if left_s <= 0:
                    GUARD.refuse(self.name, "retries_exhausted", error)
                    return 0, "retries_exhausted"
                GUARD.refuse(self.name, "retrying", error)
                pause_s = backoff_s(attempt, self._limits, error.retry_after_s, self._jitter())
                pause_s = min(pause_s, left_s)  # and once more when the time is over
            except ScouterError as error:
                GUARD.refuse(self.name, "permanent", error)
                return 0, "permanent"
            except Exception as error:  # noqa: BLE001 - the thread has to outlive a bug
                with contextlib.suppress(type(error)):
                    GUARD.internal(self.name, error)
                return 0, "internal"
            else:
                self._known_drops = dropped
                return len(items) - rejected, "rejected"

    def _pause(self, pause_s: float) -> bool:
        """Wait before another attempt; False if the worker's time is over."""
        began_s = self._clock()
        with self._changed:
            while True:
                now_s, until_s = self._clock(), began_s + pause_s
                if now_s < self._waited_until_s:  # never before the far side wants it
                    until_s = min(until_s, max(began_s + _WAITED_PAUSE_S, self._not_before_s))
                close_at_s = self._close_at_s
                if close_at_s is not None and now_s >= close_at_s:
                    return False
                if now_s >= until_s:
                    return True
                end_s = until_s if close_at_s is None else min(until_s, close_at_s)
                self._changed.wait(end_s - now_s)

    def _opened(self) -> Send[T]:
        if self._send is None:
            with forks_wait():
                self._send, self._close_send = self._open_send()
            arm_exit()  # anew, so that it runs before the exit hook of a client library
        return self._send


_ABANDONED: Final[list[object]] = []
