"""Spaces take turns: one that has a lot to do delays another by a turn."""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from collector.metrics import TotalName
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import RecordRow, Scope
from collector.store.work import ReadSpans
from collector.worker.turns import Pace, Turns
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.span import Span
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import SPACE, record, span

BEHIND: Final = AgentEvalProfile(
    [
        AssertionTask("first", "answer", 1, "Equals"),
        AssertionTask("second", "answer", 1, "Equals", depends_on=["first"]),
    ],
    alias="slow",
)
"""Tasks that depend on others are run record by record, with a look at the clock between."""
SPAN_COUNT: Final = TraceAssertionTask("two", TraceAssertion.trace_span_count(), 2, "Equals")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    running = Process(tmp_path, BEHIND)
    yield running
    running.close()


def test_each_has_its_turn_and_its_own_order() -> None:
    turns: Turns[int] = Turns()
    for space, item in (("a", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)):
        turns.put(space, item)
    turns.put_first("a", 0)
    assert (len(turns), list(turns)) == (6, [0, 1, 2, 4, 3, 5])
    order: list[tuple[str, int]] = []
    while (space := turns.next_space()) is not None:
        item = turns.pop(space)
        assert item is not None
        order.append((space, item))
    assert order == [("a", 0), ("b", 3), ("c", 5), ("a", 1), ("a", 2), ("a", 4)]
    assert (bool(turns), turns.pop("a")) == (False, None)


def test_a_space_that_was_alone_waits_for_one_that_came_meanwhile() -> None:
    turns: Turns[int] = Turns()
    for item in range(3):
        turns.put("a", item)
    assert (turns.next_space(), turns.pop("a"), turns.next_space()) == ("a", 0, "a")
    turns.put("b", 9)
    assert (turns.next_space(), turns.next_space()) == ("b", "a")


def test_a_slow_space_delays_another_by_a_turn(process: Process) -> None:
    """A record takes 0.1 s. 200 of one space wait when the only one of another comes."""
    other = process.register(BEHIND, "other")
    context = {"answer": 1}
    slow = [record(f"u{n}", profile_uid=process.profile_uid, context=context) for n in range(200)]
    process.accept_records(*slow)
    process.tick_s = 0.1
    for _ in range(2):  # the second one stores what the first one judged
        process.worker.turn(0.0)
    started = len(process.evaluations())
    assert 0 < started < 10
    process.accept_records(record("mine", space="other", profile_uid=other, context=context))
    came = process.now
    while "mine" not in process.notified_at:
        process.worker.turn(0.0)
    assert process.notified_at["mine"] - came < 3.0
    assert 100 < process.worker.waiting <= 200 - len(process.evaluations())
    while process.worker.turn(0.0):
        pass
    assert len(process.evaluations()) == 200
    assert process.total(TotalName.RECORDS) == 201
    assert process.worker.waiting == 0


@pytest.mark.parametrize("reads_spans", [False, True])
def test_a_trace_that_was_started_goes_on_in_its_next_turn(
    tmp_path: Path, *, reads_spans: bool
) -> None:
    """Records of one trace are given back in part, and decided once each."""
    tasks = [*BEHIND.tasks, SPAN_COUNT] if reads_spans else BEHIND.tasks
    process = Process(tmp_path, AgentEvalProfile(tasks, alias="started"))
    uid = process.profile_uid
    if reads_spans:
        process.spans(*two_spans(9))
    process.accept_records(*(
        record(f"u{n}", profile_uid=uid, trace_id=f"{10:032x}", context={"answer": 1})
        for n in range(30)
    ))  # fmt: skip
    process.now += 10  # settled
    process.tick_s = 0.1
    steps = 0
    while len(process.evaluations()) < 30:
        process.worker.turn(0.0)
        steps += 1
        assert steps < 100
    assert steps > 3
    assert process.worker.waiting == 0
    assert process.total(TotalName.RECORDS) == 30
    assert {each.outcome for each in process.evaluations().values()} == {"passed"}
    process.close()


@pytest.mark.parametrize(
    ("count", "whole_s", "judging_s", "then"),
    [
        (100, 0.5, 0.1, 100),  # as it should be
        (100, 0.25, 0.1, 200),  # by hand: 200 fit into 0.5 s
        (100, 0.01, 0.001, 200),  # not more than twice as much
        (100, 5.0, 0.1, 40),  # 10 fit; reading has costs of its own, so some are always taken
        (1, 3.0, 2.0, 1),  # one record takes four turns
        (5, 0.8, 0.5, 5),  # judging alone: five fit
        (0, 0.0, 0.0, 200),
    ],
)  # fmt: skip
def test_a_space_takes_as_much_as_fits_into_a_turn(
    count: int, whole_s: float, judging_s: float, then: int
) -> None:
    pace = Pace(0.5, 40, 1000)
    for _ in range(2):  # 40, 80, at most 160: up to 100 as measured
        pace.took("a", 100, 0.5, 0.1)
    assert (pace.of("a"), pace.of("b")) == (100, 40)
    pace.took("a", count, whole_s, judging_s)
    assert (pace.of("a"), pace.of("b")) == (then, 40)


