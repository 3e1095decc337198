"""The bounded worker: nothing blocks, nothing is lost without being counted."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.export import SpanExport
from scouter.transport.config import BatchConfig, MockConfig, TransportConfig
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import MockTransport, Transport
from scouter.transport.worker import (
    MEASURED_TOGETHER,
    BatchWorker,
    Send,
    WorkerLimits,
    backoff_s,
)
from tests.contracts.transport_data import news
from tests.support.processes import wait_until

WAIT_S = 120
"""Deadline of every wait in these tests; they end as soon as what they wait for happens."""

FAST = WorkerLimits(delay_s=0.001, retry_base_s=0.001, retry_max_s=0.002)


class Far:
    """A far side: takes batches, or fails as configured; can be shut."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures: list[Exception] = []
        self.news: list[dict[str, int]] = []
        self.reports: list[Dropped] = []
        self.attempts = 0
        self.times_s: list[float] = []  # of the attempts
        self.rejects = 0
        self.is_open = threading.Event()
        self.is_open.set()
        self.entered = threading.Event()
        self.closed = threading.Event()
        self.opened = 0

    def open(self) -> tuple[Send[int], Callable[[], None]]:
        self.opened += 1
        return self.send, self.closed.set

    def send(self, items: Sequence[int], dropped: Dropped) -> int:
        self.attempts += 1
        self.times_s.append(time.monotonic())
        self.entered.set()
        assert self.is_open.wait(WAIT_S)
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(list(items))
        self.news.append(news(dropped))
        self.reports.append(dropped)
        return self.rejects

    @property
    def items(self) -> list[int]:
        return [item for batch in self.batches for item in batch]


def make(far: Far, limits: WorkerLimits = FAST, **more: Any) -> BatchWorker[int]:
    return BatchWorker("test", far.open, limits, **more)


def test_items_arrive_in_order() -> None:
    far = Far()
    worker = make(far)

    assert all(worker.put(n, 1) for n in range(1000))
    assert worker.flush(WAIT_S)

    assert far.items == list(range(1000))
    assert (worker.stats.put, worker.stats.sent, worker.stats.waiting) == (1000, 1000, 0)
    assert worker.close(WAIT_S)
    assert far.closed.wait(WAIT_S)


def test_nothing_starts_before_the_first_put() -> None:
    far = Far()
    before = threading.active_count()
    worker = make(far)

    assert worker.flush(0.0)
    assert worker.close(0.0)
    assert threading.active_count() == before
    assert far.opened == 0


def test_a_batch_goes_when_it_is_full_by_count() -> None:
    """With an hour's delay only the count can be the reason."""
    far = Far()
    worker = make(far, WorkerLimits(delay_s=3600, max_batch_items=3))

    for n in range(3):
        worker.put(n, 1)

    assert far.entered.wait(WAIT_S)
    assert worker.flush(WAIT_S)
    assert far.batches == [[0, 1, 2]]
    worker.close(WAIT_S)


def test_a_batch_goes_when_it_is_full_by_bytes() -> None:
    """100 + 100 bytes reach the limit; the third item does not fit into the same batch."""
    far = Far()
    far.is_open.clear()
    worker = make(far, WorkerLimits(delay_s=3600, max_batch_bytes=200))

    worker.put(1, 100)
    worker.put(2, 100)
    assert far.entered.wait(WAIT_S)
    worker.put(3, 150)
    worker.put(4, 150)
    far.is_open.set()
    assert worker.flush(WAIT_S)

    assert far.batches == [[1, 2], [3], [4]]
    worker.close(WAIT_S)


def test_a_batch_goes_when_it_is_old() -> None:
    far = Far()
    worker = make(far, WorkerLimits(delay_s=0.01))

    worker.put(1, 1)

    assert far.entered.wait(WAIT_S)
    worker.close(WAIT_S)


def test_the_newest_is_dropped_when_the_queue_is_full_by_count() -> None:
    far = Far()
    far.is_open.clear()
    worker = make(far, WorkerLimits(delay_s=0.001, max_items=5, max_batch_items=2))

    taken = [worker.put(n, 1) for n in range(8)]  # what is under way counts too
    far.is_open.set()
    assert worker.flush(WAIT_S)

    assert taken == [True] * 5 + [False] * 3
    assert far.items == [0, 1, 2, 3, 4]
    assert worker.stats.dropped == {"full": 3}
    assert worker.put(9, 1)
    worker.close(WAIT_S)


