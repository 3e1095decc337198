"""Waiting records beyond what memory has room for: they wait in the store, and none is lost."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics import TotalName
from collector.pipeline.join.input_clock import Via
from collector.pipeline.join.joined_trace import Share
from collector.pipeline.join.parked import Parked
from collector.store.letters import LetterQuery
from collector.store.rows import Completeness, RecordPlace, RecordRow, WaitingRecord
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import TransientError
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.span import Span
from tests.collector.pipeline.process_support import Process
from tests.contracts.store_data import SPACE, record, span

TRACED: Final = AgentEvalProfile(
    [
        TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, "Equals"),
        AssertionTask("answer", "answer", 7, "Equals"),
        AssertionTask("all", "records[*].context.answer", [7] * 20, "Equals", scope="session"),
    ],
    alias="traced",
)
Begin = Callable[..., Process]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start a collector of that profile on the test's store."""
    started: list[Process] = []

    def start(**more: Any) -> Process:
        started.append(Process(tmp_path, TRACED, **more))
        return started[-1]

    yield start
    for process in started:
        process.last.store.close()


def row(process: Process, number: int, **fields: Any) -> RecordRow:
    return record(
        f"u{number:02}",
        trace_id=f"{number + 1:032x}",
        session_id="s",
        context={"answer": 7},
        profile_uid=process.profile_uid,
        **fields,
    )


def root(number: int) -> Span:
    return span(1, trace_id=f"{number + 1:032x}", parent_span_id=None)


def test_a_broker_that_lags_fills_no_memory_and_loses_nothing(begin: Begin) -> None:
    process = begin(memory_records=4)
    process.inputs.add("topic")
    process.inputs.report("topic", None)
    for n in range(20):
        process.records(row(process, n), via=Via.BROKER)
        process.after(0)
    assert (process.work.waiting, process.inside) == (20, 4)
    process.after(1000)
    assert process.evaluations() == {}

    process.inputs.report("topic", 0)
    process.spans(*[root(n) for n in range(20)])
    for _ in range(40):
        process.inputs.report("topic", 0)
        process.after(1)
        assert process.inside <= 6
    evaluations = process.evaluations()
    assert sorted(evaluations) == [*(f"u{n:02}" for n in range(20))]
    assert {(v.outcome, v.completeness, v.revision) for v in evaluations.values()} == {
        ("passed", Completeness.COMPLETE, 1)
    }
    assert process.work.waiting == 0
    process.inputs.report("topic", 0)
    for _ in range(100):
        process.inputs.report("topic", 0)
        process.after(1)
    session = process.evaluations()["session s"]
    assert (session.outcome, session.revision) == ("passed", 1)
    assert process.total(TotalName.RECORDS) == 20


def test_a_broker_that_lags_does_not_hold_up_what_comes_another_way(begin: Begin) -> None:
    process = begin(memory_records=2)
    process.inputs.add("topic")
    process.inputs.report("topic", None)
    process.records(*[row(process, n) for n in range(10)], via=Via.BROKER)
    process.spans(root(15))
    process.records(row(process, 15))
    process.after(8)

    assert list(process.evaluations()) == ["u15"]
    assert process.work.waiting == 10


def test_more_than_memory_holds_is_taken_up_after_a_restart(begin: Begin) -> None:
    process = begin(memory_records=100)
    process.records(*[row(process, n) for n in range(20)])
    process.spans(*[root(n) for n in range(20)])
    process.store.close()
    process = begin(memory_records=4)

    for _ in range(200):
        assert process.inside <= 4
        process.after(0.5)
    assert len(process.evaluations()) == 21
    assert process.total(TotalName.RECORDS) == 20


ROOM: Final = """
    via      share    is_any  room
    broker   new      no         8
    broker   new      yes        4
    direct   new      no        12
    direct   new      yes       12
    direct   unknown  no         2
    broker   unknown  yes        2
"""


