"""Falls with one cause, by hand."""

import pytest

from scouter.drift.series.causes import Proven, is_one_cause, specificity
from scouter.drift.series.series import Agent, Kind, Series, SeriesKey
from tests.scouter.drift.series.support import SECOND

MINUTE = 60 * SECOND


def fall(
    since: int, at: int, task: str = "", kind: Kind = Kind.PASS, part: str = "", version: str = "2"
) -> Proven:
    key = SeriesKey("s", "p", Agent("bot", "", version), task, kind, part)
    return Proven(key, since * MINUTE, at * MINUTE)


FIRST = fall(100, 120, "t1")
"""Began at minute 100, proven at 120: another one that began by 140 may have started with it."""


@pytest.mark.parametrize(
    ("other", "is_one"),
    [
        pytest.param(fall(100, 130, "t2"), True, id="began-together"),
        pytest.param(fall(10, 130, "t2"), True, id="proven-later"),
        pytest.param(fall(140, 500, "t2"), True, id="estimate-is-late"),
        pytest.param(fall(141, 500, "t2"), False, id="began-later"),
        pytest.param(fall(100, 130, part="tool search"), True, id="slice"),
        pytest.param(fall(400, 500, part="tool search"), False, id="later-slice"),
        pytest.param(fall(400, 900), True, id="whole-record-at-any-time"),
        pytest.param(fall(100, 130, "t1", Kind.SCORE), True, id="scores"),
        pytest.param(fall(100, 130, "t2", Kind.ERROR), False, id="errors-are-apart"),
        pytest.param(fall(100, 130, kind=Kind.ERROR), False, id="errors-of-all"),
        pytest.param(fall(100, 130, "cost 1 USD", Kind.AMOUNT), False, id="costs-are-apart"),
        pytest.param(fall(100, 130, "t2", version="3"), False, id="another-version"),
    ],
)
def test_falls_that_began_together_have_one_cause(other: Proven, is_one: bool) -> None:
    assert is_one_cause(other, [FIRST]) is is_one
    assert is_one_cause(other, [fall(0, 1, "t9"), FIRST]) is is_one


def test_a_result_that_is_older_than_the_one_before_it_parts_no_cause() -> None:
    """Results are taken in the order of creation, so the last one may be older than the first."""
    assert is_one_cause(fall(120, 100, "t2"), [fall(120, 100, "t1")])


@pytest.mark.parametrize(("began_s", "is_one"), [(300, True), (301, False)])
def test_results_that_come_at_once_have_one_cause(began_s: int, is_one: bool) -> None:
    """A fall that was proven in the second in which it began, as after an outage."""
    key = SeriesKey("s", "p", Agent(), "t1", Kind.PASS)
    other = Proven(key._replace(task="t2"), began_s * SECOND, (began_s + 1) * SECOND)
    assert is_one_cause(other, [Proven(key, 0, 0)]) is is_one


def test_nothing_open_is_no_cause() -> None:
    assert not is_one_cause(FIRST, [])


def test_a_slice_is_narrower_than_a_task_and_a_task_than_the_record() -> None:
    keys = [fall(0, 1).key, fall(0, 1, "t").key, fall(0, 1, part="tool x").key]
    assert [specificity(key) for key in keys] == [0, 1, 2]


@pytest.mark.parametrize("start", range(1_500, 1_504))
def test_results_that_are_timed_out_of_order_prove_no_fall_before_it_began(start: int) -> None:
    """Of two workers one is 100 s ahead: results of both, in the order of creation."""
    series = Series(SeriesKey("default", "p", Agent(), "t", Kind.PASS))
    for n in range(2_000):
        at_ns = (1_000 + n + 100 * (n % 2)) * SECOND
        failed = int(n >= start)
        if series.take(1 - failed, 1, failed, at_ns) and (fall := series.fall()):
            break
    else:
        pytest.fail("it fell")
    assert fall.since_ns <= series.last_ns
    proven = Proven(series.key, fall.since_ns, series.last_ns)
    assert is_one_cause(proven, [proven])