def test_the_newest_is_dropped_when_the_queue_is_full_by_bytes() -> None:
    far = Far()
    far.is_open.clear()
    worker = make(far, WorkerLimits(delay_s=0.001, max_bytes=100))

    taken = [worker.put(1, 60), worker.put(2, 60), worker.put(3, 40), worker.put(4, 1)]
    far.is_open.set()
    assert worker.flush(WAIT_S)

    assert taken == [True, False, True, False]
    assert far.items == [1, 3]
    worker.close(WAIT_S)


def test_flush_waits_for_what_was_taken_not_for_what_was_dropped() -> None:
    """Refused items come later than accepted ones and must not stand in for them."""
    far = Far()
    far.is_open.clear()
    worker = make(far, WorkerLimits(delay_s=0.001, max_items=2))
    for n in range(10):
        worker.put(n, 1)

    assert not worker.flush(0.02)
    far.is_open.set()
    assert worker.flush(WAIT_S)
    assert far.items == [0, 1]
    worker.close(WAIT_S)


def test_what_may_work_later_is_tried_again() -> None:
    far = Far()
    far.failures = [TransientError("busy"), TransientError("busy", retry_after_s=0.01)]
    worker = make(far)

    worker.put(1, 1)
    assert worker.flush(WAIT_S)

    assert far.items == [1]
    assert far.attempts == 3
    assert worker.stats.dropped == {}
    worker.close(WAIT_S)


def test_retries_end() -> None:
    far = Far()
    far.failures = [TransientError("away") for _ in range(1000)]
    worker = make(far, WorkerLimits(delay_s=0.001, retry_base_s=0.001, retry_total_s=0.05))

    worker.put(1, 1)
    assert worker.flush(WAIT_S)

    assert worker.stats.dropped == {"retries_exhausted": 1}
    far.failures = []
    worker.put(2, 1)
    assert worker.flush(WAIT_S)
    assert far.items == [2]
    worker.close(WAIT_S)


HOUR = WorkerLimits(delay_s=0.001, retry_base_s=3600, retry_max_s=3600, retry_total_s=7200)


@pytest.mark.parametrize("wait", ["flush", "close"])
def test_whoever_waits_does_not_wait_for_a_pause(wait: str) -> None:
    """Kind: what is given up beside a far side that has come back, as the pause is not over."""
    far = Far()
    far.failures = [TransientError("away")] * 2
    worker = make(far, HOUR)
    worker.put(1, 1)
    wait_until(lambda: far.attempts == 1, what="the first attempt")

    assert getattr(worker, wait)(WAIT_S)
    assert (far.items, worker.stats.dropped) == ([1], {})
    worker.close(WAIT_S)


def test_a_far_side_that_asks_for_silence_has_it_while_somebody_waits() -> None:
    far = Far()
    far.failures = [TransientError("busy", 3600)]
    worker = make(far, HOUR)
    worker.put(1, 1)
    wait_until(lambda: far.attempts == 1, what="the first attempt")

    assert not worker.flush(1.0)
    assert not worker.close(0.1)
    assert (far.attempts, worker.stats.dropped) == (1, {"closed": 1})


def test_a_wait_beyond_the_time_of_retries_is_cut_to_it() -> None:
    """The batch is tried once more at the end of its time."""
    far = Far()
    far.failures = [TransientError("busy", retry_after_s=600.0)]
    worker = make(far, WorkerLimits(delay_s=0.001, retry_base_s=0.001, retry_total_s=0.1))

    worker.put(1, 1)
    assert worker.flush(WAIT_S)

    assert (far.items, worker.stats.dropped) == ([1], {})
    assert far.times_s[1] - far.times_s[0] >= 0.1
    worker.close(WAIT_S)


def test_the_next_batch_keeps_the_silence_that_was_requested() -> None:
    """Only so long as one batch is tried, even if the far side asks for a year."""
    far = Far()
    far.failures = [TransientError("busy", retry_after_s=3e7) for _ in range(2)]
    worker = make(far, WorkerLimits(delay_s=0.001, retry_base_s=0.001, retry_total_s=0.1))

    worker.put(1, 1)
    assert worker.flush(WAIT_S)
    worker.put(2, 1)
    assert worker.flush(WAIT_S)

    assert (far.items, worker.stats.dropped) == ([2], {"retries_exhausted": 1})
    assert far.times_s[2] - far.times_s[1] >= 0.1
    worker.close(WAIT_S)


