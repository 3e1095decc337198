"""Results are taken in the order in which their records were created."""

import math
import random
from collections.abc import Iterator, Sequence

import pytest

from scouter.drift.series.group import Turn
from scouter.drift.series.observed import Observed
from scouter.drift.series.series_set import SeriesSet
from tests.scouter.drift.series.support import (
    FAILED,
    PACE,
    PASSED,
    SECOND,
    feed,
    observed,
    restarted,
    state,
    the_series,
)

WHERE = ("default", "p")


@pytest.fixture
def series() -> SeriesSet:
    return SeriesSet(pace=PACE)


def made(number: int, created_s: float, at_s: float, **fields: object) -> Observed:
    return observed(number, at_s=at_s, created_ns=int(created_s * SECOND), **fields)  # type: ignore[arg-type]


def slow_failures(count: int, a_second: int) -> Iterator[Observed]:
    """Healthy traffic with a pause at its end: a pass takes 2 s, a failure 60 s."""
    draw = random.Random(54)
    rows: list[tuple[float, float, bool]] = []
    for number in range(count):
        is_good = draw.random() < 0.9
        created_s = 1 + number / a_second
        rows.append((created_s + (2 if is_good else 60), created_s, is_good))
    for number, (at_s, created_s, is_good) in enumerate(sorted(rows), 1):
        yield made(number, created_s, at_s, outcome=PASSED if is_good else FAILED)


def taken_live(series: SeriesSet, results: Sequence[Observed]) -> list[Turn]:
    """Take results as a watcher does that knows which records are not decided."""
    left = sorted((each.created_ns for each in results), reverse=True)
    done: set[int] = set()
    turns: list[Turn] = []
    for each in results:
        done.add(each.created_ns)
        while left and left[-1] in done:
            left.pop()
        series.decided({WHERE: left[-1]} if left else {})
        turns += series.take(each)
    return turns


def test_failures_that_take_longer_are_no_fall(series: SeriesSet) -> None:
    results = list(slow_failures(3_000, 20))
    assert feed(SeriesSet(pace=PACE), results) != [], "by completion the slow ones come last"
    assert taken_live(series, results) == []
    found = the_series(series)
    assert (found.units, series.has_early) == (3_000, False)
    rate = sum(each.outcomes[0][1] is PASSED for each in results) / 3_000
    assert abs(found.watches[0].reference.baseline.mean - rate) < 0.02


def test_a_result_waits_for_a_record_that_was_created_before_it(series: SeriesSet) -> None:
    series.decided({WHERE: 5 * SECOND})
    feed(series, [made(1, 7, 8), made(2, 4, 9)])
    assert the_series(series).units == 1, "the one of second 4 alone"
    series.decided({("default", "other"): 5 * SECOND})
    series.advance(10 * SECOND)
    assert the_series(series).units == 2


def test_all_wait_while_it_is_not_known_what_is_decided(series: SeriesSet) -> None:
    series.decided(None)
    feed(series, [made(1, 1, 1)])
    assert series.has_early
    series.decided({}, otherwise_ns=1 * SECOND)
    series.advance(2 * SECOND)
    assert series.has_early, "what was created at that moment waits, too"
    series.decided({}, otherwise_ns=math.inf)
    series.advance(2 * SECOND)
    assert the_series(series).units == 1


def test_a_conversation_waits_for_one_that_began_before_it(series: SeriesSet) -> None:
    feed(series, [made(1, 1, 2, session="long"), made(2, 3, 4, session="short")])
    feed(series, [made(3, 50, 51, session="long", outcome=FAILED)])
    series.advance(70 * SECOND)
    assert list(series.series()) == [], "the short one is quiet, the long one is not"
    again = restarted(series)
    for each in (series, again):
        each.advance(112 * SECOND)
        found = the_series(each)
        assert (found.units, found.records, found.failed) == (2, 3, 1)
    assert state(series) == state(again)


