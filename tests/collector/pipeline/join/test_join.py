"""The join, with a clock that the test moves."""

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.pipeline.join.input_clock import Via
from collector.pipeline.join.join import Join
from collector.pipeline.join.joined_trace import EarlyResult, Leaving, Need
from collector.pipeline.join.ready import Ready, Room
from collector.store.rows import Completeness, RecordRow
from collector.worker.times import JoinTimes
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import NO_RESOURCE, Resource, Span
from tests.contracts.store_data import SPACE, TRACE, record

TIMES = JoinTimes(settle_s=0.5, foreign_settle_s=7, quiet_s=30, deadline_s=300)
NONE: frozenset[str] = frozenset()


def foreign(number: int, parent: int | None = None, **fields: Any) -> Span:
    """A span of an SDK that stamps nothing."""
    return Span(
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=f"s{number}",
        start_ns=1,
        end_ns=2,
        **fields,
    )


def ours(
    number: int,
    parent: int | None = None,
    *,
    process: str = "p",
    count: int | None = None,
    remote: bool = False,
) -> Span:
    """A span of our SDK; `count` is the stamp on a local root."""
    stamp = {} if count is None else {PROCESS_SPAN_COUNT: count}
    return foreign(
        number,
        parent,
        resource=Resource(attributes={PROCESS_ID: process}),
        attributes=stamp,
        parent_is_remote=remote,
    )


class Clocked:
    """A join and its clock."""

    def __init__(
        self, memory_spans: int = 1000, span_bytes: int = 10**9, memory_bytes: int = 10**6
    ) -> None:
        self.held = dict.fromkeys(Via, 0.0)
        self.join = Join(
            TIMES, memory_spans, memory_bytes, span_bytes=span_bytes, held_s=self.held.__getitem__
        )
        self.now = 1000.0
        self.stored: dict[str, Span] = {}

    def spans(
        self,
        *spans: Span,
        known: frozenset[str] = NONE,
        via: Via = Via.DIRECT,
        size_bytes: int = 0,
    ) -> None:
        self.stored |= {span.span_id: span for span in spans}
        self.join.add_spans(SPACE, spans, known, self.now, via=via, size_bytes=size_bytes)

    def record(
        self,
        uid: str = "u1",
        need: Need = Need.TRACE,
        via: Via = Via.DIRECT,
        **fields: Any,
    ) -> RecordRow:
        row = record(uid, **({"trace_id": TRACE} | fields))
        self.join.add_record(row, need, self.now, via=via)
        self.load()
        return row

    def load(self) -> None:
        """Answer what the join asks, as the pipeline does from the store."""
        for space, trace_id in unloaded(self.join):
            found = [each for each in self.stored.values() if each.trace_id == trace_id]
            self.join.load((space, trace_id), found, self.now)

    def after(self, seconds: float) -> list[Ready]:
        """Move the clock and ask what is due."""
        self.now += seconds
        return self.due()

    def due(self) -> list[Ready]:
        """Take out everything that is due, in as many turns as it takes."""
        self.join.look(self.now)
        found: list[Ready] = []
        while (space := self.join.next_space()) is not None:
            found += self.join.take(space, self.now, Room(1000, 10**9, 10**6))
        return found

    def hold(self, seconds: float, *ways: Via) -> list[Ready]:
        """Move the clock while a broker is away, in steps of a second."""
        found: list[Ready] = []
        for _ in range(round(seconds)):
            for via in ways:
                self.held[via] += 1
            found += self.after(1)
        return found

    def until_ready(self) -> tuple[float, Ready]:
        """Go from appointment to appointment until one record is ready."""
        start = self.now
        while True:
            due = self.join.next_due()
            assert due is not None, "nothing is going to happen"
            assert due - start < 1000
            self.now = max(self.now, due)
            ready = self.due()
            if ready:
                assert len(ready) == 1
                return self.now - start, ready[0]


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def unloaded(join: Join) -> list[tuple[str, str]]:
    """Traces whose stored spans are to be asked for."""
    return [(space, trace_id) for space, ids in join.unloaded().items() for trace_id in ids]


def ids(spans: Sequence[Span] | None) -> list[int]:
    assert spans is not None
    return sorted(int(span.span_id, 16) for span in spans)


# --- what does not wait -----------------------------------------------------------------------


