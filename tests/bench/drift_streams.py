"""Many streams at a time, for the bench of the detectors: the product's recursions on arrays.

The arrays have one column for each stream. `differing` holds them against the product's own series.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scouter.drift.detect.baseline import clopper_pearson_lower
from scouter.drift.detect.detector import ALPHA, Design
from scouter.drift.detect.spending import spend
from scouter.drift.series.sample import GRID, Sample
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey

Floats: TypeAlias = NDArray[np.float64]

KEY: Final = SeriesKey("default", "p", Agent(version="2"), "", Kind.PASS)
_ORDER: Final = 36
"""Seed of the order in which a sample's outcomes are bet on."""
_HALVINGS: Final = 30
_LARGEST_BET: Final = 0.5


class Traffic(NamedTuple):
    """Conversations of one kind."""

    rate: float
    """Mean of a record."""
    turns: int
    """Records of a conversation; 1 for records without one."""
    correlation: float
    """Intraclass correlation of its records."""

    def units(self, random: np.random.Generator, streams: int, count: int) -> Iterator[Floats]:
        """Means of so many conversations, one after the other, of every stream."""
        for _ in range(count):
            yield self._passed(random, streams) / self.turns

    def _passed(self, random: np.random.Generator, streams: int) -> NDArray[np.int64]:
        if not self.correlation:
            return random.binomial(self.turns, self.rate, streams)
        spread = 1 / self.correlation - 1
        rates = random.beta(self.rate * spread, (1 - self.rate) * spread, streams)
        return random.binomial(self.turns, rates)


def lower_bounds(sample: Floats, level: float) -> Floats:
    """Lower bounds of the means of samples, as `Sample.baseline` takes them.

    Args:
        sample: A row for each unit, a column for each stream.
        level: Chance that a mean is below its bound.
    """
    count, streams = sample.shape
    if np.isin(sample, (0.0, 1.0)).all():
        passed = sample.sum(axis=0).astype(int)
        known = {each: clopper_pearson_lower(each, count, level) for each in set(passed.tolist())}
        return np.array([known[each] for each in passed.tolist()])
    order = list(range(count))
    random.Random(_ORDER).shuffle(order)
    scores = np.sort(np.floor(sample * GRID), axis=0)[order] / GRID
    low, high = np.zeros(streams), np.ones(streams)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refused = _refused(scores, middle, -np.log(level))
        low, high = np.where(refused, middle, low), np.where(refused, high, middle)
    return low


def _refused(scores: Floats, mean: Floats, line: float) -> NDArray[np.bool_]:
    """Tell of which streams the scores refuse that their mean is at most this one."""
    wealth, most = np.zeros_like(mean), np.zeros_like(mean)
    total, squares = np.full_like(mean, 0.5), np.full_like(mean, 0.25)
    for count, score in enumerate(scores, 1):
        middle = total / count
        gain = np.maximum(middle - mean, 0.0)
        bet = np.minimum(gain / (squares / count + gain * gain), _LARGEST_BET / mean)
        wealth += np.log1p(bet * (score - mean))
        np.maximum(most, wealth, out=most)
        total += score
        squares += (score - middle) * (score - total / (count + 1))
    return most >= line


def first_alarms(units: Iterable[Floats], healthy: Floats, alpha: float) -> NDArray[np.int64]:
    """Run a detector on every stream.

    Args:
        units: Outcomes of every stream, one unit after the other.
        healthy: The healthy mean of each.
        alpha: Of each detector.

    Returns:
        Number of the unit at which each alarms first; 0 where it never does.
    """
    bets = np.array([Design(healthy=each, alpha=alpha).bets for each in healthy.tolist()])
    masses, alarms = np.zeros_like(bets), np.zeros(len(healthy), dtype=np.int64)
    for at, outcome in enumerate(units, 1):
        masses += spend(at)
        masses *= 1 - bets * (outcome - healthy)[:, None]
        alarms[(alarms == 0) & (masses.mean(axis=1) >= 1 / alpha)] = at
    return alarms


def healthy_alarms(streams: int, baseline: int, traffic: Traffic, records: int, seed: int) -> int:
    """Count the healthy streams that ever alarm, held against a version before.

    Args:
        streams: How many.
        baseline: Units of the version before.
        traffic: Of both versions.
        records: Of the version that is watched.
        seed: Of the streams.
    """
    random = np.random.default_rng(seed)
    sample = np.array(list(traffic.units(random, streams, baseline)))
    bounds = lower_bounds(sample, ALPHA / 2)
    units = traffic.units(random, streams, records // traffic.turns)
    return int(np.count_nonzero(first_alarms(units, bounds, ALPHA / 2)))


def differing(streams: int, baseline: int, traffic: Traffic, seed: int) -> int:
    """Count the streams of which the product's own series alarms at another unit.

    The streams fall by 15 points, so that most of them alarm; so do some before that.
    """
    random = np.random.default_rng(seed)
    sample = np.array(list(traffic.units(random, streams, baseline)))
    fallen = traffic._replace(rate=traffic.rate - 0.15)
    units = list(fallen.units(random, streams, 600))
    found = first_alarms(units, lower_bounds(sample, ALPHA / 2), ALPHA / 2)
    own = [
        _alarm_of_series([each[at] for each in sample], [each[at] for each in units], traffic.turns)
        for at in range(streams)
    ]
    return int(np.count_nonzero(found != np.array(own)))


def _alarm_of_series(before: Iterable[float], units: Iterable[float], turns: int) -> int:
    series = after_version(before, turns)
    for at, outcome in enumerate(map(float, units), 1):
        if series.take(outcome, turns, round(turns * (1 - outcome)), at):
            return at
    return 0


def after_version(outcomes: Iterable[float], turns: int = 1) -> Series:
    """A series of the product that is held against a version with these outcomes."""
    sample = Sample()
    for outcome in outcomes:
        sample.add(float(outcome), turns)
    before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
    return Series(KEY, before=before)
