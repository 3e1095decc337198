"""How often healthy series alarm, how soon falls are seen, and what a series costs.

Run as `python -m tests.bench.drift`; `--short` makes a few streams of each, `--streams N` so many.

Healthy streams of 10,000 records are taken by the series of the product, with a look after each
unit, and held against the version before, of 300, 1,000 or 5,000 units drawn from the same agent.
Conversations have 5 or 10 turns; the rate of each is drawn from a beta distribution, so that its
records have an intraclass correlation of 0.1 to 0.5. Delays are medians with a healthy rate that
is known, held against 1.3 times the bounds ln(1/alpha)/KL and (ln(1/alpha) + ln(1/gamma))/KL.
"""

import argparse
import itertools
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Final

import numpy as np

from scouter.drift.detect.baseline import divergence
from scouter.drift.detect.detector import ALPHA, Design, Detector
from scouter.drift.detect.spending import spend
from scouter.drift.series.sample import Sample
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey
from tests.bench.figures import Figures

RECORDS: Final = 10_000
STREAMS: Final = 10_000
RATE: Final = 0.9
LATE: Final = 10_000
"""Records before a later fall."""
FALLS: Final = ((0.95, 0.90), (0.9, 0.8), (0.8, 0.5))
CLUSTERS: Final = ((1, 0.0), (5, 0.1), (5, 0.5), (10, 0.1), (10, 0.5))
"""Turns of a conversation and the correlation of its records."""
_KEY: Final = SeriesKey("default", "p", Agent(version="2"), "", Kind.PASS)


def units(random: np.random.Generator, turns: int, correlation: float, count: int) -> list[int]:
    """Passes of each of so many conversations."""
    if not correlation:
        return random.binomial(turns, RATE, count).tolist()
    spread = 1 / correlation - 1
    return random.binomial(turns, random.beta(RATE * spread, (1 - RATE) * spread, count)).tolist()


def healthy_alarms(streams: int, baseline: int, turns: int, correlation: float, seed: int) -> int:
    """Count the healthy streams that ever alarm.

    Args:
        streams: How many.
        baseline: Units of the version before.
        turns: Records of a unit.
        correlation: Of the records of a unit.
        seed: Of the streams.
    """
    random, alarms = np.random.default_rng(seed), 0
    for _ in range(streams):
        sample = Sample()
        for passed in units(random, turns, correlation, baseline):
            sample.add(passed / turns, turns)
        before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
        series = Series(_KEY, before=before)
        drawn = units(random, turns, correlation, RECORDS // turns)
        alarms += any(
            series.take(passed / turns, turns, turns - passed, at)
            for at, passed in enumerate(drawn)
        )
    return alarms


def median_delay(streams: int, healthy: float, fallen: float, late: int, seed: int) -> float:
    """Median number of records from a fall to its alarm; of streams without an alarm before.

    Args:
        streams: How many.
        healthy: Rate before, which the detector knows.
        fallen: Rate after.
        late: Records before the fall.
        seed: Of the streams.
    """
    random, delays = np.random.default_rng(seed), list[int]()
    design = Design(healthy=healthy)
    while len(delays) < streams:
        detector = Detector(design)
        before = (random.random(late) < healthy).tolist()
        if any([detector.update(float(passed)) for passed in before]):
            continue
        for delay in itertools.count(1):
            if detector.update(float(random.random() < fallen)):
                delays.append(delay)
                break
    return statistics.median(delays)


def delay_bound(healthy: float, fallen: float, late: int) -> float:
    """Records that no detector with this chance of a false alarm can beat by much."""
    nats = -math.log(ALPHA) - (math.log(spend(late + 1)) if late else 0.0)
    return nats / divergence(fallen, healthy)


def costs(records: int, series: int) -> Iterator[tuple[str, float, str, float]]:
    """Time of an update and memory of a series, with their bounds."""
    random = np.random.default_rng(36)
    outcomes = (random.random(records) < RATE).astype(float).tolist()
    detector = Detector(Design(healthy=RATE))
    began = time.process_time()
    for outcome in outcomes:
        detector.update(outcome)
    yield "update of a detector", (time.process_time() - began) / records * 1e6, "µs", 1.0
    sample = Sample({0: 100, 1_000: 900})
    before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
    tracemalloc.start()
    kept = [Series(_KEY, before=before) for _ in range(series)]
    for each in kept:
        for at in range(20):
            each.take(float(at % 10 != 0), 1, at % 10 == 0, at)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    yield "memory of 100,000 series", used / series * 100_000 / 1e6, "MB", 200.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a few streams of each")
    parser.add_argument("--streams", type=int, help=f"healthy streams; {STREAMS:,} by default")
    given = parser.parse_args()
    streams = given.streams or (10 if given.short else STREAMS)
    figures = Figures("drift", is_short=given.short)
    for seed, (baseline, (turns, correlation)) in enumerate(
        itertools.product((300, 1_000, 5_000), CLUSTERS)
    ):
        alarms = healthy_alarms(streams, baseline, turns, correlation, seed)
        name = f"healthy, {baseline} before, {turns} turns, ICC {correlation}: alarmed"
        figures.add(name, alarms / streams, at_most=ALPHA)
        print(f"{name}: {alarms} of {streams}", flush=True)
    delays = 5 if given.short else 300
    for seed, ((healthy, fallen), late) in enumerate(itertools.product(FALLS, (0, LATE))):
        found = median_delay(delays, healthy, fallen, late, seed)
        most = 1.3 * delay_bound(healthy, fallen, late)
        name = f"{healthy} to {fallen} after {late}: median delay"
        figures.add(name, found, "records", at_most=most)
    for name, value, unit, most in costs(*(20_000, 200) if given.short else (1_000_000, 2_000)):
        figures.add(name, value, unit, at_most=most)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