def test_a_record_whose_plan_reads_no_spans_is_ready_at_once(clocked: Clocked) -> None:
    row = clocked.record(need=Need.NOTHING)
    assert clocked.join.waiting == 1
    (ready,) = clocked.after(0)
    assert (ready.record, ready.completeness, ready.waited_s) == (row, Completeness.COMPLETE, 0)
    assert (clocked.join.waiting, clocked.after(1000)) == (0, [])


def test_a_record_without_a_trace_is_ready_at_once(clocked: Clocked) -> None:
    clocked.record(trace_id=None)
    (ready,) = clocked.after(0)
    assert ready.spans == ()


# --- completeness -----------------------------------------------------------------------------

TREE = (ours(1, count=3), ours(2, 1), ours(3, 2))


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_stamped_trace_is_ready_when_it_settled(clocked: Clocked, when: str) -> None:
    """The record may come before, between or after its spans."""
    if when == "before":
        clocked.record()
        assert clocked.after(20) == []
    clocked.spans(TREE[2], TREE[1])
    if when == "between":
        clocked.record()
    assert clocked.after(0.4) == []
    clocked.spans(TREE[0])
    if when == "after":
        clocked.record()
    assert clocked.after(0.49) == []
    (ready,) = clocked.after(0.01)
    assert (ready.completeness, ready.missing_parents) == (Completeness.COMPLETE, 0)
    assert ids(ready.spans) == [1, 2, 3]


def test_a_record_after_everything_settled_waits_no_more(clocked: Clocked) -> None:
    clocked.spans(*TREE)
    assert clocked.after(10) == []
    clocked.record()
    (ready,) = clocked.after(0)
    assert ready.waited_s == 0


def test_a_stamp_that_is_not_fulfilled_is_waited_for(clocked: Clocked) -> None:
    """The root says three; all parents of the two that came are there. Silence says nothing."""
    clocked.record()
    clocked.spans(TREE[0], TREE[1])
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness, ready.missing_parents) == (300, Completeness.DEADLINE, 0)


def test_a_parent_of_the_same_process_is_waited_for_until_the_deadline(clocked: Clocked) -> None:
    clocked.record()
    clocked.spans(ours(1, count=1), ours(4, 9, process="q"))
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness, ready.missing_parents) == (300, Completeness.DEADLINE, 1)


def test_what_was_missing_came_in_the_end(clocked: Clocked) -> None:
    clocked.record()
    clocked.spans(TREE[0], TREE[1])
    assert clocked.after(299) == []
    clocked.spans(TREE[2])
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness) == (0.5, Completeness.COMPLETE)


def test_a_missing_parent_is_waited_for(clocked: Clocked) -> None:
    """Both roots' stamps are fulfilled, but the parent in between, another process', is nowhere."""
    clocked.record()
    clocked.spans(ours(1, count=1), ours(4, 9, process="q", count=1, remote=True))
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness, ready.missing_parents) == (30, Completeness.QUIET, 1)


def test_every_process_has_to_deliver(clocked: Clocked) -> None:
    """A second process under the first: its local root has a remote parent and its own stamp."""
    second = [ours(5, 2, process="q", count=2, remote=True), ours(6, 5, process="q")]
    clocked.record()
    clocked.spans(*TREE, second[0])
    assert clocked.after(10) == []
    clocked.spans(second[1])
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness) == (0.5, Completeness.COMPLETE)


def test_two_local_roots_of_one_process_add_up(clocked: Clocked) -> None:
    """A server that is called twice in one trace stamps 2 and 1: three spans are its share."""
    clocked.record()
    clocked.spans(ours(1, process="client", count=1))
    clocked.spans(ours(2, 1, count=2, remote=True), ours(4, 1, count=1, remote=True))
    assert clocked.after(5) == []
    clocked.spans(ours(3, 2))
    assert clocked.until_ready()[1].completeness is Completeness.COMPLETE


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([foreign(1), foreign(2, 1)], id="no-stamps"),
        pytest.param([ours(1, count=1), foreign(2, 1)], id="one-foreign-span"),
        pytest.param([ours(1), ours(2, 1)], id="a-process-that-lost-count"),
    ],
)
def test_a_trace_with_foreign_spans_settles_longer(clocked: Clocked, spans: list[Span]) -> None:
    clocked.record()
    clocked.spans(*spans)
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness) == (7, Completeness.COMPLETE)


