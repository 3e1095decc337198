"""The join's time: for those who wait for a broker, it stands still while the log is behind it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.log.brokers import Brokers
from collector.worker.open_trace import Paused, Via
from collector.worker.read import LogTime
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import TRACE, record, span

BY_BROKER = "kafka:spans:0:1"


class Clock:
    """A clock that the test moves, and a log that is read to its end."""

    def __init__(self) -> None:
        self.now = 500.0
        self.inputs = Brokers(lambda: self.now, grace_s=1)
        self.log_time = LogTime(lambda: int(self.now * 1e9), max_hold_s=100, max_step_s=2)

    def look(self) -> float:
        """The log is read to its end."""
        return self.log_time.caught_up(self.inputs.behind_ns())

    def time(self, via: Via) -> float:
        return self.look() - self.log_time.paused.of(via)

    def run(
        self, seconds: int, each: Callable[[], None] = lambda: None, via: Via = Via.BROKER
    ) -> float:
        """Tick every half second; returns how far the time went for those who wait for a way."""
        before = after = self.time(via)
        for _ in range(seconds * 2):
            self.now += 0.5
            each()
            after = self.time(via)
        return after - before

    def report(self, behind_s: float | None) -> Callable[[], None]:
        return lambda: self.inputs.report("kafka", behind_s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kafka(clock: Clock) -> Clock:
    """The same with a broker that is caught up at the start."""
    clock.inputs.add("kafka")
    clock.inputs.report("kafka", 0)
    return clock


@pytest.mark.parametrize("via", Via)
def test_without_sources_all_time_counts(clock: Clock, via: Via) -> None:
    assert clock.run(100, via=via) == 100
    assert clock.inputs.behind() == ()


def test_a_source_is_behind_until_it_says_otherwise(clock: Clock) -> None:
    clock.inputs.add("kafka")
    assert clock.run(100, clock.report(None)) == 0
    assert clock.inputs.behind() == ("kafka",)
    clock.inputs.report("kafka", 0)
    assert clock.run(3, clock.report(0)) == 3


def test_the_lag_of_each_source_is_reported(kafka: Clock) -> None:
    """Caught up but for 3 s at a report, 5 s ago; another, named 1 s ago, never was."""
    kafka.now += 10
    kafka.inputs.report("kafka", 3)
    kafka.now += 4
    kafka.inputs.add("redis")
    kafka.now += 1
    kafka.inputs.report("redis", None)
    assert kafka.inputs.lags_s() == {"kafka": 8, "redis": 1}
    kafka.inputs.remove("kafka")
    assert kafka.inputs.lags_s() == {"redis": 1}


def test_a_lag_stops_the_time_after_the_grace(kafka: Clock) -> None:
    """One second of grace, then a minute of lag; what counted before stays."""
    assert kafka.run(60, kafka.report(None)) == 1
    assert kafka.run(10, kafka.report(0)) == 10


@pytest.mark.parametrize(("behind_s", "seconds"), [(0.9, 60), (1.0, 60), (1.1, 0)])
def test_a_source_that_is_a_little_behind_all_the_time_is_not_behind(
    kafka: Clock, behind_s: float, seconds: float
) -> None:
    """As under constant load: what is read next came a moment ago. One half second is taken."""
    kafka.now += 10
    kafka.inputs.report("kafka", behind_s)
    kafka.look()
    assert kafka.run(60, kafka.report(behind_s)) == seconds


def test_an_older_report_does_not_take_back_a_newer_one(kafka: Clock) -> None:
    """Said at the same moment: everything of now is here; everything of ten seconds ago is."""
    kafka.inputs.report("kafka", 10)
    assert kafka.inputs.behind() == ()


def test_a_source_that_says_nothing_hangs(kafka: Clock) -> None:
    assert kafka.run(60) == 1  # the grace
    kafka.inputs.remove("kafka")
    assert kafka.run(60) == 60


def test_who_waits_for_no_broker_is_not_delayed_by_one(kafka: Clock) -> None:
    """A broker is away for an hour; what comes directly is judged as ever."""
    before = [kafka.time(via) for via in (Via.DIRECT, Via.BROKER)]
    kafka.run(3600, kafka.report(None))
    after = [kafka.time(via) for via in (Via.DIRECT, Via.BROKER)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [3600, 1]


def test_who_may_wait_for_a_broker_is_delayed_for_a_bounded_time(kafka: Clock) -> None:
    """1 s of grace; from then to second 100 it stands still; then it runs, for 500 s."""
    assert kafka.run(600, kafka.report(None), via=Via.UNKNOWN) == 501
    assert kafka.run(10, kafka.report(0), via=Via.UNKNOWN) == 10
    assert kafka.run(50, kafka.report(None), via=Via.UNKNOWN) == 1  # a new lag, a new bound


def test_a_broker_that_was_never_there_holds_for_a_bounded_time_too(clock: Clock) -> None:
    clock.inputs.add("kafka")
    assert clock.run(600, clock.report(None), via=Via.UNKNOWN) == 500


def test_a_stopped_process_or_a_jump_counts_one_step(clock: Clock) -> None:
    """A minute in which nothing ran: nothing could come in either. Backwards counts nothing."""
    before = clock.time(Via.DIRECT)
    clock.now += 60
    assert clock.time(Via.DIRECT) - before == 2
    clock.now -= 1000
    assert clock.time(Via.DIRECT) - before == 2


def test_an_item_says_how_far_the_log_was_behind_when_it_came() -> None:
    """What is read later goes by the brokers of then, not by those of now."""
    log_time = LogTime(lambda: 0, max_hold_s=100)
    for second in range(1, 11):
        log_time.read(second * 10**9, behind_ns=second * 10**9 if second > 4 else 0)
    assert (log_time.seconds, log_time.paused) == (10, Paused(6, 6))
    log_time.read(11 * 10**9, behind_ns=101 * 10**9)
    assert (log_time.seconds, log_time.paused) == (11, Paused(7, 6))


# --- with a worker ----------------------------------------------------------------------------

ONE = TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, "Equals")


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path, AgentEvalProfile([ONE], alias="traced"))


def wait_for_a_trace(process: Process, source: str) -> None:
    """A record whose trace lacks a span: only the deadline, after 300 s, ends the wait."""
    process.spans(span(1), span(3, parent_span_id=f"{2:016x}"), source=source)
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE))


def test_nothing_of_a_topic_expires_while_it_lags(process: Process) -> None:
    process.topic(lags=True)
    wait_for_a_trace(process, BY_BROKER)
    process.after(2 * 86_400)
    assert process.evaluations() == {}
    process.topic(lags=False)
    process.after(290)
    assert process.evaluations() == {}
    process.after(40)
    assert process.evaluations()["u1"].completeness == "deadline"
    process.close()


def test_what_comes_directly_waits_for_no_topic(process: Process) -> None:
    process.topic(lags=True)
    wait_for_a_trace(process, "http")
    process.after(330)
    assert process.evaluations()["u1"].completeness == "deadline"
    process.close()


def test_a_trace_of_which_nothing_is_here_waits_for_a_bounded_time(process: Process) -> None:
    """An hour by default, and 30 quiet seconds behind that, as without a broker."""
    process.topic(lags=True)
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE))
    process.after(3590)
    assert process.evaluations() == {}
    process.after(100)
    assert process.evaluations()["u1"].completeness == "quiet"
    process.close()


def test_a_record_of_a_broker_says_that_its_trace_comes_by_one(process: Process) -> None:
    process.topic(lags=True)
    row = record("u1", profile_uid=process.profile_uid, trace_id=TRACE)
    process.records(row, source="kafka:records:0:1")
    process.after(86_400)
    assert process.evaluations() == {}
    process.spans(span(1), source=BY_BROKER)
    process.topic(lags=False)
    process.after(20)
    assert process.evaluations()["u1"].completeness == "complete"
    process.close()
