"""Replays and backtests of streams whose rates are known."""

import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.history.backtest import (
    Backtest,
    Delay,
    backtest,
    delays_of,
    resampled,
    worsened,
)
from scouter.drift.history.replay import KnownProfile, Mix, Period, Recorder, Unit, replay
from scouter.drift.history.report import BUCKETS, report_of
from scouter.drift.series.causes import Cause
from scouter.drift.series.observed import RECORD, Observed
from scouter.drift.series.reference import Stated
from scouter.drift.series.series import SeriesKey
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.statistics.explained import Guilty, Origin
from tests.bench.drift import delay_bound
from tests.scouter.drift.series.support import (
    FAILED,
    PACE,
    PASSED,
    SECOND,
    observed,
    outcomes,
    run,
    state,
)

ALPHA = 0.01


def bits(rate: float, count: int, seed: int = 1) -> list[int]:
    """Passes and fails, of which exactly that share passes, in an order drawn by lot."""
    passed = round(rate * count)
    found = [1] * passed + [0] * (count - passed)
    random.Random(seed).shuffle(found)
    return found


def stream(parts: Iterable[tuple[str, Sequence[int]]]) -> Iterator[Observed]:
    """Results of one version after the other, one each second."""
    number = 0
    for version, each in parts:
        for outcome in outcomes(each):
            number += 1
            yield observed(number, outcome, version=version)


def replayed(results: Iterable[Observed], level: float | None = None) -> list[Recorder]:
    return both(results, level)[0]


def both(
    results: Iterable[Observed], level: float | None = None, slices: tuple[str, ...] = ()
) -> tuple[list[Recorder], list[Cause]]:
    return replay(
        results,
        alpha=ALPHA,
        pace=PACE,
        stated_of=lambda space, uid: Stated.of(None, level, slices),
        end_ns=10**18,
    )


def passes(found: Iterable[Backtest]) -> dict[str, Backtest]:
    """The series of passes by version."""
    return {each.series.key.agent.version: each for each in found if each.series.key.kind == "pass"}


def test_a_replay_ends_as_the_live_series_do() -> None:
    given = bits(0.9, 1_500) + bits(0.5, 300)
    live = SeriesSet(ALPHA, PACE)
    turns = run(live, given)
    live.advance(10**18)
    found = replayed(stream([("1", given)]))
    # Through JSON, which has no tuples.
    written = json.loads(json.dumps([each.to_json() for each in found]))
    assert [written] == [group["series"] for group in state(live)[1]]
    assert [len(each.alarms) for each in found] == [1, 0] == [len(turns), 0]


def test_history_with_a_fall_would_have_fired() -> None:
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 2_500) + bits(0.5, 300))])))
    (alarm,) = each.alarms
    changed_s = alarm.fall.since_ns // SECOND
    assert abs(changed_s - 2_500) <= 50
    assert each.healthy == 2_800  # nobody said that it was not
    assert alarm.opened_ns // SECOND - 1 == alarm.unit
    numbers = [[int(name[1:]) for name in names] for names in (alarm.before, alarm.since)]
    assert max(numbers[0]) < changed_s <= min(numbers[1])
    assert [len(each) for each in numbers] == [3, 3]
    assert numbers[0] == sorted(numbers[0], reverse=True)


def test_falls_are_seen_about_as_soon_as_they_can_be() -> None:
    """The level is known, so that a fall before the 2,000th record has the bound of theory.

    The median of 19 draws is within half of the bound; the longest bound, of 5 points, is not
    reached within 2,000 records by every draw.
    """
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 4_000))]), level=0.9))
    found = {round(one.fall * 100): one for one in each.injected}
    assert (each.alarms, each.healthy) == ([], 4_000)
    assert each.words.startswith("the stated level of 90.0%; its own first records")
    for points in (10, 20):
        bound, fall = delay_bound(0.9, 0.9 - points / 100, 2_000), found[points]
        assert fall.seen == fall.draws >= 17  # in a draw with an alarm there is no fall to see
        assert 0.5 * bound <= (fall.units or 0) <= 1.6 * bound
        assert (fall.least or 0) < (fall.units or 0) < (fall.most or 0)
        assert fall.hours == pytest.approx(((fall.units or 0) - 1) / 3_600)
    assert (found[5].units or 4_000) > 3 * (found[10].units or 0)


def test_nine_of_ten_delays_lie_in_the_interval() -> None:
    """Of 19 numbers in order the first and the last; one that was not seen is the slowest."""
    delays = [Delay(float(n), n / 10) for n in range(19, 0, -1)]
    found = delays_of(0.1, delays)
    assert (found.units, found.least, found.most, found.hours) == (10, 1, 19, 1.0)
    late = delays_of(0.1, [Delay(math.inf, math.inf), *delays[1:]])
    assert (late.units, late.least, late.most, late.seen) == (10, 1, None, 18)
    of_39 = delays_of(0.1, [Delay(float(n), 0.0) for n in range(39)])
    assert (of_39.least, of_39.units, of_39.most) == (1, 19, 37)
    assert delays_of(0.1, []).units is None