def test_closing_does_not_wait_for_the_silence_to_end() -> None:
    far = Far()
    far.failures = [TransientError("busy", retry_after_s=600.0)]
    worker = make(far, WorkerLimits(delay_s=0.001, max_batch_items=1))
    for n in range(3):
        worker.put(n, 1)
    assert far.entered.wait(WAIT_S)

    in_time(lambda: worker.close(0.05))
    assert worker.stats.dropped == {"closed": 3}
    assert far.closed.wait(WAIT_S)


@pytest.mark.parametrize("error", [DataError("bad"), ConfigError("never")])
def test_a_final_error_costs_one_batch(error: Exception) -> None:
    far = Far()
    far.failures = [error]
    worker = make(far)

    worker.put(1, 1)
    assert worker.flush(WAIT_S)
    worker.put(2, 1)
    assert worker.flush(WAIT_S)

    assert far.items == [2]
    assert worker.stats.dropped == {"permanent": 1}
    worker.close(WAIT_S)


def test_a_bug_of_ours_costs_one_batch_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    GUARD.strict = False
    far = Far()
    far.failures = [ZeroDivisionError("bug")]
    worker = make(far)

    worker.put(1, 1)
    assert worker.flush(WAIT_S)
    worker.put(2, 1)
    assert worker.flush(WAIT_S)

    assert far.items == [2]
    assert worker.stats.dropped == {"internal": 1}
    assert "internal error" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    worker.close(WAIT_S)


def test_what_the_far_side_refuses_is_counted() -> None:
    far = Far()
    far.rejects = 2
    worker = make(far, WorkerLimits(delay_s=3600, max_batch_items=5))

    for n in range(5):
        worker.put(n, 1)
    assert worker.flush(WAIT_S)

    assert worker.stats.sent == 3
    assert worker.stats.dropped == {"rejected": 2}
    worker.close(WAIT_S)


def test_drops_are_counted_from_the_senders_start() -> None:
    """So that a report that arrives twice, or late, can be distinguished from another one."""
    far = Far()
    worker, other = make(far), make(far)
    for each in (worker, other):
        for n in range(2):
            each.drop("invalid")
            each.put(n, 1)
            assert each.flush(WAIT_S)
        each.close(WAIT_S)

    senders = [next(iter(report))[0] for report in far.reports]
    assert [list(report.values()) for report in far.reports] == [[(0, 1)], [(1, 2)]] * 2
    assert senders[0] == senders[1] != senders[2] == senders[3]


def test_drops_are_reported_once_with_the_next_batch_that_arrives() -> None:
    """Two drops, a failed attempt, a batch that tells of both; then one more drop, and one."""
    far = Far()
    far.failures = [TransientError("busy")]
    worker = make(far)
    worker.drop("invalid")
    worker.drop("invalid")

    worker.put(1, 1)
    assert worker.flush(WAIT_S)
    worker.put(2, 1)
    assert worker.flush(WAIT_S)
    worker.drop("sampled")
    worker.put(3, 1)
    assert worker.flush(WAIT_S)

    assert far.batches == [[1], [2], [3]]
    assert far.news == [{"invalid": 2}, {}, {"sampled": 1}]
    ((sender, _),) = far.reports[0]
    assert far.reports[2] == {(sender, "sampled"): (0, 1)}
    assert worker.stats.put == 6
    worker.close(WAIT_S)


def test_a_far_side_that_cannot_be_opened_yet_is_tried_again() -> None:
    far = Far()
    attempts = [TransientError("no broker"), TransientError("no broker")]

    def open_send() -> tuple[Send[int], Callable[[], None]]:
        if attempts:
            raise attempts.pop()
        return far.open()

    worker: BatchWorker[int] = BatchWorker("test", open_send, FAST)
    worker.put(1, 1)

    assert worker.flush(WAIT_S)
    assert far.items == [1]
    worker.close(WAIT_S)