WATCHED: Final = AgentEvalProfile([SPAN_COUNT], alias="watched", watch=Watch())
TRACED: Final = AgentEvalProfile([SPAN_COUNT], alias="traced")
TALKS: Final = AgentEvalProfile(
    [AssertionTask("said", "records", 1, "HasLengthGreaterThan", scope="session")], alias="chats"
)
QUICK: Final = AgentEvalProfile([AssertionTask("first", "answer", 1, "Equals")], alias="quick")
MANY: Final = 300


ANSWER: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]}]
    ),
}


def two_spans(number: int) -> list[Span]:
    """A whole trace of an agent."""
    trace_id = f"{number + 1:032x}"
    return [
        span(1, trace_id=trace_id, parent_span_id=None),
        span(2, trace_id=trace_id, parent_span_id=f"{1:016x}", attributes=ANSWER),
    ]


def watched(process: Process) -> None:
    process.spans(*(each for n in range(MANY) for each in two_spans(n)))


def traced(process: Process) -> None:
    watched(process)
    rows = [named(process, n, trace_id=f"{n + 1:032x}") for n in range(MANY)]
    process.records(*rows)


def late(process: Process) -> None:
    """Each has an evaluation on one span; then comes the other."""
    whole = [two_spans(n) for n in range(MANY)]
    process.spans(*(first for first, _ in whole))
    process.records(*(named(process, n, trace_id=f"{n + 1:032x}") for n in range(MANY)))
    process.after(60)
    process.spans(*(last for _, last in whole))


def untraced(process: Process) -> None:
    process.records(*(named(process, n) for n in range(MANY)))


def sessions(process: Process) -> None:
    process.records(*(named(process, n, session_id=f"s{n}") for n in range(MANY)))


def named(process: Process, number: int, **fields: Any) -> RecordRow:
    return record(
        f"u{number}", profile_uid=process.profile_uid, context={"answer": 1}, digest="", **fields
    )


CASES: Final = [
    (WATCHED, watched, 1),
    (TRACED, traced, 1),
    (TRACED, late, 2),
    (QUICK, untraced, 1),
    (TALKS, sessions, 1),
]


class SlowStore:
    """Reads of a store that take longer than a turn, each, and are counted."""

    def __init__(self, process: Process, patch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        """Traces and contexts that were read."""
        for name in ("spans_of", "spans_at", "records_of", "records_at"):
            patch.setattr(process.store, name, self._slow(process, getattr(process.store, name)))

    def _slow(self, process: Process, read: Callable[..., Any]) -> Callable[..., Any]:
        def slow(space: str, wanted: Collection[object], *limits: int) -> Any:
            found = read(space, wanted, *limits)
            self.reads += len(found.found if isinstance(found, ReadSpans) else wanted)
            process.now += 0.6 if len(wanted) else 0
            return found

        return slow


@pytest.mark.parametrize(
    ("profile", "come", "revision"), CASES, ids=[come.__name__ for _, come, _ in CASES]
)
def test_what_was_read_is_judged(
    profile: AgentEvalProfile,
    come: Callable[[Process], None],
    revision: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work that is done and thrown away: a clock that starts before the work that it bounds.

    The reading of a part takes longer than a turn. Were what is left then given back, each turn
    would read all of them and judge one: 45,000 reads for these 300.
    """
    process = Process(tmp_path, profile)
    try:
        come(process)
        slow = SlowStore(process, monkeypatch)
        process.after(120)
        rows = process.store.evaluations(EvaluationQuery(space=SPACE, limit=1000)).items
        scope = Scope.SESSION if profile is TALKS else Scope.RECORD
        made = [row.revision for row in rows if row.scope is scope]
        assert made == [revision] * MANY
        assert slow.reads <= 4 * MANY  # to learn what a trace has, to judge it, and its contexts
    finally:
        process.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_space_that_drains_delays_another_by_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_restarted: bool
) -> None:
    """1,500 watched traces are due, each read of some takes 0.6 s; one record of another space."""
    process = Process(tmp_path, WATCHED)
    other = process.register(QUICK, "other")
    for first in range(0, 1500, 300):
        process.spans(*(each for n in range(first, first + 300) for each in two_spans(n)))
    if is_restarted:
        process = process.restarted(1)
    process.now += 60
    SlowStore(process, monkeypatch)
    for _ in range(3):
        process.worker.turn(0.0)
        process.now += 10 * is_restarted  # for the settle time of what was read by then
    mine = record("mine", space="other", profile_uid=other, context={"answer": 1})
    process.accept_records(mine)
    came = process.now
    while "mine" not in process.notified_at:
        process.worker.turn(0.0)
    assert process.notified_at["mine"] - came < 3
    left = 1500 - len(process.evaluations())
    assert left > 500
    process.close()
