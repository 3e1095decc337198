"""Replays and backtests of streams whose rates are known."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.detect.slices import Slice
from scouter.drift.history.backtest import Backtest, backtest, worsened
from scouter.drift.history.replay import KnownProfile, Mix, Period, Recorder, Unit, replay
from scouter.drift.history.report import BUCKETS, report_of
from scouter.drift.series.observed import Observed
from scouter.drift.series.reference import Stated
from scouter.drift.series.series import SeriesKey
from scouter.drift.series.series_set import SeriesSet
from tests.bench.drift import delay_bound
from tests.scouter.drift.series.support import PACE, SECOND, observed, outcomes, run, state

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
    return replay(
        results,
        alpha=ALPHA,
        pace=PACE,
        stated_of=lambda space, uid: Stated.of(None, level),
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
    kept = json.loads(json.dumps([each.to_json() for each in found]))
    assert [kept] == [group["series"] for group in state(live)[1]]
    assert [len(each.alarms) for each in found] == [1, 0] == [len(turns), 0]


def test_history_with_a_fall_would_have_fired() -> None:
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 2_500) + bits(0.5, 300))])))
    (alarm,) = each.alarms
    changed_s = alarm.fall.since_ns // SECOND
    assert abs(changed_s - 2_500) <= 50
    assert each.healthy == changed_s - 1  # one unit each second, from 1 on
    assert alarm.opened_ns // SECOND - 1 == alarm.unit
    numbers = [[int(name[1:]) for name in names] for names in (alarm.before, alarm.since)]
    assert max(numbers[0]) < changed_s <= min(numbers[1])
    assert [len(each) for each in numbers] == [3, 3]
    assert numbers[0] == sorted(numbers[0], reverse=True)


def test_falls_are_seen_about_as_soon_as_they_can_be() -> None:
    """The level is known, so that a fall before the 2,000th record has the bound of theory.

    The median of nine draws is within half of the bound; the longest bound, of 5 points, is not
    reached within 2,000 records by every draw.
    """
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 4_000))]), level=0.9))
    found = {round(one.fall * 100): one for one in each.injected}
    assert (each.alarms, each.healthy) == ([], 4_000)
    assert each.words.startswith("the stated level of 90.0%; its own first records")
    for points in (10, 20):
        bound = delay_bound(0.9, 0.9 - points / 100, 2_000)
        assert found[points].seen == 9
        assert 0.5 * bound <= (found[points].units or 0) <= 1.6 * bound
        assert found[points].hours == pytest.approx(((found[points].units or 0) - 1) / 3_600)
    assert (found[5].units or 4_000) > 3 * (found[10].units or 0)


def test_a_fall_that_is_mostly_missed_has_no_median() -> None:
    falls = (0.02, 0.3)
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 1_300))])), falls=falls)
    small, large = each.injected
    assert (small.seen, small.units, small.hours) == (0, None, None)
    assert (large.seen, each.series.held_from) == (9, 1_000)


def test_a_fall_is_put_behind_what_is_learnt() -> None:
    """The level is there from the first record on; a fall before the 1,000th would be learnt."""
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 1_300))]), level=0.5), falls=[0.3])
    assert (each.series.held_from, each.series.learnt_from) == (0, 1_000)
    assert (each.injected[0].units or 1_300) <= 60


def test_what_still_learns_can_see_nothing() -> None:
    (each, _) = backtest(replayed(stream([("1", bits(0.9, 400))])))
    assert (each.series.held_from, each.alarms, each.injected) == (None, [], ())
    assert each.words.startswith("nothing yet: 400 records")


def test_orders_by_lot_do_not_alarm_and_history_may() -> None:
    """All failures come at once: only the order tells of them."""
    ordered = bits(0.95, 1_500) + [1] * 400 + [0] * 40 + [1] * 400
    known = replayed(stream([("1", ordered)]), level=0.9)
    (each, _) = backtest(known, healthy_until_ns=3_000 * SECOND)
    assert len(each.alarms) == each.false_alarms == 1
    assert (each.orders, each.alarmed_orders) == (9, 0)
    (before, _) = backtest(known, healthy_until_ns=1_000 * SECOND)
    assert (before.false_alarms, before.healthy) == (0, 999)


def test_falls_are_put_into_the_last_version_only() -> None:
    parts = [("1", bits(0.9, 1_200)), ("2", bits(0.9, 1_200, seed=2))]
    found = passes(backtest(replayed(stream(parts))))
    assert (found["1"].injected, found["1"].orders) == ((), 0)
    assert [each.seen for each in found["2"].injected][-1] == 9
    assert "version 1 before it" in found["2"].words
    assert found["2"].series.held_from == 0


def test_a_version_that_is_bad_from_its_first_record_has_no_healthy_part() -> None:
    parts = [("1", bits(0.9, 1_200)), ("2", bits(0.5, 300))]
    found = passes(backtest(replayed(stream(parts))))
    assert found["2"].alarms[0].fall.since_ns == 1_201 * SECOND
    assert (found["2"].healthy, found["2"].orders, found["2"].injected) == (0, 0, ())
    assert "too few outcomes in the healthy part" in found["2"].words


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
    slices = [Slice(name="tool a", passed_before=90, failed_before=10, passed=50, failed=50)]
    found = report_of(each, Known(slices), ALPHA)
    assert len(found.buckets) == BUCKETS
    assert sum(bucket.units for bucket in found.buckets) == 2_300
    assert sum(round(bucket.rate * bucket.units) for bucket in found.buckets) == 1_800 + 150
    assert all(bucket.lower <= bucket.rate <= bucket.upper for bucket in found.buckets)
    (alarm,) = found.alarms
    fired = [bucket.start_ns for bucket in found.buckets if bucket.evidence >= 2 / ALPHA]
    assert fired[0] <= alarm.opened_ns < fired[0] + found.bucket_ns
    assert [culprit.slice.name for culprit in found.explained] == ["tool a"]


def test_one_outcome_is_a_report() -> None:
    (each, _) = replayed(stream([("1", [1])]))
    (bucket,) = report_of(each, Known([]), ALPHA).buckets
    assert (bucket.units, bucket.rate, bucket.evidence) == (1, 1.0, 0.0)


class Known:
    """A history of which the slices are known."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def profiles(self) -> Mapping[str, KnownProfile]:
        return {}

    def results(self, period: Period) -> Iterator[Observed]:
        raise NotImplementedError

    def slices(self, key: SeriesKey, since_ns: int) -> tuple[Sequence[Slice], int]:
        return self._slices, 100

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        raise NotImplementedError