def test_closing_delivers_what_waits_and_refuses_what_comes() -> None:
    far = Far()
    worker = make(far, WorkerLimits(delay_s=3600))
    for n in range(10):
        worker.put(n, 1)

    assert worker.close(WAIT_S)

    assert far.items == list(range(10))
    assert not worker.put(11, 1)
    assert worker.stats.dropped == {"closed": 1}
    assert worker.close(0.0)
    assert far.closed.wait(WAIT_S)


def test_closing_is_bounded_while_the_far_side_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """With pauses of an hour between attempts, only the deadline can end it; it is said once."""
    far = Far()
    far.failures = [TransientError("away") for _ in range(1000)]
    limits = WorkerLimits(
        delay_s=0.001, max_batch_items=1, retry_base_s=3600, retry_max_s=3600, retry_total_s=1e9
    )
    worker = make(far, limits)
    for n in range(3):
        worker.put(n, 1)
    assert far.entered.wait(WAIT_S)

    assert not worker.close(0.05)

    assert far.closed.wait(WAIT_S)
    assert worker.stats.waiting == 0
    assert worker.stats.dropped == {"closed": 3}
    worker.close(0.05)
    messages = [each.getMessage() for each in caplog.records if "lost" in each.getMessage()]
    assert messages == ["test: 3 items were not delivered within 0.1 s of closing, and are lost"]


@pytest.mark.pace
def test_nobody_waits_for_a_worker_that_was_closed() -> None:
    """A host's own provider flushes at the end of the process, after our closing gave up."""
    far = Far()
    far.is_open.clear()
    worker = make(far)
    worker.put(1, 1)
    assert far.entered.wait(WAIT_S)
    assert not worker.close(0.05)

    started_s = time.monotonic()
    assert not worker.flush(2.0)
    assert time.monotonic() - started_s < 1.0
    far.is_open.set()
    assert far.closed.wait(WAIT_S)
    assert worker.flush(WAIT_S)