DAY = 86_400


def units_of(seconds: Iterable[int]) -> list[Unit]:
    """A unit at each second; its outcome says which."""
    return [
        Unit(at / 10**6, 1, 0, at * SECOND, at * SECOND) for at in seconds
    ]  # fmt: skip


def test_days_are_drawn_as_wholes_and_keep_their_hours() -> None:
    """Five days; on day n there are n + 1 units, from the hour n on."""
    part = units_of(day * DAY + (day + n) * 3_600 for day in range(5) for n in range(day + 1))
    drawn = resampled(part, seed=3)
    days: dict[int, list[Unit]] = {}
    for unit in drawn:
        days.setdefault(unit.created_ns // (DAY * SECOND), []).append(unit)
    assert list(days) == [0, 1, 2, 3, 4]
    chosen: set[int] = set()
    for day, units in days.items():
        was = [round(unit.outcome * 10**6) for unit in units]
        (source,) = {second // DAY for second in was}
        assert was == [source * DAY + (source + n) * 3_600 for n in range(source + 1)]
        assert [unit.created_ns // SECOND - day * DAY for unit in units] == [
            second % DAY for second in was
        ]
        chosen.add(source)
    assert len(chosen) > 1
    assert resampled(part, seed=3) == drawn != resampled(part, seed=4)


def test_a_short_history_is_drawn_in_twentieths() -> None:
    """Of 200 units ten in a row; times are those of the places."""
    part = units_of(range(200))
    drawn = resampled(part, seed=1)
    assert [(unit.at_ns, unit.created_ns) for unit in drawn] == [
        (unit.at_ns, unit.created_ns) for unit in part
    ]
    numbers = [round(unit.outcome * 10**6) for unit in drawn]
    for at in range(0, 200, 10):
        first = numbers[at]
        assert first % 10 == 0
        assert numbers[at : at + 10] == list(range(first, first + 10))
    assert len({number // 10 for number in numbers}) < 20  # with replacement


def test_nights_that_fail_more_alarm_in_what_is_drawn_too() -> None:
    """Seven days, by night 0.6 in place of 0.95: history is not cut where it alarms first."""
    draw = random.Random(2)
    results = (
        observed(
            n, PASSED if draw.random() < (0.95 if n % 400 < 200 else 0.6) else FAILED,
            at_s=n * DAY / 400,
        )
        for n in range(1, 2_801)
    )  # fmt: skip
    (each, _) = backtest(replayed(results, level=0.9), falls=[0.3])
    assert each.healthy == 2_800
    assert len(each.alarms) > 1
    assert each.alarmed_draws == each.draws == 19


def test_what_people_would_have_seen_is_one_alert_for_one_cause() -> None:
    """A tenth of the traffic falls from 0.9 to 0.05, and with it all records."""
    draw = random.Random(4)

    def result(n: int) -> Observed:
        part = draw.randrange(10)
        is_good = draw.random() < (0.05 if n > 4_000 and not part else 0.9)
        outcome = PASSED if is_good else FAILED
        return observed(
            n, outcomes=((RECORD, outcome), ("t", outcome)), traits=(f"tag part={part}",)
        )

    found, alerts = both(map(result, range(1, 8_001)), slices=("tag",))
    (alert,) = alerts
    assert alert.headline.slice == "tag part=0"
    fell = {(key.task, key.slice) for key in alert.falls}
    assert fell == {("", "tag part=0"), ("", ""), ("t", "")}
    assert alert.ended_ns is None
    assert alert.opened_ns == min(a.opened_ns for each in found for a in each.alarms)


def test_a_fall_that_is_mostly_missed_has_no_median() -> None:
    falls = (0.02, 0.3)
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 1_300))])), falls=falls)
    small, large = each.injected
    assert (small.seen, small.units, small.hours) == (0, None, None)
    assert (large.seen, each.series.compared_from) == (19, 1_000)


def test_a_fall_is_put_behind_what_is_learnt() -> None:
    """The level is there from the first record on; a fall before the 1,000th would be learnt."""
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 1_300))]), level=0.5), falls=[0.3])
    assert (each.series.compared_from, each.series.learnt_from) == (0, 1_000)
    assert (each.injected[0].units or 1_300) <= 60


def test_what_still_learns_can_see_nothing() -> None:
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 400))])))
    assert (each.series.compared_from, each.alarms, each.injected) == (None, [], [])
    assert each.words.startswith("nothing yet: 400 records")


