"""The state behind: it is noticed by the age of what is due, and reported everywhere."""

import logging
import re
from pathlib import Path

import pytest

from collector.metrics import TotalName
from collector.worker.behind import NOTHING, Backlog, BehindWatch, Due
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.conftest import Start
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import SPACE, TRACE, record, span

LAG = Backlog(
    due=Due(84_270, 125.0, 2_000_000.0), by_space={"default": Due(84_270, 125.0, 2_000_000.0)},
    judged_per_s=150.0, came_per_s=210.0, is_behind=True,
)  # fmt: skip


def test_it_begins_lasts_and_ends_with_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is notified of what waits. By hand: 10 come and 4 are judged a second, then 20."""
    now, waiting = 1000.0, 0
    watch = BehindWatch(lambda: now)
    lines: list[tuple[float, str]] = []
    before = watch.backlog
    with caplog.at_level(logging.INFO):
        for second in range(301):
            judged = 4 if second < 150 else 20
            watch.judged(min(judged, waiting))
            waiting = max(0, waiting + 10 - judged)
            oldest_s = min(second, waiting / 10)
            watch.look({SPACE: Due(waiting, oldest_s, 0.0)})
            lines += [(second, each.getMessage()) for each in caplog.records]
            caplog.clear()
            if second == 140:
                before = watch.backlog
            now += 1
    assert (before.judged_per_s, before.came_per_s, before.is_catching_up) == (4.0, 10.0, False)
    # 6 more each second: 600 wait, and the oldest for 60 s, after 100 s; 10 less from then on.
    first, *others, last = lines
    assert first[0] == 99
    assert re.match(
        "behind: 600 records and traces are due and wait, the oldest for 60 s", first[1]
    )
    assert "does not catch up" in first[1]
    assert [second for second, _ in others] == [159, 219]
    assert "it catches up, in about" in others[-1][1]
    assert last[1].startswith("no longer behind")
    assert not watch.backlog.is_behind


def test_a_trouble_of_each_space_that_is_behind() -> None:
    """Not of one that waits for seconds beside it."""
    due = {SPACE: Due(900, 90.0, 0.0), "quick": Due(1, 5.0, 0.0)}
    backlog = Backlog(Due(901, 90.0, 0.0), due, 2.0, 3.0, is_behind=True)
    assert backlog.troubles("own").keys() == {SPACE}
    assert backlog.troubles("own")[SPACE].startswith(
        "900 records and traces are due and wait, the oldest for 90 s; 2.0 a second are judged and "
        "3.0 come, so it does not catch up: give the collector more processor time"
    )
    assert Backlog().troubles("own") == {}


def test_what_is_accepted_and_not_stored_is_behind_too(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is due, as nobody has read it. By hand: 20 come a second, and 10, then 40 are stored.

    After 120 s the store has what came in the first 60: the lag is 60 s. After 150 s it is 75 s;
    from then on it is less by one second in each: 181 s after the begin 43, and a minute before 60.
    """
    now, end, stored = 1000.0, 0, 0
    watch = BehindWatch(lambda: now)
    lines: list[tuple[int, str]] = []
    with caplog.at_level(logging.INFO):
        for second in range(301):
            watch.look({}, end, stored)
            lines += [(second, each.getMessage()) for each in caplog.records]
            caplog.clear()
            if second in (150, 200):
                assert watch.backlog.unread_s == pytest.approx(75 if second == 150 else 25, abs=1)
                assert watch.backlog.is_catching_up == (second == 200)
            if second == 150:
                (message,) = watch.backlog.troubles("own").values()
                assert re.match("what was accepted 7[45] s ago is not stored yet, and it", message)
                assert "does not catch up: give the collector more processor time" in message
            now, end = now + 1, end + 20
            stored = min(end, stored + (10 if second < 150 else 40))
    first, *others, last = lines
    assert first[0] == pytest.approx(120, abs=2)
    assert first[1].startswith("behind: what was accepted 60 s ago is not stored yet")
    assert ["it catches up, in about 3 min" in each for _, each in others] == [True]
    assert last[0] == pytest.approx(216, abs=2)
    assert last[1].startswith("no longer behind")
    watch.look({}, end, end)
    assert watch.backlog.unread_s == 0


def test_what_waits_for_spans_or_a_deadline_is_not_due(tmp_path: Path) -> None:
    """A span is missing, so that only the deadline, after 300 s, ends the wait."""
    count = TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, "Equals")
    process = Process(tmp_path, AgentEvalProfile([count], alias="traced"))
    process.spans(span(1, parent_span_id=None), span(3, parent_span_id=f"{2:016x}"))
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE))
    process.after(200)
    assert (process.worker.waiting, process.worker.backlog().due) == (1, NOTHING)
    process.close()


@pytest.mark.parametrize("has_trace", [False, True])
def test_the_oldest_that_is_due_says_since_when(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, has_trace: bool
) -> None:
    """Records that take half a second each: the last of 200 waits for more than a minute."""
    tasks = [
        AssertionTask("first", "answer", 1, "Equals"),
        AssertionTask("second", "answer", 1, "Equals", depends_on=["first"]),
        TraceAssertionTask("spans", TraceAssertion.trace_span_count(), int(has_trace), "Equals"),
    ]
    process = Process(tmp_path, AgentEvalProfile(tasks, alias="slow"))
    uid = process.profile_uid
    ids = [f"{n + 1:032x}" for n in range(200)]
    if has_trace:
        process.spans(*(span(1, trace_id=each, parent_span_id=None) for each in ids))
    process.accept_records(*(
        record(f"u{each}", profile_uid=uid, context={"answer": 1}, digest="",
               trace_id=each if has_trace else None)
        for each in ids
    ))  # fmt: skip
    process.now += 10  # settled
    began, process.tick_s = process.now, 0.5
    seen: list[Backlog] = []
    while process.total(TotalName.RECORDS) < len(ids):
        process.worker.turn(0.0)
        seen.append(process.worker.backlog())
        assert seen[-1].due.oldest_s <= process.now - began + 10
    behind = [each for each in seen if each.is_behind]
    assert len(behind) > 10
    first = behind[0].due
    assert 60 <= first.oldest_s < 80
    assert 0 < first.number < 200
    assert first.size_bytes > 0
    counts = [each.due.number for each in seen if each.due.number]
    assert counts == sorted(counts, reverse=True)
    process.tick_s = 0.0
    process.after(1)
    assert process.worker.backlog().due == NOTHING
    lines = [each.getMessage() for each in caplog.records if "behind" in each.getMessage()]
    assert lines[0].startswith("behind: ")
    assert lines[-1].startswith("no longer behind")
    process.close()


def test_a_lag_in_time_refuses_nothing(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(profile=[str(answers)])
    monkeypatch.setattr(service.collector.worker, "backlog", lambda: LAG)
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    assert service.http.get("/readyz").status_code == 200
    lag = service.get("/api/v1/status")["lag"]
    assert (lag["due"], lag["due_oldest_s"]) == (84_270, 125.0)
    assert (lag["is_behind"], lag["is_catching_up"]) == (True, False)
    assert service.sample("scouter_evaluation_due") == 84_270
    assert service.sample("scouter_evaluation_due_oldest_seconds") == 125
    assert service.sample("scouter_evaluation_due_bytes") == 2_000_000
    assert service.sample("scouter_evaluation_behind") == 1
    assert service.sample("scouter_evaluation_catching_up") == 0
    page = service.http.get("/health").text
    assert "Evaluation is behind: 84,270 records and traces are due" in page
    assert "something is wrong" in page