def test_closing_waits_no_longer_for_a_thread_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over while the far side answers nothing: it is joined for a moment only."""
    go_on = threading.Event()
    joined: list[float] = []

    def open_send() -> tuple[Callable[[Sequence[int], Dropped], int], Callable[[], None]]:
        return lambda items, dropped: 0 if go_on.wait(WAIT_S) else 1, lambda: None

    worker = BatchWorker[int]("test", open_send, FAST)
    worker.put(1, 1)
    with monkeypatch.context() as patch:

        def join(thread: threading.Thread, timeout: float) -> None:
            joined.append(timeout)

        patch.setattr(threading.Thread, "join", join)
        assert not worker.close(0.3)
    go_on.set()

    assert joined == [pytest.approx(0.1)]


@given(
    st.integers(1, 60),
    st.none() | st.floats(0, 1e6),
    st.floats(0, 1, exclude_max=True),
)
def test_the_pause_is_bounded_and_honours_the_far_side(
    attempt: int, retry_after_s: float | None, jitter: float
) -> None:
    limits = WorkerLimits(retry_base_s=0.5, retry_max_s=30, retry_total_s=300)
    full = min(30.0, 0.5 * 2.0 ** (attempt - 1))

    pause = backoff_s(attempt, limits, retry_after_s, jitter)

    assert pause >= min(retry_after_s or 0.0, 300.0)
    assert pause >= full / 2
    assert pause <= max(full, retry_after_s or 0.0)


def test_the_pause_grows_as_worked_out_by_hand() -> None:
    limits = WorkerLimits(retry_base_s=1, retry_max_s=10)

    assert [backoff_s(n, limits, None, 0.0) for n in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 4, 5]
    assert backoff_s(1, limits, 7.0, 0.9) == 7.0


@pytest.mark.parametrize("is_measured", [True, False])
@given(
    puts=st.lists(st.integers(1, 50), max_size=200),
    failures=st.lists(st.sampled_from([TransientError("t"), DataError("d")]), max_size=5),
)
def test_everything_put_is_somewhere(
    is_measured: bool, puts: list[int], failures: list[Exception]
) -> None:
    """Sent plus dropped plus waiting is put at any time, whatever the far side does."""
    GUARD.strict = True
    far = Far()
    far.failures = list(failures)
    limits = WorkerLimits(
        max_items=20, max_bytes=400, max_batch_items=4, delay_s=0.0005,
        retry_base_s=0.0001, retry_max_s=0.0002,
    )  # fmt: skip
    worker = make_measuring(far, limits)
    for size in puts:
        if is_measured:
            worker.put(size, size)
        else:
            worker.put_unmeasured(size)
    stats = worker.stats
    assert stats.put == len(puts) == stats.sent + sum(stats.dropped.values()) + stats.waiting
    assert worker.flush(WAIT_S)

    stats = worker.stats
    assert stats.put == len(puts) == stats.sent + sum(stats.dropped.values())
    assert (stats.waiting, stats.sent) == (0, len(far.items))
    worker.close(WAIT_S)


def test_many_threads_put_at_once() -> None:
    far = Far()
    worker = make(far, WorkerLimits(delay_s=0.001, max_items=100_000))

    def put_many(start: int) -> None:
        for n in range(start, start + 1000):
            worker.put(n, 1)

    threads = [threading.Thread(target=put_many, args=(1000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert worker.flush(WAIT_S)
    assert sorted(far.items) == list(range(8000))
    worker.close(WAIT_S)


# --- items of unknown size ---


def make_measuring(far: Far, limits: WorkerLimits = FAST) -> BatchWorker[int]:
    """A worker whose items are their own sizes."""
    return BatchWorker("test", far.open, limits, size_of=lambda item: item)


def test_unmeasured_items_arrive_in_order_without_another_call() -> None:
    far = Far()
    worker = make_measuring(far, WorkerLimits(delay_s=0.001, max_batch_items=7))
    for n in range(500):
        worker.put_unmeasured(n)
    with worker._changed:  # pyright: ignore[reportPrivateUsage]
        assert worker._changed.wait_for(lambda: len(far.items) == 500, WAIT_S)  # pyright: ignore[reportPrivateUsage]

    assert far.items == list(range(500))
    worker.close(WAIT_S)


@pytest.mark.parametrize(("size", "taken"), [(1, 6_400), (100, 64), (3_000, 2)])
def test_unmeasured_items_are_within_the_bound_once_they_are_measured(
    size: int, taken: int
) -> None:
    """While the far side is away only 64 small items, or one large one, can be beyond it."""
    far = Far()
    far.is_open.clear()
    worker = make_measuring(far, WorkerLimits(delay_s=0.001, max_bytes=6_400))
    most = 0
    for _ in range(7_000):
        worker.put_unmeasured(size)
        most = max(most, size * (len(worker._fresh) + len(worker._items)))  # pyright: ignore[reportPrivateUsage]
    stats = worker.stats
    assert (stats.put, stats.waiting, stats.dropped) == (7_000, taken, {"full": 7_000 - taken})
    assert most <= 6_400 + max(size, MEASURED_TOGETHER)
    far.is_open.set()
    assert worker.flush(WAIT_S)
    assert worker.stats.sent == taken
    worker.close(WAIT_S)


class Shut(MockTransport):
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()

    def send_records(self, items: Sequence[object], dropped: Dropped = NONE_DROPPED) -> int:
        self.entered.set()
        assert self.let_go.wait(WAIT_S)
        return 0

    def send_spans(self, spans: Sequence[object], dropped: Dropped = NONE_DROPPED) -> int:
        return self.send_records(spans)


class ShutConfig(MockConfig):
    far: Any

    def open(self) -> Transport:
        return self.far


def records_to(config: TransportConfig, limits: WorkerLimits) -> tuple[Any, Callable[[str], None]]:
    """A queue of records, and what inserts one with a text."""
    task = AssertionTask(
        id="t", context_path="x", operator=ComparisonOperator.Equals, expected_value=1
    )
    queue = ScouterQueue({"a": AgentEvalProfile(tasks=[task], alias="a")}, config, limits)
    return queue._worker, lambda text: queue["a"].insert(EvalRecord({"x": text}))  # pyright: ignore[reportPrivateUsage]


def spans_to(config: TransportConfig, limits: WorkerLimits) -> tuple[Any, Callable[[str], None]]:
    """A queue of spans, and what puts one with a text."""
    batch_config = BatchConfig(max_queue_bytes=limits.max_bytes, scheduled_delay_ms=1)
    export = SpanExport(config, batch_config)
    tracer = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False).get_tracer("x")

    def put(text: str) -> None:
        span = tracer.start_span("x", attributes={"text": text})
        span.end()
        export.put_unmeasured((cast(ReadableSpan, span), {}, None))

    return export, put


@pytest.mark.parametrize("queue_to", [records_to, spans_to])
def test_large_items_after_small_ones_are_within_the_bound(
    queue_to: Callable[[TransportConfig, WorkerLimits], tuple[Any, Callable[[str], None]]],
) -> None:
    """The small ones are measured 64 at a time; a large one takes its time to be made."""
    far, now_s = Shut(), [0.0]
    worker, put = queue_to(ShutConfig(far=far), WorkerLimits(delay_s=0.001, max_bytes=16_000_000))
    put("first")
    assert far.entered.wait(WAIT_S)
    worker._clock = lambda: now_s[0]
    while worker._measure_at < MEASURED_TOGETHER or worker._fresh:
        put("small")
    small = worker.stats
    for _ in range(MEASURED_TOGETHER - 1):
        now_s[0] += 0.011
        put("x" * 4_000_000)
        assert (len(worker._fresh), worker._bytes < 16_000_000) == (0, True)

    stats = worker.stats
    assert (stats.waiting, stats.dropped) == (small.waiting + 3, {"full": 60})
    far.let_go.set()
    worker.close(WAIT_S)


def test_many_threads_put_unmeasured_at_once_while_one_closes() -> None:
    """Items before the end are delivered, and later ones are counted."""
    far = Far()
    worker = make_measuring(far, WorkerLimits(delay_s=0.001))

    def put_many() -> None:
        for _ in range(2_000):
            worker.put_unmeasured(1)

    threads = [threading.Thread(target=put_many) for _ in range(6)]
    for thread in threads:
        thread.start()
    worker.close(WAIT_S)
    for thread in threads:
        thread.join()

    stats = worker.stats
    assert (stats.put, stats.waiting) == (12_000, 0)
    assert stats.sent + stats.dropped.get("closed", 0) == 12_000
    assert set(stats.dropped) <= {"closed"}


def test_measuring_can_be_reentered_as_a_signal_handler_does() -> None:
    """Two more items come while the first is measured, and are measured before it."""
    far = Far()
    more = [3, 2]

    def size_of(item: int) -> int:
        if more:
            worker.put_unmeasured(more.pop())
        return item

    worker: BatchWorker[int] = BatchWorker("test", far.open, FAST, size_of=size_of)
    in_time(lambda: worker.put_unmeasured(1))

    assert worker.flush(WAIT_S)
    assert sorted(far.items) == [1, 2, 3]
    assert (worker.stats.put, worker.stats.sent) == (3, 3)
    worker.close(WAIT_S)


def test_an_item_that_cannot_be_measured_costs_no_other() -> None:
    far = Far()

    def size_of(item: int) -> int:
        return 100 // item

    worker: BatchWorker[int] = BatchWorker("test", far.open, FAST, size_of=size_of)
    GUARD.strict = True
    for n in (1, 0, 2):
        worker.put_unmeasured(n)

    assert worker.flush(WAIT_S)
    assert far.items == [1, 2]
    assert worker.stats.dropped == {"internal": 1}
    worker.close(WAIT_S)


FORK = """
import os, sys, threading
from scouter.transport.worker import BatchWorker, WorkerLimits