@pytest.mark.parametrize("line", ROOM.strip().splitlines()[1:])
def test_what_comes_while_others_are_parked_has_its_room(line: str) -> None:
    via, share, is_any, room = line.split()
    for waiting, is_away in ((int(room) - 1, False), (int(room), True)):
        parked = Parked(8)
        if is_any == "yes":
            parked.resume(20)
        place = RecordPlace(2, SPACE, "u")
        assert parked.turns_away(place, Via(via), Share(share), waiting, 0.0) == is_away


def test_those_of_an_unknown_profile_hold_up_nobody(tmp_path: Path) -> None:
    """Neither those that come meanwhile, nor each other: they expire as they would in memory."""
    process = Process(tmp_path, TRACED, memory_records=16)
    for n in range(40):
        unknown = row(process, n)
        unknown = replace(unknown, uid=f"x{n:02}", profile_uid="", profile_ref="nobody")
        process.records(unknown)
        process.records(row(process, n))
        process.spans(root(n))
        process.after(8)
        assert f"u{n:02}" in process.evaluations()
    process.after(300)
    letters = process.store.dead_letters(LetterQuery(space=SPACE, limit=200))
    process.store.close()
    assert sorted(each.letter.uid for each in letters) == [f"x{n:02}" for n in range(40)]


def test_more_than_there_is_room_for_passes(begin: Begin) -> None:
    """5/s that wait for 30 s each fit; what is above them for a moment does not stay for ever."""
    process = begin(memory_records=120, memory_spans=50)
    for second in range(70):
        numbers = [second * 100 + n for n in range(65 if second == 35 else 5)]
        process.records(*(replace(row(process, n), session_id=f"{n}") for n in numbers))
        parent = f"{1:016x}"
        process.spans(*(span(2, parent_span_id=parent, trace_id=f"{n + 1:032x}") for n in numbers))
        process.after(1)
    assert process.work.waiting < 200


