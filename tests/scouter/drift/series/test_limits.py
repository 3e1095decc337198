"""Costs and durations as series: limits that are learnt, and alarms about what exceeds them."""

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from scouter.drift.series.limits import LEARNT, Limits
from scouter.drift.series.observed import Name, Observed
from scouter.drift.series.reference import Stated
from scouter.drift.series.series import Kind
from scouter.drift.series.series_set import SeriesSet
from tests.scouter.drift.series.support import PACE, SECOND, feed, observed, restarted

BOTH = ("cost", "latency")


def learnt(values: Iterable[float], name: str = "latency") -> Limits:
    limits = Limits(BOTH)
    for value in values:
        assert list(limits.counted([(name, value)])) == []
    return limits


@pytest.mark.parametrize(
    ("values", "name", "within", "beyond"),
    [
        # Nine in ten of 1 to 200 are at most 180; 1.2 times that is 216, rounded up 220.
        (range(1, LEARNT + 1), "latency 220 s", 220, 220.1),
        ([0.01] * LEARNT, "latency 0.012 s", 0.012, 0.0121),
        ([0.0] * LEARNT, "latency 0 s", 0, 1e-9),
        ([0.1] * (LEARNT - 21) + [9.0] * 21, "latency 11 s", 11, 11.1),
        ([0.1] * (LEARNT - 20) + [9.0] * 20, "latency 0.12 s", 0.12, 0.13),
        ([123_456.0] * LEARNT, "latency 150000 s", 150_000, 150_001),
    ],
)
def test_a_limit_is_a_fifth_above_nine_in_ten(
    values: Iterable[float], name: str, within: float, beyond: float
) -> None:
    limits = learnt(values)
    (good,), (bad,) = (limits.counted([("latency", each)]) for each in (within, beyond))
    assert (good.name, good.outcome) == (Name(name, Kind.AMOUNT), 1)
    assert (bad.name, bad.outcome, bad.is_failed) == (Name(name, Kind.AMOUNT), 0, True)


def test_an_unknown_cost_is_an_error_and_is_not_learnt_from() -> None:
    limits = Limits(BOTH)
    for value in [*[0.5] * (LEARNT - 1), None, None]:
        assert not list(limits.counted([("cost", value)]))
    assert not list(limits.counted([("cost", 0.5)]))
    known, unknown = (
        {(each.kind, each.outcome) for each in limits.counted([("cost", value)])}
        for value in (0.7, None)
    )
    assert known == {(Kind.AMOUNT, 0.0), (Kind.ERROR, 1.0)}
    assert unknown == {(Kind.ERROR, 0.0)}


def test_what_is_not_wanted_is_not_watched() -> None:
    limits = Limits(("cost",))
    for _ in range(LEARNT + 1):
        assert not list(limits.counted([("latency", 1.0)]))
    for _ in range(LEARNT):
        assert not list(limits.counted([("cost", 0.0)]))
    assert [each.task for each in limits.counted([("latency", 1.0), ("cost", 0.0)])] == (
        ["cost 0 USD"] * 2
    )


def stream(
    seed: int, count: int, factor: float = 1.0, first: int = 1, version: str = "1"
) -> list[Observed]:
    """Costs as they are: the logarithm is normal, one in a hundred records runs wild."""
    dice = random.Random(seed)

    def amounts() -> tuple[tuple[str, float], ...]:
        wild = 10 if dice.random() < 0.01 else 1
        cost = factor * wild * dice.lognormvariate(-4, 0.7)
        return (("cost", cost), ("latency", dice.lognormvariate(1, 0.5)))

    numbers = range(first, first + count)
    return [observed(number, version=version, amounts=amounts()) for number in numbers]


def alarms(series: SeriesSet, results: Sequence[Observed]) -> list[tuple[str, int]]:
    """Task and place of each alarm."""
    turns = feed(series, results)
    return [(each.series.key.task, each.units) for each in turns if each.fall is not None]


def test_healthy_costs_seldom_alarm() -> None:
    """At 1 % each, three alarms or more of 40 series have a chance of 1 %."""
    found = [alarms(SeriesSet(0.01, PACE), stream(seed, 6_000)) for seed in range(20)]
    assert sum(map(len, found)) <= 2