def test_each_new_span_starts_the_settle_time_anew(clocked: Clocked) -> None:
    clocked.record()
    clocked.spans(foreign(1))
    for n in range(2, 6):
        assert clocked.after(6) == []
        clocked.spans(foreign(n, 1))
    assert clocked.until_ready()[0] == 7


def test_parents_in_a_circle_have_no_root(clocked: Clocked) -> None:
    clocked.record()
    clocked.spans(foreign(1, 2), foreign(2, 1))
    assert clocked.until_ready()[1].completeness is Completeness.QUIET


# --- quiet and deadline -----------------------------------------------------------------------


def test_no_span_at_all_is_quiet_in_the_end(clocked: Clocked) -> None:
    clocked.record()
    waited, ready = clocked.until_ready()
    assert (waited, ready.completeness, ready.spans) == (30, Completeness.QUIET, ())


def test_a_trace_that_never_rests_is_cut_at_the_deadline(clocked: Clocked) -> None:
    """A child of an absent parent every 20 s; the second record came 100 s later."""
    clocked.record("u1")
    decided: dict[str, tuple[float, Completeness]] = {}
    for n in range(2, 40):
        if n == 7:
            clocked.record("u2")
        clocked.spans(foreign(n, 1))
        for ready in clocked.after(20):
            decided[ready.record.uid] = (ready.waited_s, ready.completeness)
    assert decided == {
        "u1": (300, Completeness.DEADLINE),
        "u2": (300, Completeness.DEADLINE),
    }


def test_an_unknown_profile_is_waited_for_until_the_deadline(clocked: Clocked) -> None:
    clocked.record("u1", Need.PROFILE)
    assert clocked.after(100) == []
    clocked.record("u2", Need.PROFILE)
    assert clocked.after(199.9) == []
    (ready,) = clocked.after(0.1)
    assert (ready.record.uid, ready.need) == ("u1", Need.PROFILE)
    (unknown,) = clocked.join.take_unknown(clocked.now)
    assert (unknown.record.uid, unknown.waited_s) == ("u2", pytest.approx(200))
    assert clocked.join.waiting == 0


# --- versions, memory -------------------------------------------------------------------------


def test_a_better_version_of_a_span_takes_its_place(clocked: Clocked) -> None:
    """The first version of span 2 hung below nothing; the better one is complete."""
    clocked.record()
    clocked.spans(foreign(1), foreign(2, 9))
    clocked.spans(foreign(2, 1))
    _, ready = clocked.until_ready()
    assert (ready.completeness, ids(ready.spans)) == (Completeness.COMPLETE, [1, 2])


def test_spans_that_nobody_asks_for_are_forgotten(clocked: Clocked) -> None:
    clocked.spans(*TREE)
    assert clocked.join.spans_in_memory == 3
    assert clocked.after(30) == []
    assert (clocked.join.spans_in_memory, clocked.join.next_due()) == (0, None)
    clocked.record()  # they are asked back
    _, ready = clocked.until_ready()
    assert (ready.completeness, ids(ready.spans)) == (Completeness.COMPLETE, [1, 2, 3])


def test_memory_is_bounded_and_what_was_let_go_is_asked_back() -> None:
    """Twenty spans may stay; the trace with the waiting record is the one touched longest ago."""
    clocked = Clocked(memory_spans=20)
    clocked.record()
    clocked.spans(*TREE[1:])
    for n in range(1, 40):
        other = Span(trace_id=f"{n:032x}", span_id="f" * 16, name="x", start_ns=1, end_ns=2)
        clocked.spans(other)
    assert clocked.join.spans_in_memory == 20
    clocked.spans(TREE[0])
    _, ready = clocked.until_ready()
    assert ready.spans is None  # to be read from the store
    assert (ready.completeness, ready.missing_parents) == (Completeness.COMPLETE, 0)


def driven_out(*, memory_bytes: int = 10**6) -> tuple[Clocked, Sequence[Leaving]]:
    """A complete trace with a waiting record leaves the memory, which has room for three spans."""
    clocked = Clocked(memory_spans=3, memory_bytes=memory_bytes)
    clocked.record()
    clocked.spans(*TREE)
    assert clocked.join.leaving() == []
    clocked.spans(Span(trace_id="f" * 32, span_id="f" * 16, name="x", start_ns=1, end_ns=2))
    return clocked, clocked.join.leaving()