def open_send():
    def send(items, dropped):
        os.write(out, b"".join(b"%d %d\\n" % (os.getpid(), item) for item in items))
        return 0
    return send, lambda: None

read, out = os.pipe()
worker = BatchWorker("test", open_send, WorkerLimits(delay_s=3600))
worker.put(1, 1)
child = os.fork()
if child == 0:
    stats = worker.stats
    assert (stats.put, stats.waiting) == (0, 0), stats
    worker.put(2, 1)
    assert worker.close(20)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert worker.close(20)
os.close(out)
lines = sorted(os.read(read, 1000).decode().split("\\n")[:-1], key=lambda l: l.split()[1])
assert lines == [f"{os.getpid()} 1", f"{child} 2"], lines
print("once each")
"""

EXIT = """
from scouter.transport.worker import BatchWorker, WorkerLimits

def open_send():
    def send(items, dropped):
        print(*items, flush=True)
        return 0
    return send, lambda: print("closed", flush=True)

worker = BatchWorker("test", open_send, WorkerLimits(delay_s=3600))
worker.put(1, 1)
worker.put(2, 1)
"""


def run(code: str) -> str:
    """Run a program with the interpreter of the tests."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_starts_empty_and_both_deliver_their_own() -> None:
    assert run(FORK) == "once each\n"


