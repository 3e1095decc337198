"""A series in shards: no order between them, and the same promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.series.sample import Sample
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey
from scouter.drift.series.shards import shard_of, shared_evidence

KEY = SeriesKey("default", "p", Agent(version="2"), "", Kind.PASS)
ALPHA = 0.05
DIGEST = 0x40F89E395B66422F
SHARDS = 4


def series(sample: Sample) -> list[Series]:
    before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
    return [Series(KEY, ALPHA, before=before) for _ in range(SHARDS)]


def alarmed_at(random: np.random.Generator, rate: float, units: int) -> int | None:
    """Number of the unit at which the mean reaches its line; units go to shards by lot."""
    sample = Sample()
    for passed in (random.random(1_000) < 0.9).tolist():
        sample.add(float(passed), 1)
    shards = series(sample)
    drawn = (random.random(units) < rate).tolist()
    for at, (shard, passed) in enumerate(
        zip(random.integers(SHARDS, size=units).tolist(), drawn, strict=True), 1
    ):
        shards[shard].take(float(passed), 1, int(not passed), at)
        if not passed and shared_evidence(shards) >= 1 / ALPHA:
            return at
    return None


def test_healthy_shards_seldom_alarm() -> None:
    """At 5 % eight alarms or more among 50 streams have a chance of 0.4 %."""
    random = np.random.default_rng(5)
    alarms = [alarmed_at(random, 0.9, 2_000) for _ in range(50)]
    assert sum(at is not None for at in alarms) <= 7


def test_a_fall_of_all_shards_is_seen() -> None:
    random = np.random.default_rng(6)
    assert all(alarmed_at(random, 0.6, 2_000) is not None for _ in range(10))


@given(st.lists(st.tuples(st.integers(0, SHARDS - 1), st.booleans()), max_size=80))
def test_no_order_between_shards_counts(units: list[tuple[int, bool]]) -> None:
    sample = Sample({0: 20, 1_000: 180})
    one, other = series(sample), series(sample)
    for shard, passed in units:
        one[shard].take(float(passed), 1, int(not passed), 1)
    for shard, passed in sorted(units, key=lambda unit: unit[0]):  # each shard in its own order
        other[shard].take(float(passed), 1, int(not passed), 1)
    assert shared_evidence(one) == shared_evidence(other)


def test_shards_are_even_and_the_same_everywhere() -> None:
    counts = [0] * SHARDS
    for number in range(4_000):
        counts[shard_of(f"session {number}", SHARDS)] += 1
    assert min(counts) > 850  # 1,000 each; five standard deviations are 137
    # By coreutils, digest of "a": printf a | b2sum -l 64
    assert [shard_of("a", shards) for shards in (1, 2, 1_000)] == [0, 1, DIGEST % 1_000]


def test_no_shard_is_no_evidence() -> None:
    assert shared_evidence([]) == 0
    assert shared_evidence(series(Sample({0: 20, 1_000: 180}))) == pytest.approx(0)