def test_a_store_that_cannot_be_read_holds_up_only_those_it_keeps(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = begin(memory_records=8)
    process.records(*[row(process, n) for n in range(40)])
    assert process.work.waiting > process.inside

    def fails(*args: object) -> list[WaitingRecord]:
        raise TransientError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(process.store, "waiting_records", fails)
        process.spans(*[root(n) for n in range(40)])
        process.after(20)
        assert sorted(process.evaluations()) == [f"u{n:02}" for n in range(12)]
        assert process.work.next_step_s() != 0.0
    process.after(200)
    assert len(process.evaluations()) == 41


def test_what_came_by_a_broker_is_not_hurried_by_having_been_parked(begin: Begin) -> None:
    process = begin(memory_records=8)
    process.topic(lags=True)
    process.records(*[row(process, n) for n in range(12)])
    process.records(*[row(process, n) for n in range(20, 24)], via=Via.BROKER)
    process.spans(*[root(n) for n in range(12)])
    process.after(5000)
    assert process.evaluations().keys() == {"session s", *(f"u{n:02}" for n in range(12))}


def test_a_commit_that_is_told_of_too_late_is_not_lost(begin: Begin) -> None:
    process = begin(memory_records=2)
    late = process.store.append_records([row(process, 50)]).result()
    process.records(*[row(process, n) for n in range(10)])
    process.work.take_records(late)
    process.spans(*[root(n) for n in (*range(10), 50)])
    process.after(200)
    assert len(process.evaluations()) == 12
    assert process.measured_evaluations == 11


def test_a_parked_record_has_its_trace_read_once(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory lets the trace go before it has settled; it was looked at by then."""
    process = begin(memory_records=8, memory_spans=2)
    process.topic(lags=True)
    process.spans(*[root(n) for n in range(20)], via=Via.BROKER)
    process.records(*[row(process, n) for n in range(20)], via=Via.BROKER)
    read: list[str] = []
    spans_of = process.store.spans_of

    def noted(space: str, trace_ids: Sequence[str]) -> Mapping[str, list[Span]]:
        read.extend(trace_ids)
        return spans_of(space, trace_ids)

    monkeypatch.setattr(process.store, "spans_of", noted)
    process.topic(lags=False)
    process.after(55)

    evaluations = process.evaluations()
    assert {v.outcome for uid, v in evaluations.items() if uid != "session s"} == {"passed"}
    assert len(evaluations) >= 20
    assert sorted(read) == [f"{n + 1:032x}" for n in range(20)]


@pytest.mark.parametrize("fault", [TransientError("no memory"), RuntimeError("no such thing")])
def test_spans_are_taken_even_if_the_store_cannot_be_read_then(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Memory lets a trace go, a look at it needs its record's context, and that cannot be read.

    The same spans make an earlier evaluation doubtful.
    """
    process = begin(memory_bytes=0, memory_spans=2)
    process.records(row(process, 0))
    process.spans(root(0))
    process.after(8)
    assert process.evaluations()["u00"].tasks[0].actual == 1
    process.records(*[row(process, n) for n in range(1, 4)])
    process.spans(root(1))
    asked: list[object] = []

    def fails(*args: object) -> list[RecordRow]:
        asked.append(args)
        raise fault

    late = span(2, parent_span_id=f"{1:016x}", trace_id=f"{1:032x}")
    with monkeypatch.context() as patch:
        patch.setattr(process.store, "records_of", fails)
        with contextlib.suppress(RuntimeError):  # the thread logs it, and goes on
            process.spans(root(2), root(3), late)
    assert asked
    process.after(8)
    found = {uid: (v.revision, v.tasks[0].actual) for uid, v in process.evaluations().items()}
    assert found == {"u00": (2, 2), "u01": (1, 1), "u02": (1, 1), "u03": (1, 1)}


def test_what_is_read_from_the_store_first_is_not_taken_twice(begin: Begin) -> None:
    """A commit can be read before the pipeline is told of it."""
    process = begin(memory_records=2)
    process.records(*[row(process, n) for n in range(4)])
    told = process.store.append_records([row(process, n) for n in range(4, 8)]).result()
    process.spans(*[root(n) for n in range(4)])
    process.after(60)
    process.work.take_records(told)
    process.spans(*[root(n) for n in range(4, 8)])
    process.after(100)

    evaluations = process.evaluations()
    assert sorted(evaluations) == [
        "session s",
        *(f"u{n:02}" for n in range(8)),
    ]
    assert process.measured_evaluations == 8


def test_a_profile_that_is_registered_while_its_records_are_parked(tmp_path: Path) -> None:
    process = Process(tmp_path, None, memory_records=2)
    process.records(*[record(f"u{n:02}", profile_uid="", profile_ref="traced", session_id="s",
                             trace_id=f"{n + 1:032x}", context={"answer": 7})
                      for n in range(20)])  # fmt: skip
    process.after(1)
    process.register(TRACED)
    process.work.take_profiles()
    process.spans(*[root(n) for n in range(20)])
    process.after(300)

    evaluations = process.evaluations()
    process.store.close()
    assert len(evaluations) == 21
    assert {each.outcome for each in evaluations.values()} == {"passed"}


def test_a_record_that_is_replayed_is_judged_once_however_many_are_parked(tmp_path: Path) -> None:
    """Its place in the store is that of its first acceptance: who reads on does not find it."""
    process = Process(tmp_path, None, memory_records=2)
    first = record("u00", profile_uid="", profile_ref="traced", session_id="s",
                   trace_id=f"{1:032x}", context={"answer": 7})  # fmt: skip
    process.records(first)
    process.after(301)
    (letter,) = process.store.dead_letters(LetterQuery(space=SPACE))
    process.profile_uid = process.register(TRACED)
    process.topic(lags=True)
    process.records(*[row(process, n) for n in range(1, 10)], via=Via.BROKER)
    assert process.work.waiting > process.inside

    process.work.admit_again(letter.letter_id, first)
    process.work.admit_again(letter.letter_id, first)
    process.spans(root(0))
    process.after(8)
    assert list(process.evaluations()) == ["u00"]
    process.topic(lags=False)
    process.after(400)
    evaluations = process.evaluations()
    process.store.close()
    assert len(evaluations) == 11
    assert process.measured_evaluations == 10


def test_a_late_profile_gives_back_no_more_memory_than_was_taken(tmp_path: Path) -> None:
    plain = AgentEvalProfile([AssertionTask("answer", "answer", 7, "Equals")], alias="plain")
    process = Process(tmp_path, None)
    process.records(record("u1", profile_uid="", profile_ref="plain", context={"answer": 7}))
    assert process.join.context_bytes > 0
    process.register(plain)
    process.work.take_profiles()
    process.after(1)
    left, evaluations = process.join.context_bytes, process.evaluations()
    process.store.close()
    assert (left, list(evaluations)) == (0, ["u1"])


EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.lists(st.lists(st.sampled_from(Via), min_size=1, max_size=3), max_size=3),
        ),
        st.tuples(st.just("tell"), st.integers(0, 3)),
        st.tuples(st.just("decide"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("hold"), st.booleans()),
    ),
    max_size=80,
)


