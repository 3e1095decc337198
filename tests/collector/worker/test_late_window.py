"""Until when an evaluation is made anew: 24 h of time that ran, whatever the date says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.worker.late import LateWindow
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import TRACE, record, span

HOUR: Final = 3600
PROFILE: Final = AgentEvalProfile(
    [
        TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 2, "Equals"),
        TraceAssertionTask("all", TraceAssertion.trace_span_count(), 2, "Equals", scope="session"),
    ],
    alias="traced",
)


def hours(count: int) -> Callable[[Process], Process]:
    def run(process: Process) -> Process:
        process.after(count * HOUR)
        return process

    return run


def lag(process: Process) -> Process:
    """The topic lags for two days, while other spans come and are judged."""
    process.topic(lags=True)
    for number in range(3):
        process.after(20 * HOUR)
        other = f"{number + 1}" * 32
        process.spans(span(1, trace_id=other))
        row = record(f"other {number}", profile_uid=process.profile_uid, trace_id=other)
        process.records(row)
    process.topic(lags=False)
    return process


def rest(process: Process) -> Process:
    return process.restarted(25 * HOUR)


def jump(by: int) -> Callable[[Process], Process]:
    def set_date(process: Process) -> Process:
        process.date_ahead_s = by * HOUR
        return process

    return set_date


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Process]:
    """A collector with a topic, and an evaluation on one of two spans."""
    process = Process(tmp_path, PROFILE, now=10.0**6)
    process.topic(lags=False)
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE))
    process.spans(span(1))
    process.after(100)
    yield process
    process.last.close()


@pytest.mark.parametrize(
    ("events", "is_anew"),
    [
        pytest.param([hours(23)], True, id="inside"),
        pytest.param([hours(25)], False, id="outside"),
        pytest.param([lag], True, id="lag"),
        pytest.param([lag, hours(23)], True, id="lag-inside"),
        pytest.param([lag, hours(25)], False, id="lag-outside"),
        pytest.param([rest], True, id="away"),
        pytest.param([rest, hours(23)], True, id="away-inside"),
        pytest.param([rest, hours(25)], False, id="away-outside"),
        pytest.param([jump(25)], True, id="date-ahead"),
        pytest.param([jump(-25)], True, id="date-back"),
        pytest.param([jump(25), hours(25)], False, id="date-ahead-outside"),
    ],
)
def test_a_span_comes(
    judged: Process, events: list[Callable[[Process], Process]], is_anew: bool
) -> None:
    """The second one, after something happened: both evaluations are made anew, or neither is."""
    process = judged
    for event in events:
        process = event(process)
    process.spans(span(2, parent_span_id=f"{1:016x}"))
    process.after(200)
    found = process.evaluations()
    wanted = 2 if is_anew else 1
    assert (found["u1"].revision, found["session u1"].revision) == (wanted, wanted)
    assert process.store.conservation("default").spans.late == (0 if is_anew else 1)


def test_evaluations_behind_a_date_that_was_set_back() -> None:
    """They bear older dates than those before it, although it is set right again at once."""
    window = LateWindow(100.0, 0.0, 10**12)
    window.run(1.0, 10**12 - 500 * 10**9)
    window.run(1.1, 10**12 + 10**9)
    assert window.since_ns() <= 10**12 - 500 * 10**9
    window.run(2.0, 10**12 + 2 * 10**9)
    window.run(103.0, 10**12 + 103 * 10**9)
    assert window.since_ns() == 10**12 + 3 * 10**9


def test_what_an_earlier_process_made_ages_from_its_end_on() -> None:
    """It ended 1,000 s before this one began; the window of 100 s has 40 s of it at 60 s."""
    window = LateWindow(100.0, 0.0, 2000 * 10**9)
    window.ended(1000 * 10**9)
    assert window.since_ns() == 900 * 10**9
    for now in range(0, 201, 20):
        window.run(now, (2000 + now) * 10**9)
        if now == 60:
            assert window.since_ns() == 960 * 10**9
    assert window.since_ns() == 2100 * 10**9


def test_little_is_remembered_of_a_long_window() -> None:
    """However often the time is given, and whatever delays it."""
    window = LateWindow(1000.0, 0.0, 0)
    for step in range(20_000):
        window.run(step * 0.1, step * 10**9)
    assert len(window._marks) <= 258  # pyright: ignore[reportPrivateUsage]
    assert window.since_ns() <= 10_000 * 10**9
    assert window.since_ns() > 9_900 * 10**9