def test_a_release_that_costs_twice_as_much_is_seen_soon() -> None:
    """Of its first 1,000 records, after a version of 2,000; an equal one is not."""
    series = SeriesSet(0.01, PACE)
    assert alarms(series, stream(1, 2_200)) == []
    same = alarms(series, stream(2, 1_000, first=3_000, version="2"))
    dear = alarms(series, stream(3, 1_000, factor=2.0, first=5_000, version="3"))
    assert same == []
    ((task, units),) = dear
    assert task.startswith("cost ")
    assert units < 300


def test_a_new_process_goes_on_exactly() -> None:
    """In the middle of what is learnt, and behind it; a later version has the same limit."""
    results = stream(1, 1_000) + stream(2, 300, first=2_000, version="2")
    whole = SeriesSet(0.01, PACE)
    feed(whole, results)
    parts = SeriesSet(0.01, PACE)
    for at in range(0, len(results), 150):
        feed(parts, results[at : at + 150])
        parts = restarted(parts)

    def state(series: SeriesSet) -> list[Any]:
        return [json.loads(json.dumps(each.to_json())) for each in series.groups.values()]

    assert state(parts) == state(whole)
    first, second = (
        {n.task for n in g.series if n.kind is Kind.AMOUNT} for g in whole.groups.values()
    )
    assert len(first) == 2
    assert first == second


def test_an_accepted_rise_is_learnt_as_a_new_limit() -> None:
    """The next rise alarms against what was accepted, by hand: 1.2 times 4, and 1.2 times 8."""

    def costs(usd: float, first: int, count: int = 600) -> list[Observed]:
        return [observed(at, amounts=(("cost", usd),)) for at in range(first, first + count)]

    series = SeriesSet(0.01, PACE)
    assert alarms(series, costs(4, 1, 1_500)) == []
    (fallen,) = [each for each in feed(series, costs(8, 2_000)) if each.fall is not None]
    assert fallen.series.key.task == "cost 4.8 USD"
    series.restart(fallen.series.key, accept=True)
    (group,) = series.groups.values()
    assert "cost 4.8 USD" not in {name.task for name in group.series}
    assert alarms(series, costs(8, 3_000, 1_500)) == []
    assert [task for task, _ in alarms(series, costs(16, 5_000))] == ["cost 9.6 USD"]


@pytest.mark.parametrize("is_accepted", [True, False])
def test_what_waits_for_an_old_limit_does_not_begin_it_again(is_accepted: bool) -> None:
    """A conversation is open, and its record waits for another, as the limit is given up."""
    stated = [Stated()]
    series = SeriesSet(0.01, PACE, stated_of=lambda space, uid: stated[0])
    feed(series, (observed(at, amounts=(("cost", 4.0),)) for at in range(1, LEARNT + 2)))
    for at, session in ((300, "talk"), (301, "")):  # the second was created later, and waits
        feed(series, [observed(at, session=session, amounts=(("cost", 4.0),))])
    (group,) = series.groups.values()
    (key,) = [each.key for each in series.series() if each.key.kind is Kind.AMOUNT]
    assert (key.task, group.waiting[:2]) == ("cost 4.8 USD", (1, 1))
    if is_accepted:
        series.restart(key, accept=True)
    else:
        stated[0] = Stated(amounts=())
        series.restate()
    series.advance(10_000 * SECOND)
    assert group.waiting[:2] == (0, 0)
    assert {name.task for name in group.series} == {""}


def test_a_profile_that_stops_watching_ends_the_series() -> None:
    stated = [Stated()]
    series = SeriesSet(0.01, PACE, stated_of=lambda space, uid: stated[0])
    feed(series, stream(1, 300))
    (group,) = series.groups.values()
    assert {name.kind for name in group.series} == {Kind.PASS, Kind.AMOUNT, Kind.ERROR}
    stated[0] = Stated(amounts=())
    series.restate()
    feed(series, stream(2, 10, first=400))
    assert {name.task for name in group.series} == {""}
