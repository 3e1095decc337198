"""Live alarms on simulated traffic: false alarms of healthy streams, and delays of falls.

Run as `python -m tests.bench.live`; `--short` makes a few streams of each, `--streams N` so many.

The product's own series take 20,000 records of each stream, one by one; late results come through
all series of a collector, with the moments at which each record is decided. Each share has its 95 %
interval (Wilson). Rows without a bound are measured and not promised, see docs/drift.md. The bounds
of delays are those of the series before their reference grew, times 1.05, or 1.1 of a known level.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from scouter.drift.detect.detector import ALPHA
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.reference import Standard
from scouter.drift.series.series import Agent, Kind, Series
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome
from tests.bench.drift_streams import KEY, after_version
from tests.bench.figures import Figures

RECORDS: Final = 20_000
A_DAY: Final = 5_000
"""Records of a day."""
SECOND: Final = 10**9

Rates: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Random: TypeAlias = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Streams of one kind.

    Args:
        name: In words.
        units: Draws the outcomes of a stream.
        turns: Records of a unit.
        series: Begins the series that takes them.
        at_most: Most of them that may alarm; None where nothing is promised.
    """

    name: str
    units: Callable[[Random], Iterable[float]]
    turns: int = 1
    series: Callable[[Random], Series] = lambda random: Series(KEY)
    at_most: float | None = None


def steady(rate: float, count: int = RECORDS) -> Callable[[Random], Iterable[float]]:
    """Records that pass with one chance."""
    return lambda random: (random.random(count) < rate).astype(float).tolist()


def passing(rates: Callable[[Random], Rates]) -> Callable[[Random], Iterable[float]]:
    """Records that pass with a chance of their own."""

    def units(random: Random) -> list[float]:
        chances = rates(random)
        return (random.random(len(chances)) < chances).astype(float).tolist()

    return units