def early(size_bytes: int = 100) -> EarlyResult:
    result = RecordResult("u1", "", "", TRACE, Outcome.PASSED, (), 1, 1)
    return EarlyResult(result=result, resource=NO_RESOURCE, size_bytes=size_bytes)


def test_a_complete_trace_can_be_looked_at_before_it_is_let_go() -> None:
    clocked, (leaving,) = driven_out()
    assert ids(leaving.spans) == [1, 2, 3]
    (waiting,) = leaving.waiting
    clocked.join.keep(waiting, early())
    assert (waiting.record.context, clocked.join.context_bytes) == (None, 100)
    _, ready = clocked.until_ready()
    assert (ready.early, ready.spans, ready.needs_spans) == (early(), None, False)
    assert clocked.join.context_bytes == 0


@pytest.mark.parametrize("how", ["span", "version", "load"])
def test_a_result_is_forgotten_once_a_span_comes(how: str) -> None:
    clocked, (leaving,) = driven_out()
    (waiting,) = leaving.waiting
    clocked.join.keep(waiting, early())
    if how == "load":
        clocked.join.load((SPACE, TRACE), TREE, clocked.now)
    else:
        clocked.spans(foreign(4, 1) if how == "span" else dataclasses.replace(TREE[2], end_ns=9))
        clocked.load()
    assert clocked.join.context_bytes == 0
    _, ready = clocked.until_ready()
    assert (ready.early, ready.completeness) == (None, Completeness.COMPLETE)
    assert not ready.is_whole  # its context is read back
    assert ids(ready.spans) == ([1, 2, 3, 4] if how == "span" else [1, 2, 3])


def test_of_a_complete_trace_that_was_let_go_the_ids_are_asked_back() -> None:
    """An orphan makes it incomplete again: nobody could tell without the ids of the others."""
    clocked, _ = driven_out()
    clocked.spans(foreign(5, 4))
    assert unloaded(clocked.join) == [(SPACE, TRACE)]
    clocked.load()
    assert unloaded(clocked.join) == []
    took_s, ready = clocked.until_ready()
    assert (took_s, ready.completeness, ready.missing_parents) == (300, Completeness.DEADLINE, 1)
    assert ids(ready.spans) == [1, 2, 3, 5]


def test_what_nobody_waits_for_any_more_is_asked_back_for_the_next_record() -> None:
    clocked, _ = driven_out()
    clocked.until_ready()
    clocked.spans(foreign(4, 1))
    assert unloaded(clocked.join) == []  # no record asks for it
    clocked.record("u2")
    _, ready = clocked.until_ready()
    assert (ready.completeness, ids(ready.spans)) == (Completeness.COMPLETE, [1, 2, 3, 4])


def test_a_result_that_has_no_room_is_not_kept() -> None:
    clocked, (leaving,) = driven_out(memory_bytes=50)
    clocked.join.keep(leaving.waiting[0], early())
    _, ready = clocked.until_ready()
    assert (ready.early, ready.needs_spans) == (None, True)


def test_an_open_trace_is_not_looked_at_before_it_is_let_go() -> None:
    """More is to come, so a look would be in vain."""
    clocked = Clocked(memory_spans=2)
    clocked.record()
    clocked.spans(*TREE[1:])
    clocked.spans(Span(trace_id="f" * 32, span_id="f" * 16, name="x", start_ns=1, end_ns=2))
    assert clocked.join.leaving() == []


def test_a_record_before_its_first_span_needs_nothing_from_the_store(clocked: Clocked) -> None:
    clocked.join.add_record(record(trace_id=TRACE), Need.TRACE, clocked.now, is_first=True)
    assert unloaded(clocked.join) == []
    clocked.spans(*TREE)
    _, ready = clocked.until_ready()
    assert (ready.completeness, ids(ready.spans)) == (Completeness.COMPLETE, [1, 2, 3])


def test_a_trace_known_to_the_store_is_loaded_before_it_is_judged(clocked: Clocked) -> None:
    """After a restart: two spans are stored already, the third comes in."""
    clocked.stored = {span.span_id: span for span in TREE[:2]}
    clocked.spans(TREE[2], known=frozenset({TRACE}))
    row = record(trace_id=TRACE)
    clocked.join.add_record(row, Need.TRACE, clocked.now)
    assert clocked.after(200) == []  # nobody could load it yet
    clocked.load()
    _, ready = clocked.until_ready()
    assert (ready.completeness, ids(ready.spans)) == (Completeness.COMPLETE, [1, 2, 3])