def test_alarms_before_a_healthy_time_are_false() -> None:
    """Forty failures in a row at 1,900 s."""
    ordered = bits(0.95, 1_500) + [1] * 400 + [0] * 40 + [1] * 400
    known = replayed(stream([("1", ordered)]), level=0.9)
    (each, _) = backtest(known, healthy_until_ns=3_000 * SECOND)
    assert len(each.alarms) == each.false_alarms == 1
    (before, _) = backtest(known, healthy_until_ns=1_000 * SECOND)
    assert (before.false_alarms, before.healthy) == (0, 999)
    assert before.alarmed_draws == 0


def test_falls_are_put_into_the_last_version_only() -> None:
    parts = [("1", bits(0.9, 1_200)), ("2", bits(0.9, 1_200, seed=2))]
    found = passes(backtest(replayed(stream(parts))))
    assert (list(found["1"].injected), found["1"].draws) == ([], 0)
    assert [each.seen for each in found["2"].injected][-1] == 19
    assert "version 1 before it" in found["2"].words
    assert found["2"].series.compared_from == 0


def test_no_fall_is_put_where_an_alarm_is_open() -> None:
    """The version is bad from its first record on, in whatever order its blocks come."""
    parts = [("1", bits(0.9, 1_200)), ("2", bits(0.5, 300))]
    found = passes(backtest(replayed(stream(parts)), falls=[0.2]))
    assert found["2"].alarms[0].fall.since_ns == 1_201 * SECOND
    assert (found["2"].healthy, found["2"].alarmed_draws) == (300, 19)
    (fall,) = found["2"].injected
    assert (fall.draws, fall.units) == (0, None)


def test_conversations_are_units() -> None:
    """Three records each; the last conversation is quiet by the end."""
    three = ((n, bit) for n, bit in enumerate(bits(0.9, 300)))
    results = (
        observed(n + 1, outcomes([bit])[0], session=f"s{n // 3}", at_s=n // 3 * 100)
        for n, bit in three
    )
    (each, _) = replayed(results)
    assert (len(each.units_taken), each.records) == (100, 300)
    assert all(unit.outcome == (3 - unit.failed) / 3 for unit in each.units_taken)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 1)), max_size=30),
    st.floats(0.01, 0.99),
    st.integers(0, 99),
)
def test_what_is_worsened_is_never_better(
    drawn: list[tuple[int, float]], share: float, seed: int
) -> None:
    units = [
        Unit((count - int(part * count)) / count, count, int(part * count), at, at)
        for at, (count, part) in enumerate(drawn)
    ]
    worse = list(worsened(units, share, seed))
    assert [(each.records, each.at_ns) for each in worse] == [(u.records, u.at_ns) for u in units]
    for one, other in zip(units, worse, strict=True):
        assert one.failed <= other.failed <= other.records
        assert other.outcome == (other.records - other.failed) / other.records
    scores = worsened(units, share, seed, is_counted=False)
    assert [each.outcome for each in scores] == [u.outcome * (1 - share) for u in units]


def test_the_share_that_is_flipped() -> None:
    """A ninth of 9,000 passes is 1,000; the standard deviation is the root of 9,000 · 1/9 · 8/9."""
    units = [Unit(1.0, 9, 0, at, at) for at in range(1_000)]
    failed = sum(each.failed for each in worsened(units, 1 / 9, seed=3))
    assert abs(failed - 1_000) <= 3 * (9_000 / 9 * 8 / 9) ** 0.5


def test_the_buckets_of_a_report() -> None:
    """Each outcome is in one bucket; the evidence passes its line where the alarm is."""
    (each, _) = replayed(stream([("1", bits(0.9, 2_000) + bits(0.5, 300))]))
    origin = Origin(sentence="It fell.", guilty=[Guilty("tool a", (90, 100), (50, 100))])
    found = report_of(each, Known(origin))
    assert len(found.buckets) == BUCKETS
    assert sum(bucket.units for bucket in found.buckets) == 2_300
    assert sum(round(bucket.rate * bucket.units) for bucket in found.buckets) == 1_800 + 150
    assert all(bucket.lower <= bucket.rate <= bucket.upper for bucket in found.buckets)
    (alarm,) = found.alarms
    fired = [bucket.start_ns for bucket in found.buckets if bucket.evidence >= 2 / ALPHA]
    assert fired[0] <= alarm.opened_ns < fired[0] + found.bucket_ns
    assert found.origin == origin


def test_one_outcome_is_a_report() -> None:
    (each, _) = replayed(stream([("1", [1])]))
    (bucket,) = report_of(each, Known(None)).buckets
    assert (bucket.units, bucket.rate, bucket.evidence) == (1, 1.0, 0.0)


class Known:
    """A history of which the cause of any change is known."""

    def __init__(self, origin: Origin | None) -> None:
        self._origin = origin

    def profiles(self) -> Mapping[str, KnownProfile]:
        return {}

    def results(self, period: Period) -> Iterator[Observed]:
        raise NotImplementedError

    def explain(self, key: SeriesKey, since_ns: int) -> Origin | None:
        return self._origin

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        raise NotImplementedError
