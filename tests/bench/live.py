"""Live alarms on simulated traffic: false alarms of healthy streams, and delays of falls.

Run as `python -m tests.bench.live`; `--short` makes one stream of each, `--streams N` so many. The
1,000 of the long form take about half an hour on two cores, 100 three minutes.

The product's own series take 20,000 records of each stream or four days of it, one by one and with
the hours in which they came; late results come through all series of a collector, with the moments
at which each record is decided. An alarm is one of the first days while it may be the time of day,
and firm otherwise, or from the moment on at which two days do not explain it. Each share has its
95 % interval (Wilson). Rows without a bound are measured and not promised, see docs/drift.md. The
bounds of delays are those of the series before their reference grew, times 1.05, or 1.1 of a known
level.
"""

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

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
DAY: Final = 86_400 * SECOND

Rates: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Random: TypeAlias = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Healthy streams of one kind.

    Args:
        name: In words.
        units: Draws the outcomes of a stream, whose first record comes in some part of a day.
        turns: Records of a unit.
        a_day: Records of a day.
        series: Begins the series that takes them.
        most: Most of them that may alarm at all; None for `most_firm` and `most_first`.
        most_firm: Most of them that may have a firm alarm; None where nothing is aimed at.
        most_first: Most of them that may have an alarm of the first days.
    """

    name: str
    units: Callable[[Random, float], Iterable[float]]
    turns: int = 1
    a_day: int = A_DAY
    series: Callable[[Random], Series] = lambda random: Series(KEY)
    most: float | None = None
    most_firm: float | None = None
    most_first: float | None = None


class Alarms(NamedTuple):
    """Numbers of the units, from 1, at which a stream alarms first; None where it does not."""

    first: int | None
    """In the first days."""
    firm: int | None


def steady(rate: float, count: int = RECORDS) -> Callable[[Random, float], Iterable[float]]:
    """Records that pass with one chance."""
    return lambda random, start: (random.random(count) < rate).astype(float).tolist()


def passing(rates: Callable[[Random, float], Rates]) -> Callable[[Random, float], Iterable[float]]:
    """Records that pass with a chance of their own."""

    def units(random: Random, start: float) -> list[float]:
        chances = rates(random, start)
        return (random.random(len(chances)) < chances).astype(float).tolist()

    return units


def conversations(turns: int, correlation: float) -> Callable[[Random, float], Iterable[float]]:
    """Means of conversations at 0.9, whose records have an intraclass correlation."""
    spread = 1 / correlation - 1

    def units(random: Random, start: float) -> list[float]:
        rates = random.beta(0.9 * spread, 0.1 * spread, RECORDS // turns)
        return (random.binomial(turns, rates) / turns).tolist()

    return units


def without_ids(turns: int, correlation: float) -> Callable[[Random, float], Rates]:
    """Rates of records of conversations that nobody names, one conversation after the other."""
    spread = 1 / correlation - 1
    return lambda random, start: np.repeat(
        random.beta(0.9 * spread, 0.1 * spread, RECORDS // turns), turns
    )


def by_time(
    rate: Callable[[Rates], Rates], a_day: int, days: int = 4
) -> Callable[[Random, float], Rates]:
    """Rates by the time in days, of four days or 20,000 records."""
    count = max(RECORDS, days * a_day)
    return lambda random, start: rate(start + np.arange(count) / a_day)


def day_and_night(day: float, night: float) -> Callable[[Rates], Rates]:
    """Rates of half a day each."""
    return lambda time: np.where(time % 1 < 0.5, day, night)


def wobble(points: float, block: int) -> Callable[[Random, float], Rates]:
    """Rates of 0.9 on average, drawn anew for each block."""
    return lambda random, start: np.clip(
        np.repeat(random.normal(0.9, points / 100, RECORDS // block), block), 0, 1
    )


def walk(points: float) -> Callable[[Random, float], Rates]:
    """Rates that walk from 0.9 by so many points each 1,000 records."""
    return lambda random, start: np.clip(
        np.repeat(0.9 + random.normal(0, points / 100, RECORDS // 1_000).cumsum(), 1_000), 0, 1
    )


def bursts(share: float) -> Callable[[Random, float], Rates]:
    """Errors that come twenty at a time, for a share of the records."""
    return lambda random, start: np.repeat(random.random(RECORDS // 20) >= share, 20).astype(float)


def errors(random: Random) -> Series:
    """A series of errors."""
    del random
    return Series(KEY._replace(kind=Kind.ERROR))


def known(rate: float) -> Callable[[Random], Series]:
    """A series with a stated level."""
    return lambda random: Series(KEY, stated=[Standard(task="", level=rate)])


def version(rate: float, count: int) -> Callable[[Random], Series]:
    """A series behind a version with so many records."""
    return lambda random: after_version(steady(rate, count)(random, 0))


def alarms_of(
    series: Series,
    units: Iterable[float],
    start: float = 0.0,
    turns: int = 1,
    a_day: int = A_DAY,
    *,
    is_any: bool = False,
) -> Alarms:
    """Let a series take a stream up to its first firm alarm.

    Args:
        series: Takes it.
        units: Outcomes.
        start: Time of the first record, in days.
        turns: Records of a unit.
        a_day: Records of a day.
        is_any: Look no further than to the first alarm of any kind.
    """
    first = None
    for at, outcome in enumerate(units):
        at_ns = int((start + at * turns / a_day) * DAY)
        if not series.take(outcome, turns, round(turns * (1 - outcome)), at_ns):
            continue
        fall = series.fall()
        if fall is not None and not fall.reference.is_early:
            return Alarms(first, at + 1)
        if fall is not None:
            first = first or at + 1
            if is_any:
                break
    return Alarms(first, None)


HEALTHY: Final = (
    *(
        Row(name=f"steady {rate}, first 1,000", units=steady(rate), most=ALPHA)
        for rate in (0.5, 0.8, 0.9, 0.95, 0.99)
    ),
    *(
        Row(name=f"steady {rate}, level stated", units=steady(rate), series=known(rate), most=ALPHA)
        for rate in (0.8, 0.9, 0.99)
    ),
    *(
        Row(name=f"steady 0.9, version of {count:,}", units=steady(0.9),
            series=version(0.9, count), most=ALPHA)
        for count in (100, 300, 5_000)
    ),
    *(
        Row(name=f"conversations of {turns}, ICC {icc}", units=conversations(turns, icc),
            turns=turns, most=ALPHA)
        for turns, icc in ((5, 0.3), (5, 0.5), (10, 0.5))
    ),
    *(
        Row(name=f"day 0.95, night 0.85, {a_day:,} a day", a_day=a_day, most_firm=0.02,
            units=passing(by_time(day_and_night(0.95, 0.85), a_day)))
        for a_day in (500, 1_000, 2_000, A_DAY, 20_000)
    ),
    Row(name="day 0.92, night 0.88", units=passing(by_time(day_and_night(0.92, 0.88), A_DAY)),
        most_firm=0.02),
    Row(name="a wave of a day, 0.83 to 0.97",
        units=passing(by_time(lambda time: 0.9 + 0.07 * np.sin(2 * np.pi * time), A_DAY))),
    Row(name="weekdays 0.95, weekends 0.85",
        units=passing(by_time(lambda time: np.where(time % 7 < 5, 0.95, 0.85), A_DAY, 14))),
    *(
        Row(name=f"no ids, runs of {turns}, ICC {icc}", units=passing(without_ids(turns, icc)),
            most_firm=0.02)
        for turns, icc in ((3, 0.5), (5, 0.3), (5, 0.5), (10, 0.5))
    ),
    *(
        Row(name=f"blocks of {block}, sd {points} points", units=passing(wobble(points, block)),
            most_firm=firm, most_first=first)
        for block, points, firm, first in (
            (200, 2, 0.02, None), (200, 3, 0.02, 0.06), (200, 5, 0.05, 0.30),
            (1_000, 2, 0.07, None), (1_000, 3, 0.12, None),
        )
    ),
    Row(name="slow walk, sd 0.5 points per 1,000", units=passing(walk(0.5)), most_firm=0.08),
    *(
        Row(name=f"errors in bursts of 20, share {share}", units=passing(bursts(share)),
            series=errors, most_firm=0.02)
        for share in (0.02, 0.1)
    ),
    Row(name="errors one by one, share 0.1", units=steady(0.9), series=errors, most=ALPHA),
)  # fmt: skip


def healthy_alarms(place: int, streams: int) -> list[Alarms]:
    """Alarms of the streams of one row, by its place among all."""
    row, random = HEALTHY[place], np.random.default_rng(place)
    found = list[Alarms]()
    for _ in range(streams):
        series, start = row.series(random), random.random()
        units = row.units(random, start)
        found.append(alarms_of(series, units, start, row.turns, row.a_day))
    return found


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


LATE: Final = (1, 10, 50)
"""Records a second of traffic whose failures come late."""


def late_alarms(place: int, streams: int, *, count: int) -> int:
    """Number of streams of late failures that alarm at all, by the place of their rate."""
    random, found = np.random.default_rng(LATE[place]), 0
    for _ in range(streams):
        series = SeriesSet()
        for observed, first_ns in late_results(random, LATE[place], count):
            series.decided({("s", "p"): first_ns})
            if series.take(observed):
                found += 1
                break
    return found


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


def delays(place: int, streams: int) -> list[int | None]:
    """Delay of each stream in records, by the place of the fall; None where it is not seen."""
    fall, random, found = FALLS[place], np.random.default_rng(place), list[int | None]()
    while len(found) < streams:
        series, start = fall.series(random), random.random()
        before = steady(fall.before, fall.after)(random, start)
        if any(alarms_of(series, before, start, is_any=True)):
            continue
        bad = steady(fall.fallen, fall.within)(random, start)
        alarms = alarms_of(series, bad, start + fall.after / A_DAY, is_any=True)
        found.append(alarms.first or alarms.firm)
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


def report_healthy(figures: Figures, row: Row, alarms: Sequence[Alarms]) -> None:
    """Report the shares of one row."""
    count = len(alarms)
    if row.most is not None:
        some = sum(any(each) for each in alarms)
        add_share(figures, f"{row.name}: alarmed", some, count, at_most=row.most)
        return
    firm = sum(each.firm is not None for each in alarms)
    first = sum(each.first is not None for each in alarms)
    add_share(figures, f"{row.name}: firm alarm", firm, count, at_most=row.most_firm)
    add_share(figures, f"{row.name}: in the first days", first, count, at_most=row.most_first)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one stream of each")
    parser.add_argument("--streams", type=int, default=1_000, help="of each kind; 1,000 else")
    given = parser.parse_args()
    streams = 1 if given.short else given.streams
    figures = Figures("live", is_short=given.short)
    late = partial(late_alarms, count=2_500 if given.short else 10_000)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        healthy = pool.map(healthy_alarms, range(len(HEALTHY)), itertools.repeat(streams))
        behind = pool.map(late, range(len(LATE)), itertools.repeat(streams))
        fallen = pool.map(delays, range(len(FALLS)), itertools.repeat(streams))
        for row, alarms in zip(HEALTHY, healthy, strict=True):
            report_healthy(figures, row, alarms)
        for a_second, count in zip(LATE, behind, strict=True):
            name = f"failures take 60 s, {a_second} a second: alarmed"
            add_share(figures, name, count, streams, at_most=0.02)
        for fall, found in zip(FALLS, fallen, strict=True):
            name = f"{fall.before} to {fall.fallen} after {fall.after:,}, {fall.kind}"
            seen = [each for each in found if each is not None]
            least = fall.least_seen or None
            add_share(figures, f"{name}: seen", len(seen), streams, at_least=least)
            middle = statistics.median([fall.within if each is None else each for each in found])
            figures.add(f"{name}: median delay", middle, "records", at_most=fall.most)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