def test_spans_are_let_go_by_their_size_too() -> None:
    """Room for 10,000 bytes: after three traces of 4,000, the one touched longest ago goes."""
    clocked = Clocked(span_bytes=10_000)
    clocked.record()
    clocked.spans(*TREE[1:], size_bytes=4_000)
    for n in (1, 2):
        other = [foreign(m) for m in (1, 2, 3, 4)]
        spans = [dataclasses.replace(each, trace_id=f"{n:032x}") for each in other]
        clocked.join.add_spans(SPACE, spans, NONE, clocked.now, size_bytes=4_000)
    assert (clocked.join.span_bytes, clocked.join.spans_in_memory) == (8_000, 8)
    clocked.spans(TREE[0], size_bytes=2_000)
    _, ready = clocked.until_ready()
    assert (ready.spans, ready.completeness) == (None, Completeness.COMPLETE)
    clocked.after(31)  # all is quiet, and forgotten
    assert (clocked.join.span_bytes, clocked.join.spans_in_memory) == (0, 0)


def test_spans_that_were_read_back_have_a_size(clocked: Clocked) -> None:
    """Two spans with a text of 5,000 characters each; a third came in with 700 bytes."""
    text = {"text": "x" * 5_000}
    clocked.stored = {f"{n:016x}": foreign(n, attributes=text) for n in (1, 2)}
    clocked.spans(foreign(3), known=frozenset({TRACE}), size_bytes=700)
    assert clocked.join.span_bytes == 700
    clocked.record()
    assert 10_000 < clocked.join.span_bytes < 11_000


# --- a broker that is away ----------------------------------------------------------------------

HOUR = 3600
HELD = (Via.BROKER, Via.UNKNOWN)


@pytest.mark.parametrize(
    ("of_record", "of_spans"), [(Via.BROKER, Via.BROKER), (Via.DIRECT, Via.BROKER)]
)
def test_a_trace_of_a_broker_waits_until_it_is_back(
    clocked: Clocked, of_record: Via, of_spans: Via
) -> None:
    """Ten seconds, an hour without it, and twenty more until the trace has been quiet for 30."""
    clocked.record(via=of_record)
    clocked.spans(foreign(2, 1), via=of_spans)
    assert clocked.after(10) == []
    assert clocked.hold(HOUR, *HELD) == []
    assert clocked.after(19.9) == []
    (ready,) = clocked.after(0.2)
    assert (ready.completeness, ready.waited_s) == (Completeness.QUIET, pytest.approx(30.1))


def test_a_complete_trace_of_a_broker_waits_for_it_too(clocked: Clocked) -> None:
    """A second process may have written spans that nobody has read yet."""
    clocked.spans(*TREE, via=Via.BROKER)
    clocked.record(via=Via.BROKER)
    assert clocked.hold(HOUR, *HELD) == []
    assert [ready.completeness for ready in clocked.after(0.5)] == [Completeness.COMPLETE]


@pytest.mark.parametrize(
    ("spans", "completeness", "seconds"),
    [(TREE, Completeness.COMPLETE, 1), ([foreign(2, 1)], Completeness.QUIET, 30)],
)
def test_a_trace_that_comes_directly_waits_for_no_broker(
    clocked: Clocked, spans: Sequence[Span], completeness: Completeness, seconds: float
) -> None:
    clocked.record()
    clocked.spans(*spans)
    (ready,) = clocked.hold(60, *HELD)
    assert (ready.completeness, ready.waited_s) == (completeness, seconds)


def test_a_record_without_a_span_may_wait_for_a_broker(clocked: Clocked) -> None:
    """It came directly, its spans need not; once one has come directly, it waits no longer."""
    clocked.record()
    assert clocked.hold(HOUR, *HELD) == []
    clocked.spans(foreign(2, 1))
    assert clocked.hold(29, *HELD) == []
    (ready,) = clocked.hold(1, *HELD)
    assert (ready.completeness, ready.waited_s) == (Completeness.QUIET, 30)


