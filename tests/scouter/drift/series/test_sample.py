"""Samples: halves of the day, and a rate that moves by itself."""

import itertools
import json
import math
import random
import statistics
from collections.abc import Callable, Iterator

import pytest

from scouter.drift.series.sample import Halves, Sample

NOON = 17_000 * 24 + 12
"""An hour since 1970."""


def fill(sample: Sample, rate: Callable[[int], float], days: int, an_hour: int, seed: int) -> None:
    """Let records pass with the rate of each hour, from noon on."""
    draw = random.Random(seed)
    for hour in range(NOON, NOON + 24 * days):
        sample.ends_day(hour)
        for _ in range(an_hour):
            sample.add(float(draw.random() < rate(hour)), 1, hour)
    sample.ends_day(NOON + 24 * days)


def filled(rate: Callable[[int], float], days: int, an_hour: int = 50, seed: int = 1) -> Sample:
    found = Sample()
    fill(found, rate, days, an_hour, seed)
    return found


def by_day(hour: int) -> float:
    """From 6 to 18 o'clock 0.95, else 0.85."""
    return 0.95 if 6 <= hour % 24 < 18 else 0.85


def test_a_day_and_a_night_are_found_and_the_second_day_confirms_them() -> None:
    one, two = filled(by_day, 1), filled(by_day, 2)
    assert one.halves() == Halves(6, is_confirmed=False)
    assert two.halves() == Halves(6, is_confirmed=True)
    assert (one.days, two.days) == (1, 2)
    found = two.halves()
    assert found is not None
    assert str(found) == "from 06:00 to 18:00 UTC"
    better, other = (two.baseline(0.01, found, side) for side in (True, False))
    assert (better.mean, other.mean) == pytest.approx((0.95, 0.85), abs=0.03)
    assert better.count == other.count == 1_200
    assert two.spread(found) == 0


def test_nothing_is_said_of_the_time_of_day_before_a_day_is_over() -> None:
    sample, draw = Sample(), random.Random(2)
    for hour in range(NOON, NOON + 24):
        assert not sample.ends_day(hour)
        for _ in range(100):
            sample.add(float(draw.random() < by_day(hour)), 1, hour)
    assert sample.halves() is None
    assert sample.ends_day(NOON + 24)
    assert not sample.ends_day(NOON + 25)
    assert sample.halves() is not None


def test_one_fall_is_no_time_of_day() -> None:
    """At the end of the first day it may be; the second day shows that it was not."""
    sample = Sample()
    fill(sample, lambda hour: 0.95 if hour < NOON + 12 else 0.85, 1, 50, 3)
    assert sample.halves() == Halves(12, is_confirmed=False)
    assert filled(lambda hour: 0.95 if hour < NOON + 12 else 0.85, 2).halves() in (
        None, Halves(12, is_confirmed=False),
    )  # fmt: skip


def test_steady_samples_have_no_halves_and_no_spread() -> None:
    """4 % and 0.2 % do by chance: 22 or more of 300, or 6, have a chance of 0.2 % (binomial)."""
    samples = [filled(lambda hour: 0.9, 2, 30, seed) for seed in range(300)]
    assert sum(each.spread() > 0 for each in samples) < 22
    assert sum(each.halves() is not None for each in samples) < 6
    assert Sample({1_000: 50}).spread() == 0
    assert filled(lambda hour: 1.0, 2).halves() is None


def moving(seed: int, deviation: float, size: int = 200, count: int = 5_000) -> Sample:
    """A rate of 0.8 that is drawn anew for each 200 records."""
    draw, found = random.Random(seed), Sample()
    for _ in range(0, count, size):
        rate = draw.gauss(0.8, deviation)
        for _ in range(size):
            found.add(float(draw.random() < rate), 1)
    return found


def test_a_rate_that_moves_by_itself_has_its_deviation() -> None:
    """The estimate is of the length of the moves, within its own error."""
    found = [moving(seed, 0.05).spread() for seed in range(40)]
    assert statistics.median(found) == pytest.approx(0.05, abs=0.012)
    assert sum(each == 0 for each in found) <= 2


def test_one_change_is_no_spread() -> None:
    """The largest step from one part to the next is left out: a fall makes no margin for itself."""
    found = 0
    for seed in range(60):
        sample = Sample()
        draw = random.Random(seed)
        for at in range(5_000):
            sample.add(float(draw.random() < (0.95 if at < 4_000 else 0.85)), 1)
        found += sample.spread() > 0
    assert found <= 8  # 4 % by chance: 9 or more of 60 have a chance of 0.1 % (binomial)


def steps(count: int, seed: int) -> Iterator[float]:
    """What `_PARTS` says of the mean square of steps, drawn anew."""
    draw = random.Random(seed)
    for _ in range(4_000):
        parts = [draw.gauss(0, 1) for _ in range(count)]
        squares = sorted((b - a) ** 2 for a, b in itertools.pairwise(parts))[:-1]
        yield sum(squares) / 2 / (count - 1)


@pytest.mark.parametrize(
    ("parts", "mean", "deviation"), [(50, 0.873, 0.217), (25, 0.789, 0.290), (10, 0.618, 0.379)]
)
def test_the_steps_of_chance(parts: int, mean: float, deviation: float) -> None:
    drawn = list(steps(parts, parts))
    assert statistics.fmean(drawn) == pytest.approx(mean, abs=4 * deviation / math.sqrt(4_000))
    assert statistics.pstdev(drawn) == pytest.approx(deviation, rel=0.08)


def test_blocks_grow_wider_and_lose_nothing() -> None:
    draw, sample = random.Random(4), Sample()
    outcomes = [float(draw.random() < 0.9) for _ in range(30_000)]
    for at, each in enumerate(outcomes):
        sample.add(each, 1, NOON + at // 1_000)
    assert 256 <= len(sample.blocks) < 512
    width = 80
    sums = [1_000 * sum(outcomes[at : at + width]) for at in range(0, 30_000, width)]
    assert list(sample.blocks) == sums
    assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_days_without_a_record_are_none() -> None:
    sample = Sample()
    sample.add(1.0, 1, NOON)
    assert sample.ends_day(NOON + 240)
    sample.add(1.0, 5_000, NOON + 240)
    assert (sample.days, sample.is_complete) == (1, False)
    assert sample.ends_day(NOON + 264)
    assert (sample.days, sample.is_complete) == (2, True)