def conversations(turns: int, correlation: float) -> Callable[[Random], Iterable[float]]:
    """Means of conversations at 0.9, whose records have an intraclass correlation."""
    spread = 1 / correlation - 1

    def units(random: Random) -> list[float]:
        rates = random.beta(0.9 * spread, 0.1 * spread, RECORDS // turns)
        return (random.binomial(turns, rates) / turns).tolist()

    return units


def without_ids(turns: int, correlation: float) -> Callable[[Random], Rates]:
    """Rates of records of conversations that nobody names, one conversation after the other."""
    spread = 1 / correlation - 1
    return lambda random: np.repeat(
        random.beta(0.9 * spread, 0.1 * spread, RECORDS // turns), turns
    )


def day_and_night(day: float, night: float, a_day: int) -> Callable[[Random], Rates]:
    """Rates of half a day each, from a random hour on."""
    return lambda random: np.where(
        (np.arange(RECORDS) + random.integers(a_day)) % a_day < a_day / 2, day, night
    )


def wobble(points: float, block: int) -> Callable[[Random], Rates]:
    """Rates of 0.9 on average, drawn anew for each block."""
    return lambda random: np.clip(
        np.repeat(random.normal(0.9, points / 100, RECORDS // block), block), 0, 1
    )


def walk(points: float) -> Callable[[Random], Rates]:
    """Rates that walk from 0.9 by so many points each 1,000 records."""
    return lambda random: np.clip(
        np.repeat(0.9 + random.normal(0, points / 100, RECORDS // 1_000).cumsum(), 1_000), 0, 1
    )


def bursts(share: float) -> Callable[[Random], Rates]:
    """Errors that come twenty at a time, for a share of the records."""
    return lambda random: np.repeat(random.random(RECORDS // 20) >= share, 20).astype(float)


def errors(random: Random) -> Series:
    """A series of errors."""
    del random
    return Series(KEY._replace(kind=Kind.ERROR))


def known(rate: float) -> Callable[[Random], Series]:
    """A series with a stated level."""
    return lambda random: Series(KEY, stated=[Standard(task="", level=rate)])


def version(rate: float, count: int) -> Callable[[Random], Series]:
    """A series behind a version with so many records."""
    return lambda random: after_version(steady(rate, count)(random))


def alarm_of(series: Series, units: Iterable[float], turns: int = 1) -> int | None:
    """Number of the unit at which a series alarms first, from 1; None where it never does."""
    for at, outcome in enumerate(units, 1):
        if series.take(outcome, turns, round(turns * (1 - outcome)), at):
            return at
    return None


HEALTHY: Final = (
    *(
        Row(name=f"steady {rate}, first 1,000", units=steady(rate), at_most=ALPHA)
        for rate in (0.5, 0.8, 0.9, 0.95, 0.99)
    ),
    *(
        Row(name=f"steady {rate}, level stated", units=steady(rate), series=known(rate),
            at_most=ALPHA)
        for rate in (0.8, 0.9, 0.99)
    ),
    *(
        Row(name=f"steady 0.9, version of {count:,}", units=steady(0.9),
            series=version(0.9, count), at_most=ALPHA)
        for count in (100, 300, 5_000)
    ),
    *(
        Row(name=f"conversations of {turns}, ICC {icc}", units=conversations(turns, icc),
            turns=turns, at_most=ALPHA)
        for turns, icc in ((5, 0.3), (5, 0.5), (10, 0.5))
    ),
    *(
        Row(name=f"no ids, runs of {turns}, ICC {icc}", units=passing(without_ids(turns, icc)),
            at_most=0.02)
        for turns, icc in ((3, 0.5), (5, 0.3), (5, 0.5), (10, 0.5))
    ),
    *(
        Row(name=f"day 0.95, night 0.85, {a_day:,} a day",
            units=passing(day_and_night(0.95, 0.85, a_day)))
        for a_day in (500, 2_000, A_DAY, 20_000)
    ),
    *(
        Row(name=f"blocks of {block}, sd {points} points", units=passing(wobble(points, block)))
        for block, points in ((200, 3), (200, 5), (1_000, 2), (1_000, 3))
    ),
    *(
        Row(name=f"errors in bursts of 20, share {share}", units=passing(bursts(share)),
            series=errors, at_most=0.02)
        for share in (0.02, 0.1)
    ),
    Row(name="errors one by one, share 0.1", units=steady(0.9), series=errors, at_most=ALPHA),
    Row(name="slow walk, sd 0.5 points per 1,000", units=passing(walk(0.5))),
)  # fmt: skip


def late_results(random: Random, a_second: int, count: int) -> Iterator[tuple[Observed, int]]:
    """Healthy results at 0.9 with a pause every 2,000: a pass takes 2 s, a failure 60 s.

    Yields:
        Each result as it is decided, with the creation of the first record that is not.
    """
    good = random.random(count) < 0.9
    created = ((np.arange(count) / a_second + np.arange(count) // 2_000 * 600) * SECOND).astype(int)
    decided = created + np.where(good, 2, 60) * SECOND
    order = np.argsort(decided, kind="stable")
    first, done = 0, np.zeros(count, dtype=bool)
    for number, at in enumerate(order.tolist(), 1):
        done[at] = True
        while first < count and done[first]:
            first += 1
        outcome = Outcome.PASSED if good[at] else Outcome.FAILED
        yield (
            Observed(
                place=Place(number, 0), space="s", profile_uid="p", agent=Agent(version="1"),
                session="", at_ns=int(decided[at]), created_ns=int(created[at]),
                evaluation_id="", outcomes=((RECORD, outcome),),
            ),
            int(created[first]) if first < count else sys.maxsize,
        )  # fmt: skip


def alarms_late(random: Random, a_second: int, count: int) -> bool:
    """Tell whether healthy traffic with late failures alarms."""
    series = SeriesSet()
    for observed, first_ns in late_results(random, a_second, count):
        series.decided({("s", "p"): first_ns})
        if series.take(observed):
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall after healthy records; the figures are those of streams without an alarm before."""

    before: float
    fallen: float
    after: int
    most: float | None
    """Bound of the median delay, in records."""
    least_seen: float = 0.0
    within: int = RECORDS
    kind: str = "first 1,000"
    series: Callable[[Random], Series] = lambda random: Series(KEY)


FALLS: Final = (
    Fall(before=0.95, fallen=0.90, after=10_000, most=1_600, least_seen=0.97),
    Fall(before=0.9, fallen=0.8, after=10_000, most=1.05 * 756),
    Fall(before=0.8, fallen=0.5, after=10_000, most=1.05 * 109),
    *(
        Fall(before=0.95, fallen=0.90, after=after, most=None, least_seen=0.85, within=12_000)
        for after in (1_500, 2_500, 4_000)
    ),
    Fall(before=0.98, fallen=0.5, after=10_000, most=200, kind="errors", series=errors),
    *(
        Fall(before=before, fallen=fallen, after=10_000, most=1.1 * today, kind="level stated",
             series=known(before))
        for before, fallen, today in ((0.95, 0.90, 726), (0.9, 0.8, 365), (0.8, 0.5, 80))
    ),
    *(
        Fall(before=before, fallen=fallen, after=10_000, most=1.1 * today, kind="version of 5,000",
             series=version(before, 5_000))
        for before, fallen, today in ((0.95, 0.90, 1_179), (0.9, 0.8, 496), (0.8, 0.5, 98))
    ),
)  # fmt: skip


def delays(fall: Fall, streams: int, seed: int) -> Sequence[int | None]:
    """Delay of each stream in records; None where the fall is not seen in time."""
    random, found = np.random.default_rng(seed), list[int | None]()
    while len(found) < streams:
        series = fall.series(random)
        if alarm_of(series, steady(fall.before, fall.after)(random)) is None:
            found.append(alarm_of(series, steady(fall.fallen, fall.within)(random)))
    return found


def add_share(
    figures: Figures,
    name: str,
    count: int,
    streams: int,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Report a share of the streams with its interval."""
    low, high = wilson(count, streams)
    print(f"{name}: {count} of {streams} ({low:.1%} to {high:.1%})", flush=True)
    figures.add(name, count / streams, at_least=at_least, at_most=at_most)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two streams of each")
    parser.add_argument("--streams", type=int, default=1_000, help="of each kind; 1,000 else")
    given = parser.parse_args()
    streams = 2 if given.short else given.streams
    figures = Figures("live", is_short=given.short)
    for seed, row in enumerate(HEALTHY):
        random = np.random.default_rng(seed)
        alarms = sum(
            alarm_of(row.series(random), row.units(random), row.turns) is not None
            for _ in range(streams)
        )
        add_share(figures, f"{row.name}: alarmed", alarms, streams, at_most=row.at_most)
    for a_second in (1, 10, 50):
        random = np.random.default_rng(a_second)
        count = 2_500 if given.short else 10_000
        alarms = sum(alarms_late(random, a_second, count) for _ in range(streams))
        name = f"failures take 60 s, {a_second} a second: alarmed"
        add_share(figures, name, alarms, streams, at_most=0.02)
    for seed, fall in enumerate(FALLS):
        found = delays(fall, streams, seed)
        name = f"{fall.before} to {fall.fallen} after {fall.after:,}, {fall.kind}"
        seen = [each for each in found if each is not None]
        least = fall.least_seen or None
        add_share(figures, f"{name}: seen", len(seen), streams, at_least=least)
        middle = statistics.median([fall.within if each is None else each for each in found])
        figures.add(f"{name}: median delay", middle, "records", at_most=fall.most)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