def test_it_waits_no_longer_than_the_clock_says(clocked: Clocked) -> None:
    """After its bound the clock holds only those that came by the broker themselves."""
    clocked.record()
    assert clocked.hold(HOUR, *HELD) == []
    (ready,) = clocked.hold(60, Via.BROKER)
    assert (ready.completeness, ready.waited_s) == (Completeness.QUIET, 30)


def test_a_span_of_a_broker_binds_its_trace_to_it(clocked: Clocked) -> None:
    """Twenty seconds have passed when it comes; from then on the broker is waited for."""
    clocked.record()
    clocked.spans(foreign(2, 1))
    assert clocked.hold(20, *HELD) == []
    clocked.spans(TREE[2], via=Via.BROKER)
    assert clocked.hold(HOUR, *HELD) == []
    assert clocked.after(29.9) == []
    (ready,) = clocked.after(0.2)
    assert (ids(ready.spans), ready.waited_s) == ([2, 3], pytest.approx(50.1))


@pytest.mark.parametrize(("spans", "is_judged"), [(TREE, True), ((foreign(1),), False)])
def test_stored_spans_tell_the_way_only_if_nothing_is_missing(
    clocked: Clocked, spans: Sequence[Span], is_judged: bool
) -> None:
    """Read back after a restart: stamped and complete, a trace has nothing in any broker."""
    clocked.stored = {span.span_id: span for span in spans}
    clocked.record(via=Via.UNKNOWN)
    assert bool(clocked.hold(60, *HELD)) == is_judged


def test_who_waits_for_a_profile_waits_for_no_broker(clocked: Clocked) -> None:
    clocked.record(need=Need.PROFILE, via=Via.BROKER)
    assert clocked.hold(299, *HELD) == []
    assert len(clocked.hold(1, *HELD)) == 1


# --- the law ----------------------------------------------------------------------------------


@st.composite
def traffic(draw: st.DrawFn) -> tuple[list[Span], int]:
    """A trace of one or two stamped processes, and how many records belong to it."""
    size = draw(st.integers(1, 8))
    parents = [draw(st.integers(1, n)) for n in range(1, size)]
    is_second = [draw(st.booleans()) for _ in parents]
    processes = ["p", *("q" if second else "p" for second in is_second)]
    for child, parent in enumerate(parents, start=1):
        if processes[parent - 1] == "q":
            processes[child] = "q"
    spans = [ours(1)]
    for number, parent in enumerate(parents, start=2):
        remote = processes[number - 1] != processes[parent - 1]
        spans.append(ours(number, parent, process=processes[number - 1], remote=remote))
    counts = {name: processes.count(name) for name in processes}
    stamped: list[Span] = []
    roots = {"p": 0, "q": 0}
    for span, process in zip(spans, processes, strict=True):
        if span.parent_span_id is None or span.parent_is_remote:
            # The first local root carries all but one for each further one.
            later = (
                sum(
                    1
                    for each, name in zip(spans, processes, strict=True)
                    if name == process and (each.parent_span_id is None or each.parent_is_remote)
                )
                - 1
            )
            count = counts[process] - later if roots[process] == 0 else 1
            roots[process] += 1
            parent = None if span.parent_span_id is None else int(span.parent_span_id, 16)
            remote = bool(span.parent_is_remote)
            number = int(span.span_id, 16)
            span = ours(number, parent, process=process, count=count, remote=remote)
        stamped.append(span)
    return stamped, draw(st.integers(1, 3))


