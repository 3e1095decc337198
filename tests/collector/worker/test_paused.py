"""Time stands still for those who wait for a broker that the log is behind."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.log.port import Kind
from collector.store.rows import Completeness
from collector.worker.open_trace import JoinTimes, Paused
from collector.worker.read import LogTime
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from tests.support.worker_room import SECOND_NS, SPACE, WorkerRoom, record, span

KAFKA = "kafka:records:0:1"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    """A profile that counts spans; a record waits ten seconds at most."""
    count = TraceAssertion.span_count(SpanFilter.by_name("step"))
    task = TraceAssertionTask("two", count, 2, ComparisonOperator.Equals)
    times = JoinTimes(settle_s=1, foreign_settle_s=1, quiet_s=10, deadline_s=10)
    found = WorkerRoom(tmp_path, {SPACE: [AgentEvalProfile([task], alias="traced")]}, times)
    found.brokers.add("kafka")
    found.brokers.report("kafka", 0)
    yield found
    found.close()


def send(room: WorkerRoom, uid: str, trace: int, source: str) -> None:
    body = json.dumps(record(uid, "traced", trace)).encode()
    room.append(Kind.RECORD, body, source=source)


def send_span(room: WorkerRoom, trace: int, source: str) -> None:
    body = encode_request([span(trace, 1, 0)]).SerializeToString()  # its parent is missing
    room.append(Kind.SPANS, body, source=source)


def test_a_record_of_a_broker_waits_until_the_log_has_what_the_broker_has(
    room: WorkerRoom,
) -> None:
    """One whose spans come directly does not; nor is there time lost that passed before."""
    send(room, "kafka", 1, KAFKA)
    send(room, "direct", 2, "http")
    send_span(room, 2, "http")
    room.pass_s(2)  # which is the grace of a broker without a report
    room.pass_s(60)
    assert set(room.evaluations()) == {"direct"}
    room.brokers.report("kafka", 0)
    for _ in range(4):  # of ten seconds two have passed
        room.pass_s(1.5)
        room.brokers.report("kafka", 0)
    assert set(room.evaluations()) == {"direct"}
    for _ in range(3):
        room.pass_s(1.5)
        room.brokers.report("kafka", 0)
    assert set(room.evaluations()) == {"direct", "kafka"}


def test_a_trace_that_says_nothing_waits_so_long_and_no_longer(room: WorkerRoom) -> None:
    """A record that came directly, whose spans may come by a broker."""
    room.max_hold_s = 30.0
    room.close()
    room.open()
    send(room, "kafka", 1, KAFKA)
    send(room, "unknown", 2, "http")
    room.pass_s(35)
    assert room.evaluations() == {}
    room.pass_s(10)
    assert set(room.evaluations()) == {"unknown"}


def test_what_the_log_has_of_a_lag_counts_whenever_it_is_read(room: WorkerRoom) -> None:
    """The worker was away while the broker lagged, and reads all of it at once."""
    send(room, "kafka", 1, KAFKA)
    for _ in range(60):
        room.now_ns += SECOND_NS
        send_span(room, 9, "http")
    send_span(room, 1, KAFKA)
    room.brokers.report("kafka", 0)
    room.work()
    assert room.evaluations() == {}
    for _ in range(8):
        room.pass_s(1.5)
        room.brokers.report("kafka", 0)
    (row,) = room.evaluations().values()
    assert (row.record_uid, row.completeness) == ("kafka", Completeness.QUIET)
    assert row.missing_parents == 1  # of the span that came last


def test_a_record_without_a_profile_waits_as_one_that_says_nothing(room: WorkerRoom) -> None:
    room.append(Kind.RECORD, json.dumps(record("r", "nobody")).encode(), source="http")
    room.pass_s(60)
    assert room.letters() == []
    for _ in range(8):
        room.brokers.report("kafka", 0)
        room.pass_s(1.5)
    assert room.letters() == [("unknown_profile", "r")]


def test_time_is_paused_for_as_long_as_it_counts() -> None:
    """A step of more than a second counts a second; a lag beyond its bound holds brokers alone."""
    now_ns = 0
    log = LogTime(lambda: now_ns, max_hold_s=2)
    assert log.read(SECOND_NS // 2, 1) == 0.5
    assert log.paused == Paused(0.5, 0.5)
    log.read(9 * SECOND_NS, 2 * SECOND_NS)
    assert (log.seconds, log.paused) == (1.5, Paused(1.5, 1.5))
    log.read(10 * SECOND_NS, 2 * SECOND_NS + 1)
    assert (log.seconds, log.paused) == (2.5, Paused(2.5, 1.5))
    now_ns = 11 * SECOND_NS
    log.caught_up()
    assert (log.seconds, log.paused) == (3.5, Paused(2.5, 1.5))
