"""False alarms of healthy series, delays of falls, cost of a series, all beside rivals.

Run as `python -m tests.bench.drift`; `--short` makes a few streams of each, `--streams N` so many.

Healthy streams of 10,000 records are looked at after each unit, and held against the version
before, of 300, 1,000 or 5,000 units drawn from the same agent. Conversations have 5 or 10 turns;
the rate of each is drawn from a beta distribution, so that its records have an intraclass
correlation of 0.1 to 0.5. Delays are medians with a healthy rate that is known, held against 1.3
times the bounds ln(1/alpha)/KL and (ln(1/alpha) + ln(1/gamma))/KL. Rivals are tuned to the same
false alarms within 10,000 records; the change comes after 2,000.
"""

import argparse
import itertools
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scouter.drift.detect.baseline import divergence
from scouter.drift.detect.detector import ALPHA, Design, Detector
from scouter.drift.detect.spending import spend
from scouter.drift.series.sample import Sample
from scouter.drift.series.series import Ancestor, Series
from tests.bench.drift_rivals import RIVALS, delays, false_alarms, median, tuned
from tests.bench.drift_streams import KEY, Traffic, after_version, differing, healthy_alarms
from tests.bench.figures import Figures

RECORDS: Final = 10_000
RATE: Final = 0.9
LATE: Final = 10_000
"""Records before a later fall."""
FALLS: Final = ((0.95, 0.90), (0.9, 0.8), (0.8, 0.5))
CLUSTERS: Final = ((1, 0.0), (5, 0.1), (5, 0.3), (5, 0.5), (10, 0.1), (10, 0.3), (10, 0.5))
"""Turns of a conversation and the correlation of its records."""
A_DAY: Final = 1_000
"""Records of a day, of an agent that gets worse by 5 points a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of the simulation."""

    baselines: tuple[int, ...] = (300, 1_000, 5_000)
    """Units of the version before."""
    healthy: int = 10_000
    """Streams of each kind of healthy traffic."""
    checked: int = 10
    """Of them the ones that the product's own code takes, too."""
    delays: int = 300
    rivals: int = 1_000
    """Streams by which a rival is tuned."""
    rival_delays: int = 200
    bad: int = 300
    """Streams that stay bad."""
    bad_records: int = 20_000
    updates: int = 1_000_000
    series: int = 2_000


SHORT: Final = Sizes(
    baselines=(300,), healthy=10, checked=2, delays=5, rivals=5, rival_delays=3, bad=5,
    bad_records=2_000, updates=20_000, series=200,
)  # fmt: skip


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
    kept = [Series(KEY, before=before) for _ in range(series)]
    for each in kept:
        for at in range(20):
            each.take(float(at % 10 != 0), 1, at % 10 == 0, at)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    yield "memory of 100,000 series", used / series * 100_000 / 1e6, "MB", 300.0


def decay(random: np.random.Generator) -> Iterable[int]:
    """Outcomes of an agent that gets worse by 5 points a day, for ten days."""
    rates = RATE - 0.05 * np.arange(10 * A_DAY) / A_DAY
    return (random.random(len(rates)) < rates).astype(int).tolist()


def stays_bad(streams: int, records: int, seed: int) -> tuple[float, float]:
    """Let agents stay at 0.8 after a version at 0.9, and be told once that it is settled.

    Args:
        streams: How many.
        records: So long after the alarm.
        seed: Of the streams.

    Returns:
        The share of alarms that resolved by themselves, and the share of the streams that alarmed
        again after a person had resolved the alarm.
    """
    random = np.random.default_rng(seed)
    resolved = again = 0
    for _ in range(streams):
        series = after_version((random.random(5_000) < RATE).astype(float).tolist())
        outcomes = iter((random.random(3 * records) < RATE - 0.1).astype(int).tolist())
        _until_it_turns(series.take, outcomes, records)
        resolved += _until_it_turns(series.take, outcomes, records)
        series.restart()
        again += _until_it_turns(series.take, outcomes, records)
    return resolved / streams, again / streams


def _until_it_turns(
    take: Callable[[float, int, int, int], bool], outcomes: Iterator[int], most: int
) -> bool:
    bits = itertools.islice(outcomes, most)
    return any(take(float(bit), 1, 1 - bit, 0) for bit in bits)


def healthy(figures: Figures, sizes: Sizes) -> None:
    """Count false alarms, and the streams that the product's own code sees differently."""
    other = 0
    kinds = itertools.product(sizes.baselines, CLUSTERS)
    for seed, (baseline, (turns, correlation)) in enumerate(kinds):
        traffic = Traffic(RATE, turns, correlation)
        alarms = healthy_alarms(sizes.healthy, baseline, traffic, RECORDS, seed)
        other += differing(sizes.checked, baseline, traffic, seed)
        name = f"healthy, {baseline} before, {turns} turns, ICC {correlation}: alarmed"
        figures.add(name, alarms / sizes.healthy, at_most=ALPHA)
        print(f"{name}: {alarms} of {sizes.healthy}", flush=True)
    figures.add("streams that the product sees differently", other, at_most=0)


def beside_rivals(figures: Figures, sizes: Sizes) -> None:
    """Tune every rival for each healthy rate, and measure its delays."""
    for seed, (before, fallen) in enumerate(FALLS):

        def fall(random: np.random.Generator, rate: float = fallen) -> Iterable[int]:
            return (random.random(2 * RECORDS) < rate).astype(int).tolist()

        for rival in RIVALS:
            setting = tuned(rival, before, sizes.rivals, RECORDS, seed)
            alarms = false_alarms(rival, setting, before, sizes.rivals, RECORDS, 1_000 + seed)
            given = (rival, setting, before)
            found = delays(*given, fall, sizes.rival_delays, 2_000, seed)
            name = f"{before} to {fallen}, {rival.name}"
            figures.add(f"{name}: false alarms", alarms)
            figures.add(f"{name}: median delay", min(median(found), 2 * RECORDS), "records")
            print(f"{name}: setting {setting:.3g}, {found.count(None)} not seen", flush=True)
            if before == RATE:
                slow = delays(*given, decay, sizes.rival_delays, 2_000, seed)
                seen = 1 - slow.count(None) / len(slow)
                figures.add(f"slow decay, {rival.name}: seen", seen)
                days = min(median(slow) / A_DAY, 10)
                figures.add(f"slow decay, {rival.name}: median delay", days, "days")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a few streams of each")
    parser.add_argument("--streams", type=int, help=f"healthy streams; {Sizes().healthy:,} else")
    given = parser.parse_args()
    sizes = SHORT if given.short else Sizes()
    if given.streams:
        sizes = replace(sizes, healthy=given.streams)
    figures = Figures("drift", is_short=given.short)
    healthy(figures, sizes)
    for seed, ((before, fallen), late) in enumerate(itertools.product(FALLS, (0, LATE))):
        found = median_delay(sizes.delays, before, fallen, late, seed)
        most = 1.3 * delay_bound(before, fallen, late)
        name = f"{before} to {fallen} after {late}: median delay"
        figures.add(name, found, "records", at_most=most)
    beside_rivals(figures, sizes)
    resolved, again = stays_bad(sizes.bad, sizes.bad_records, seed=36)
    figures.add("stays bad: resolved by itself", resolved, at_most=ALPHA)
    figures.add("stays bad, resolved by a person: alarmed again", again, at_least=1.0)
    for name, value, unit, most in costs(sizes.updates, sizes.series):
        figures.add(name, value, unit, at_most=most)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