@settings(max_examples=150, deadline=None)
@given(
    given_traffic=traffic(),
    seed=st.integers(0, 2**32),
    memory=st.sampled_from([1, 3, 1000]),
)
def test_the_evaluation_does_not_depend_on_order_duplicates_or_splits(
    given_traffic: tuple[list[Span], int], seed: int, memory: int
) -> None:
    """Every record sees the whole trace, complete, once, however things arrive.

    Of one process any gap is allowed, as its stamp says what is to come. Nobody can know of a
    second process before its first span, so with two everything comes within the settle time.
    Memory may be too small for the trace, and other traces drive it out again and again.
    """
    spans, records = given_traffic
    rng = random.Random(seed)
    is_one_process = len({str(span.resource.attributes[PROCESS_ID]) for span in spans}) == 1
    gaps = [0.0, 0.3, 5.0] if is_one_process else [0.0, 0.03]
    arrivals: list[Span | str] = [*spans, *rng.choices(spans, k=3)]
    arrivals += [f"u{n}" for n in range(records)]
    rng.shuffle(arrivals)
    clocked = Clocked(memory_spans=memory)
    found: list[Ready] = []
    for arrival in arrivals:
        if isinstance(arrival, str):
            clocked.record(arrival)
        elif arrival.span_id not in clocked.stored:  # the store hands on no duplicate
            is_known = any(each.trace_id == TRACE for each in clocked.stored.values())
            clocked.spans(arrival, known=frozenset({TRACE}) if is_known else NONE)
            clocked.load()
        if rng.random() < 0.5:
            other = f"{rng.getrandbits(120) + 1:032x}"
            clocked.spans(dataclasses.replace(ours(rng.getrandbits(60)), trace_id=other))
        found += clocked.after(rng.choice(gaps))
        clocked.load()
    for _ in range(100):
        clocked.load()
        found += clocked.after(1)

    assert sorted(ready.record.uid for ready in found) == [f"u{n}" for n in range(records)]
    everything = sorted(int(span.span_id, 16) for span in spans)
    for ready in found:
        assert (ready.completeness, ready.missing_parents) == (Completeness.COMPLETE, 0)
        assert ready.spans is None or ids(ready.spans) == everything
    assert clocked.join.waiting == 0
    assert clocked.join.spans_in_memory == 0


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), memory=st.integers(1, 4), has_better=st.booleans())
def test_no_result_is_made_of_a_part_of_a_trace(seed: int, memory: int, has_better: bool) -> None:
    """Four traces drive each other out of memory; each result says how many spans it saw.

    The root may come first, so that a trace is complete again and again; and once more at the end,
    in a better version.
    """
    rng = random.Random(seed)
    clocked = Clocked(memory_spans=memory)
    seen: dict[int, tuple[str, Sequence[Span]]] = {}

    def look() -> None:
        """As the pipeline does after every message, and after everything that was read back."""
        for leaving in clocked.join.leaving():
            for waiting in leaving.waiting:
                seen[len(seen)] = waiting.record.uid, leaving.spans
                result = RecordResult("u", "", "", TRACE, Outcome.PASSED, (), 1, len(seen) - 1)
                made = EarlyResult(result=result, resource=NO_RESOURCE, size_bytes=100)
                clocked.join.keep(waiting, made)

    traces = {f"{n:032x}": rng.randint(1, 4) for n in range(1, 5)}
    arrivals: list[Span] = []
    for trace_id, size in traces.items():
        base = int(trace_id, 16) * 16
        root = dataclasses.replace(foreign(base), trace_id=trace_id)
        children = [
            dataclasses.replace(foreign(base + n, base), trace_id=trace_id) for n in range(1, size)
        ]
        arrivals += [root, *children]
        arrivals += [dataclasses.replace(root, end_ns=9)] if has_better else []
        clocked.record(trace_id, trace_id=trace_id)
        look()
    rng.shuffle(arrivals)
    found: list[Ready] = []
    for span in arrivals:
        before = clocked.stored.get(span.span_id)
        if before is not None and before.end_ns > span.end_ns:
            continue  # the store hands on no version that is not better
        is_known = any(each.trace_id == span.trace_id for each in clocked.stored.values())
        clocked.spans(span, known=frozenset({span.trace_id}) if is_known else NONE)
        look()
        if rng.random() < 0.5:
            clocked.load()
            look()
    for _ in range(40):
        clocked.load()
        look()
        found += clocked.after(1)

    assert sorted(ready.record.uid for ready in found) == sorted(traces)
    for ready in found:
        trace_id = ready.record.uid
        expected = {each.span_id: each for each in clocked.stored.values()
                    if each.trace_id == trace_id}  # fmt: skip
        assert ready.completeness is Completeness.COMPLETE
        assert (ready.span_count, ready.missing_parents) == (len(expected), 0)
        spans = ready.spans
        if ready.early is not None:
            uid, spans = seen[ready.early.result.duration_ns]
            assert uid == trace_id
        if spans is not None:
            assert {span.span_id: span for span in spans} == expected
    assert (clocked.join.waiting, clocked.join.context_bytes) == (0, 0)
    assert (clocked.join.spans_in_memory, clocked.join.span_bytes) == (0, 0)