class Model:
    """A store that is a plain list, and a memory that is another one."""

    def __init__(self, room: int) -> None:
        self.parked, self.room = Parked(room), room
        self.store: list[RecordPlace] = []
        self.untold: list[list[tuple[RecordPlace, Via]]] = []
        self.new: list[RecordPlace] = []
        self.stored: list[RecordPlace] = []
        self.taken: list[RecordPlace] = []
        self.decided: set[RecordPlace] = set()
        self.seq = 0
        self.is_held = False

    @property
    def inside(self) -> list[RecordPlace]:
        return self.new + self.stored

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    def commit(self, batches: list[list[Via]]) -> None:
        """Several senders' batches become one commit, as they do."""
        self.seq += 1
        for batch, ways in enumerate(batches):
            places = [RecordPlace(self.seq, "space", f"{batch}{n}") for n in range(len(ways))]
            self.store += places
            self.untold.append([*zip(reversed(places), ways, strict=True)])

    def tell(self, which: int) -> None:
        """Nearly in order: a thread can be overtaken by others."""
        if not self.untold:
            return
        for place, via in self.untold.pop(min(which, len(self.untold) - 1)):
            if not self.parked.has_taken(place) and not self.parked.turns_away(
                place, via, Share.NEW, len(self.new), 0.0
            ):
                self.new.append(place)
                self.taken.append(place)

    def decide(self, count: int) -> None:
        self.decided.update(self.inside[:count])
        self.new = [each for each in self.new if each not in self.decided]
        self.stored = [each for each in self.stored if each not in self.decided]

    def read(self, _: None = None) -> None:
        if wanted := self.parked.wanted(len(self.stored), is_held=self.is_held):
            behind = sorted(each for each in self.store if each > self.parked.read_to)
            page = [each for each in behind if each not in self.decided][:wanted]
            fresh = [each for each in page if each not in self.inside]
            self.stored += fresh
            self.taken += fresh
            self.parked.read(page, wanted, len(fresh))

    @property
    def missing(self) -> int:
        """Records that were told of and are not in memory; less those inside before they were."""
        untold = {place for batch in self.untold for place, _ in batch}
        told = set(self.store) - untold
        return len(told - set(self.taken)) - len(set(self.taken) & untold)


@given(events=EVENTS, room=st.integers(1, 6))
def test_every_record_is_taken_once_and_memory_is_bounded(
    events: list[tuple[str, Any]], room: int
) -> None:
    """Over orders of commits, what is told of them, evaluations and reads."""
    model = Model(room)
    for kind, value in events:
        getattr(model, kind)(value)
        assert len(model.stored) <= max(1, room // 2)
        assert model.parked.count == model.missing
    while model.untold:
        model.tell(0)
    model.hold(False)
    while len(model.decided) < len(model.store):
        assert model.inside or model.parked.count, "a record is lost"
        model.decide(len(model.inside))
        model.read()
    assert sorted(model.taken) == sorted(model.store)
    assert model.parked.count == 0