def test_a_short_script_delivers_at_its_end() -> None:
    assert run(EXIT) == "1 2\nclosed\n"


TOGETHER = """
import os, threading
from scouter.transport.worker import BatchWorker, WorkerLimits

both = threading.Barrier(2)

def open_send():
    def send(items, dropped):
        both.wait(4)
        os.write(1, b"sent\\n")
        return 0
    return send, lambda: None

workers = [BatchWorker(f"w{n}", open_send, WorkerLimits(delay_s=3600)) for n in range(2)]
for worker in workers:
    worker.put(1, 1)
"""


def test_at_the_end_no_worker_waits_for_another() -> None:
    """Each far side answers once both were sent to."""
    assert run(TOGETHER) == "sent\n" * 2


def in_time(work: Callable[[], object]) -> None:
    """Run on a thread of its own, so that a deadlock fails the test instead of hanging it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "deadlock"


def test_put_can_be_reentered_as_a_signal_handler_does() -> None:
    """The clock is read inside `put`, under its lock; here it puts two items more."""
    far = Far()
    more = [3, 2]

    def clock() -> float:
        if more and threading.current_thread().name != "scouter-test":
            worker.put(more.pop(), 1)
        return 0.0

    worker = make(far, WorkerLimits(delay_s=3600, max_batch_items=3), clock=clock)
    in_time(lambda: worker.put(1, 1))

    assert worker.flush(WAIT_S)
    assert sorted(far.items) == [1, 2, 3]
    assert (worker.stats.put, worker.stats.sent, worker.stats.waiting) == (3, 3, 0)
    worker.close(WAIT_S)


def test_closing_from_inside_put_leaves_nothing_uncounted() -> None:
    far = Far()
    closing = [True]

    def clock() -> float:
        if threading.current_thread().name != "scouter-test" and closing:
            closing.clear()
            worker.close(0.0)
        return 0.0

    worker = make(far, clock=clock)
    in_time(lambda: worker.put(1, 1))

    assert far.closed.wait(WAIT_S)
    stats = worker.stats
    assert (stats.put, stats.waiting) == (1, 0)
    assert stats.sent + sum(stats.dropped.values()) == 1


def test_the_guard_can_be_reentered(monkeypatch: pytest.MonkeyPatch) -> None:
    def reenter(item: object) -> None:
        del item
        monkeypatch.setattr("scouter.transport.guard.watch", id)
        with GUARD._lock:  # pyright: ignore[reportPrivateUsage]
            GUARD.refuse("inside", "reason", "text")

    monkeypatch.setattr("scouter.transport.guard.watch", reenter)
    in_time(lambda: GUARD.refuse("outside", "reason", "text"))


def test_a_thread_that_cannot_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start fails as the system's limit of threads makes it fail."""
    far = Far()
    now = [0.0]
    worker = make(far, WorkerLimits(delay_s=1.0), clock=lambda: now[0])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        assert worker.put(1, 1)
        assert worker.put(2, 1)
    now[0] = 2.0
    assert worker.put(3, 1)

    assert worker.flush(WAIT_S)
    assert far.items == [1, 2, 3]
    assert (worker.stats.put, worker.stats.dropped) == (3, {})
    worker.close(WAIT_S)


@pytest.mark.parametrize("last", ["flush", "close"])
def test_flush_and_close_start_the_thread_that_put_could_not(
    monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    far = Far()
    worker = make(far, clock=lambda: 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        assert worker.put(1, 1)

    assert getattr(worker, last)(WAIT_S)
    assert far.items == [1]
    worker.close(WAIT_S)


def test_without_any_thread_closing_counts_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make(Far())
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    assert worker.put(1, 1)

    assert not worker.close(WAIT_S)
    assert (worker.stats.put, worker.stats.waiting) == (1, 0)
    assert worker.stats.dropped == {"closed": 1}


def _no_thread(thread: threading.Thread) -> None:
    raise RuntimeError(f"can't start new thread {thread.name}")
