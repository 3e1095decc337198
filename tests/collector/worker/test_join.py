"""The join by a hand clock: when records of a trace are due, and why."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.store.rows import Completeness
from collector.worker.join import Join
from collector.worker.open_trace import JoinTimes, Waiting
from collector.worker.read import LogTime
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Span
from tests.support.worker_room import SECOND_NS, span, trace_id

TIMES: Final = JoinTimes(settle_s=1, foreign_settle_s=4, quiet_s=10, deadline_s=30)
KEY: Final = ("s", trace_id(1))


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
    made = span(1, number, parent, resource={PROCESS_ID: process}, attributes=stamp)
    return replace(made, parent_is_remote=remote)


ROOT: Final = ours(0, count=2)
CHILD: Final = ours(1, 0)
FOREIGN_ROOT: Final = span(1, 0)
FOREIGN_CHILD: Final = span(1, 1, 0)
ORPHAN: Final = span(1, 3, 2)

Event = tuple[float, Span | str]
"""A time, and what comes then: a span, or the record of that uid."""


def decided(
    events: Sequence[Event], until: float, times: JoinTimes = TIMES
) -> list[tuple[float, str, str]]:
    """Let things come, and look every half second; gives time, uid and reason of each decision."""
    join, stored = Join(times), dict[str, Span]()
    found: list[tuple[float, str, str]] = []
    waiting = sorted(events, key=lambda each: each[0])
    seq = 0
    for step in range(int(until * 2) + 1):
        now = step / 2
        while waiting and waiting[0][0] <= now:
            seq += 1
            _, what = waiting.pop(0)
            if isinstance(what, str):
                record = Waiting(space="s", uid=what, seq=seq, arrived=now)
                stored_bytes = 0 if stored else None
                join.wait_for_trace(KEY, record, now, stored_bytes=stored_bytes)
            elif stored.get(what.span_id) != what:  # the store takes nothing twice
                known = {what.trace_id: 0} if stored else dict[str, int]()
                join.add_spans("s", [what], seq, now, known=known, opens=False)
                stored[what.span_id] = what
        join.look(now)
        while join.has_due:
            space = join.next_space()
            assert space is not None
            item = join.take(space)
            assert isinstance(item, tuple)
            decision = join.decide(item, stored.values(), now)
            found += [(now, each.uid, decision.completeness.value) for each in decision.waiting]
    return found


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        pytest.param(
            [(0, "r"), (1, CHILD), (2, ROOT)], [(3, "r", "complete")], id="stamped-record-first"
        ),
        pytest.param(
            [(0, ROOT), (0, CHILD), (5, "r")], [(6, "r", "complete")], id="record-behind-its-spans"
        ),
        pytest.param(
            [(0, "r"), (0, FOREIGN_ROOT)], [(4, "r", "complete")], id="other-sdks-settle-longer"
        ),
        pytest.param(
            [(0, "r"), (0, FOREIGN_ROOT), (3, FOREIGN_CHILD)], [(7, "r", "complete")],
            id="each-span-begins-the-settling-anew",
        ),
        pytest.param([(0, "r")], [(10, "r", "quiet")], id="no-span-at-all"),
        pytest.param(
            [(0, "r"), (2, ORPHAN)], [(12, "r", "quiet")], id="one-missing-parent-may-be-elsewhere"
        ),
        pytest.param(
            [(0, "r"), (2, FOREIGN_ROOT), (2, ORPHAN)], [(30, "r", "deadline")],
            id="a-missing-parent-beside-a-root-is-a-gap",
        ),
        pytest.param([(0, "r"), (1, ROOT)], [(30, "r", "deadline")], id="a-stamp-not-fulfilled"),
        pytest.param(
            [(0, "r"), (1, ROOT), (20, "s"), (31, CHILD)],
            [(30, "r", "deadline"), (32, "s", "complete")],
            id="a-second-record-waits-on",
        ),
        pytest.param(
            [(0, "r"), (0, "s"), (1, ROOT), (1, CHILD)],
            [(2, "r", "complete"), (2, "s", "complete")],
            id="two-records-of-one-trace",
        ),
        pytest.param(
            [(0, "r"), (1, ROOT), (28, CHILD)], [(29, "r", "complete")],
            id="what-was-missing-comes-in-the-end",
        ),
        pytest.param(
            [(0, "r"), (0, ours(0, count=1)), (0, ours(3, 8, process="q", count=1, remote=True))],
            [(10, "r", "quiet")], id="all-stamps-fulfilled-and-a-process-between-them-missing",
        ),
        pytest.param(
            [(0, "r"), (0, ours(0, count=1)), (0, ours(3, 8, process="q"))],
            [(30, "r", "deadline")], id="a-missing-parent-of-the-same-process",
        ),
        pytest.param(
            [(0, "r"), (0, ROOT), (0, CHILD), (0, ours(4, 1, process="q", count=2, remote=True)),
             (8, ours(5, 4, process="q"))],
            [(9, "r", "complete")], id="every-process-has-to-deliver",
        ),
        pytest.param(
            [(0, "r"), (0, ours(0, process="c", count=1)), (0, ours(1, 0, count=2, remote=True)),
             (0, ours(3, 0, count=1, remote=True)), (5, ours(2, 1))],
            [(6, "r", "complete")], id="two-local-roots-of-one-process-add-up",
        ),
        pytest.param(
            [(0, "r"), (0, ours(0, count=1)), (0, FOREIGN_CHILD)], [(4, "r", "complete")],
            id="one-foreign-span",
        ),
        pytest.param(
            [(0, "r"), (0, ours(0)), (0, CHILD)], [(4, "r", "complete")],
            id="a-process-that-lost-count",
        ),
        pytest.param(
            [(0, "r"), (0, span(1, 1, 2)), (0, span(1, 2, 1))], [(10, "r", "quiet")],
            id="parents-in-a-circle-have-no-root",
        ),
        pytest.param(
            [(0, "r"), *((at, span(1, 10 + at, 1)) for at in range(1, 40, 6)), (7, "s")],
            [(30, "r", "deadline"), (37, "s", "deadline")], id="a-trace-that-never-rests",
        ),
        pytest.param(
            [(0, "r"), (0, FOREIGN_ROOT), (0, span(1, 1, 8)), (2, span(1, 1, 0, end_ns=10))],
            [(6, "r", "complete")], id="a-better-version-of-a-span",
        ),
    ],
)  # fmt: skip
def test_when_and_why(events: list[Event], wanted: list[tuple[float, str, str]]) -> None:
    assert decided(events, 40) == wanted


SLOW: Final = JoinTimes(settle_s=0.5, foreign_settle_s=7, quiet_s=30, deadline_s=300)


@st.composite
def traffic(draw: st.DrawFn) -> tuple[list[Event], list[str]]:
    """Spans of one process, or two, and records of their trace, in any order, and some twice.

    Of one process any gap is allowed, as its stamp says what is to come. Nobody can know of a
    second process before its first span, so with two everything comes within the settle time.
    """
    size = draw(st.integers(1, 8))
    parents = [draw(st.integers(0, number - 1)) for number in range(1, size)]
    processes = ["p"]
    for parent in parents:
        below = draw(st.booleans()) or processes[parent] == "q"
        processes.append("q" if below else "p")
    remote = [False] + [
        process != processes[parent] for parent, process in zip(parents, processes[1:], strict=True)
    ]
    roots = [number for number in range(size) if number == 0 or remote[number]]
    spans: list[Span] = []
    for number, process in enumerate(processes):
        own = [root for root in roots if processes[root] == process]
        count = None
        if number in own:  # the first local root has the share of all but the others
            count = processes.count(process) - len(own) + 1 if number == own[0] else 1
        parent = None if number == 0 else parents[number - 1]
        spans.append(ours(number, parent, process=process, count=count, remote=remote[number]))
    uids = [f"u{number}" for number in range(draw(st.integers(1, 3)))]
    again = draw(st.lists(st.sampled_from(spans), max_size=3))
    come: list[Span | str] = draw(st.permutations([*spans, *again, *uids]))
    gaps = [0.0, 0.5, 5.0] if "q" not in processes else [0.0]
    at, events = 0.0, list[Event]()
    for each in come:
        at += draw(st.sampled_from(gaps))
        events.append((at, each))
    return events, uids


@settings(max_examples=150, deadline=None)
@given(traffic())
def test_each_record_is_decided_once_with_its_whole_trace(
    given_traffic: tuple[list[Event], list[str]],
) -> None:
    """However things arrive; at the settle time behind the last thing that its trace needed."""
    events, uids = given_traffic
    found = decided(events, 100, SLOW)
    assert sorted(uid for _, uid, _ in found) == uids
    assert {why for *_, why in found} == {"complete"}
    first = {each.span_id: at for at, each in reversed(events) if not isinstance(each, str)}
    came = {each: at for at, each in events if isinstance(each, str)}
    whole = max(first.values())
    for at, uid, _ in found:
        if came[uid] <= whole:
            assert at == whole + 0.5
        else:  # at once, where others wait for the trace, and it has settled
            assert came[uid] <= at <= came[uid] + 0.5


def test_a_record_of_an_unknown_profile_waits_until_the_deadline() -> None:
    join = Join(TIMES)
    join.wait_for_profile(Waiting(space="s", uid="r", seq=1, arrived=0))
    join.wait_for_profile(Waiting(space="s", uid="later", seq=1, arrived=10))
    join.look(29.5)
    assert not join.has_due
    join.look(30)
    taken = join.take("s")
    assert isinstance(taken, Waiting)
    assert (taken.uid, join.take("s")) == ("r", None)
    assert [each.uid for each in join.take_unknown()] == ["later"]
    assert len(join) == 0


def test_a_trace_that_nothing_waits_for_is_forgotten_once_it_is_quiet() -> None:
    join = Join(TIMES)
    join.add_spans("s", [ROOT], 1, 0.0, known={}, opens=True)
    join.look(9.9)
    assert join.next_due() is not None
    join.look(10.0)
    assert join.next_due() is None


def test_spans_open_no_trace_where_nobody_watches() -> None:
    join = Join(TIMES)
    join.add_spans("s", [ROOT], 1, 0.0, known={}, opens=False)
    assert join.next_due() is None


def test_spaces_take_turns() -> None:
    join = Join(TIMES)
    for number in range(1000):
        join.wait_for_turn(Waiting(space="many", uid=f"m{number}", seq=1, arrived=0))
    turns = list[str]()
    for at in range(6):
        if at == 2:
            join.wait_for_turn(Waiting(space="one", uid="o", seq=2, arrived=0))
        space = join.next_space()
        assert space is not None
        turns.append(space)
        join.take(space)

    assert turns == ["many", "many", "one", "many", "many", "many"]


def test_the_low_mark_is_the_oldest_commit_that_something_waiting_needs() -> None:
    join = Join(TIMES)
    assert join.low_seq(7) == 7
    join.wait_for_trace(KEY, Waiting(space="s", uid="r", seq=3, arrived=0), 0.0, stored_bytes=None)
    join.wait_for_profile(Waiting(space="s", uid="u", seq=5, arrived=0))
    join.add_spans("s", [ROOT, CHILD], 4, 0.0, known={}, opens=False)
    assert join.low_seq(7) == 3
    join.look(1.0)
    item = join.take("s")
    assert item == KEY
    decision = join.decide(KEY, [ROOT, CHILD], 1.0)
    assert decision.completeness is Completeness.COMPLETE
    assert join.low_seq(7) == 5
    assert [each.uid for each in join.take_unknown()] == ["u"]
    assert (join.low_seq(7), len(join)) == (7, 0)


def test_what_is_given_back_has_the_next_turn() -> None:
    join = Join(TIMES)
    join.wait_for_trace(KEY, Waiting(space="s", uid="r", seq=1, arrived=0), 0.0, stored_bytes=None)
    join.add_spans("s", [ROOT, CHILD], 1, 0.0, known={}, opens=False)
    join.look(1.0)
    key = join.take("s")
    assert key == KEY
    place = join.place(KEY)
    (waiting,) = join.decide(KEY, [ROOT, CHILD], 1.0).waiting
    join.wait_for_turn(Waiting(space="s", uid="later", seq=2, arrived=0))
    join.wait_again(waiting, place)

    assert (join.take("s"), join.place(KEY)) == (KEY, place)
    assert [each.uid for each in join.waiting_of(KEY)] == ["r"]


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        pytest.param([("read", 1.0), ("read", 1.5), ("end", 2.0)], 2.0, id="goes-with-the-log"),
        pytest.param([("read", 1.0), ("read", 50.0)], 2.0, id="a-gap-counts-a-second"),
        pytest.param([("end", 0.5), ("read", 0.4), ("end", 0.6)], 0.6, id="not-quite-in-order"),
        pytest.param(
            [("read", -3600.0), ("read", -3599.5), ("end", 0.0)], 1.5, id="old-items-at-a-start"
        ),
        pytest.param([("end", 3600.0), ("end", 3600.5), ("end", 0.0), ("end", 0.5)], 2.0,
                     id="the-date-is-set-anew"),
    ],
)  # fmt: skip
def test_the_time_of_the_log(steps: list[tuple[str, float]], seconds: float) -> None:
    now = [0]
    time = LogTime(lambda: now[0])
    for what, at in steps:
        at_ns = int(at * SECOND_NS)
        if what == "read":
            time.read(at_ns)
        else:
            now[0] = at_ns
            time.caught_up()

    assert time.seconds == pytest.approx(seconds)
