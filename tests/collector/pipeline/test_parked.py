"""Waiting records beyond what memory has room for: they wait in the store, and none is lost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics import TotalName
from collector.pipeline.input_clock import Via
from collector.pipeline.parked import Parked
from collector.storage.rows import Completeness, LetterQuery, RecordPlace, RecordRow
from scouter.drift.profile import AgentEvalProfile
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
    assert process.verdicts() == {}

    process.inputs.report("topic", 0)
    process.spans(*[root(n) for n in range(20)])
    for _ in range(40):
        process.inputs.report("topic", 0)
        process.after(1)
        assert process.inside <= 4
    verdicts = process.verdicts()
    assert sorted(verdicts) == [*(f"u{n:02}" for n in range(20))]
    assert {(v.outcome, v.completeness, v.revision) for v in verdicts.values()} == {
        ("passed", Completeness.COMPLETE, 1)
    }
    assert process.work.waiting == 0
    process.inputs.report("topic", 0)
    for _ in range(100):
        process.inputs.report("topic", 0)
        process.after(1)
    session = process.verdicts()["session s"]
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

    assert list(process.verdicts()) == ["u15"]
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
    assert len(process.verdicts()) == 21
    assert process.total(TotalName.RECORDS) == 20


ROOM: Final = """
    via     is_held  is_any  room
    broker  yes      no         8
    broker  no       no         8
    broker  no       yes        4
    direct  yes      no        16
    direct  yes      yes       16
    direct  no       no        16
    direct  no       yes        4
"""


@pytest.mark.parametrize("line", ROOM.strip().splitlines()[1:])
def test_what_comes_while_others_are_parked_has_its_room(line: str) -> None:
    via, is_held, is_any, room = line.split()
    for waiting, is_away in ((int(room) - 1, False), (int(room), True)):
        parked = Parked(8)
        if is_any == "yes":
            parked.resume(20, 1)
        place = RecordPlace(2, SPACE, "u")
        assert parked.turns_away(place, Via(via), waiting, is_held=is_held == "yes") == is_away


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

    verdicts = process.verdicts()
    assert {v.outcome for uid, v in verdicts.items() if uid != "session s"} == {"passed"}
    assert len(verdicts) >= 20
    assert sorted(read) == [f"{n + 1:032x}" for n in range(20)]


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

    verdicts = process.verdicts()
    assert sorted(verdicts) == [
        *(f"session {each}" for each in "s"),
        *(f"u{n:02}" for n in range(8)),
    ]
    assert process.measured_verdicts == 8


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

    verdicts = process.verdicts()
    process.store.close()
    assert len(verdicts) == 21
    assert {each.outcome for each in verdicts.values()} == {"passed"}


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
    assert list(process.verdicts()) == ["u00"]
    process.topic(lags=False)
    process.after(400)
    verdicts = process.verdicts()
    process.store.close()
    assert len(verdicts) == 11
    assert process.measured_verdicts == 10


EVENTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.lists(st.sampled_from(Via), min_size=1, max_size=3)),
        st.tuples(st.just("tell"), st.integers(1, 4)),
        st.tuples(st.just("decide"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("hold"), st.booleans()),
    ),
    max_size=60,
)


class Model:
    """A store that is a plain list, and a memory that is another one."""

    def __init__(self, room: int) -> None:
        self.parked = Parked(room)
        self.store: list[RecordPlace] = []
        self.untold: list[tuple[RecordPlace, Via]] = []
        self.inside: list[RecordPlace] = []
        self.taken: list[RecordPlace] = []
        self.decided: set[RecordPlace] = set()
        self.is_held = False

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    def commit(self, ways: list[Via]) -> None:
        seq = len(self.store) + 1
        places = [RecordPlace(seq, "space", f"{n}") for n in range(len(ways))]
        self.store += places
        self.untold += [*zip(reversed(places), ways, strict=True)]

    def tell(self, count: int) -> None:
        for place, via in self.untold[:count]:
            if not self.parked.was_read(place) and not self.parked.turns_away(
                place, via, len(self.inside), is_held=self.is_held
            ):
                self.take([place])
        del self.untold[:count]

    def take(self, places: list[RecordPlace]) -> None:
        self.inside += places
        self.taken += places

    def decide(self, count: int) -> None:
        self.decided.update(self.inside[:count])
        del self.inside[:count]

    def read(self, _: None = None) -> None:
        if wanted := self.parked.wanted(len(self.inside)):
            behind = [each for each in self.store if each > self.parked.read_to]
            page = [each for each in behind if each not in self.decided][:wanted]
            fresh = [each for each in page if each not in self.inside]
            self.take(fresh)
            self.parked.read(page, wanted, fresh)

    @property
    def missing(self) -> int:
        """Records that were told of and are not in memory."""
        untold = {place for place, _ in self.untold}
        return len(set(self.store) - set(self.taken) - untold)


@given(events=EVENTS, room=st.integers(1, 4))
def test_every_record_is_taken_once_and_memory_is_bounded(
    events: list[tuple[str, Any]], room: int
) -> None:
    """Over orders of commits, what is told of them, verdicts and reads."""
    model = Model(room)
    for kind, value in events:
        getattr(model, kind)(value)
        assert len(model.inside) <= 2 * room
        assert model.parked.count == model.missing
    model.tell(len(model.untold))
    while len(model.decided) < len(model.store):
        assert model.inside or model.parked.count, "a record is lost"
        model.decide(len(model.inside))
        model.read()
    assert sorted(model.taken) == model.store
    assert model.parked.count == 0