@pytest.mark.parametrize(("length_s", "wait_s"), [(5, 300), (100, 400)])
def test_a_conversation_that_never_rests_holds_up_others_for_a_while(
    series: SeriesSet, length_s: int, wait_s: int
) -> None:
    """Four times the mean length of those that came to rest, and `wait_ns` at least."""
    for first, offset_s in ((1, 0), (5, length_s // 2), (9, length_s)):
        some = range(first, first + 4)
        feed(series, [made(each, 100, 100 + offset_s, session=f"s{each % 4}") for each in some])
    series.advance(1_000 * SECOND)
    assert the_series(series).units == 4
    feed(series, [made(13, 1_000, 1_000, session="endless"), made(14, 1_001, 1_001)])
    for at_s in range(1_020, 1_000 + wait_s, 10):
        feed(series, [made(at_s, at_s, at_s, session="endless")])
    assert the_series(series).units == 4
    again = restarted(series)
    for each in (series, again):
        each.advance((1_000 + wait_s) * SECOND)
        assert (the_series(each).units, each.has_early) == (5, False)
        feed(each, [made(9_000, 999, 1_000 + wait_s, session="endless")])  # created even earlier
        feed(each, [made(9_001, 1_000 + wait_s, 1_000 + wait_s)])
        assert the_series(each).units == 6, "it holds up nobody any more"
    assert state(series) == state(restarted(again)) == state(again)


def long_ones_fail_more(turn_s: int, a_second: int) -> list[Observed]:
    """Healthy conversations of 3 to 20 turns; the longer ones fail more often."""
    draw = random.Random(54)
    rows: list[tuple[float, str, bool]] = []
    for number in range(1_700):
        turns = draw.randint(3, 20)
        for turn in range(1, turns + 1):
            is_good = draw.random() < 0.98 - 0.015 * turns
            rows.append((1 + number / a_second + turn * turn_s, f"s{number}", is_good))
    return [
        made(number, at_s - 2, at_s, session=session, outcome=PASSED if is_good else FAILED)
        for number, (at_s, session, is_good) in enumerate(sorted(rows), 1)
    ]


@pytest.mark.parametrize(("longest", "alarms"), [(4, False), (0, True)])
def test_conversations_that_last_longer_and_fail_more_are_no_fall(
    series: SeriesSet, monkeypatch: pytest.MonkeyPatch, longest: int, *, alarms: bool
) -> None:
    """They would be one if an open conversation delayed others for `wait_ns` alone."""
    monkeypatch.setattr("scouter.drift.series.group.LONG", longest)
    results = long_ones_fail_more(20, 5)
    turns = feed(series, results)
    for pause_s in range(0, 4_000, 30):  # the traffic ends, and the long ones come last
        turns += series.advance(results[-1].at_ns + pause_s * SECOND)
    assert (the_series(series).units, series.has_early) == (1_700, False)
    assert bool(turns) is alarms


def test_where_no_conversation_came_to_rest_the_deadline_holds(series: SeriesSet) -> None:
    feed(series, [made(1, 1, 1, session="endless"), made(2, 2, 2)])
    last_s = PACE.deadline_ns // SECOND
    for at_s in range(10, last_s, 10):
        feed(series, [made(at_s, at_s, at_s, session="endless")])
    assert list(series.series()) == []
    series.advance((last_s + 1) * SECOND)
    feed(series, [made(last_s + 2, last_s + 2, last_s + 2, session="endless")])
    assert the_series(series).units == 2


def test_no_more_outcomes_wait_than_allowed(
    series: SeriesSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scouter.drift.series.group.MOST_EARLY", 3)
    series.decided({WHERE: 0})
    feed(series, (made(number, 20 - number, 30 + number) for number in range(1, 6)))
    found = the_series(series)
    assert (found.units, found.last_ns) == (2, 35 * SECOND), "those created first were taken"


def test_outcomes_that_wait_follow_a_clock_that_is_set_back(series: SeriesSet) -> None:
    series.decided({WHERE: 60 * SECOND})
    feed(series, [made(1, 10_000, 10_000), made(2, 9_000, 10_001, session="s")])
    series.advance(50 * SECOND)
    assert the_series(series).units == 1
    assert series.now_ns == 50 * SECOND


def test_a_record_of_the_future_counts_as_made_when_it_was_judged(series: SeriesSet) -> None:
    series.decided({WHERE: 100 * SECOND})
    feed(series, [made(1, 10_000, 50)])
    assert the_series(series).units == 1


def test_what_waits_goes_on_after_a_restart(series: SeriesSet) -> None:
    series.decided({WHERE: 1})
    feed(series, [made(2, 4, 5, outcome=FAILED), made(3, 3, 6)])
    again = restarted(series)
    assert again.has_early
    for each in (series, again):
        each.decided({})
        each.advance(7 * SECOND)
    assert state(series) == state(again)
    assert the_series(again).examples == ("e2",)
