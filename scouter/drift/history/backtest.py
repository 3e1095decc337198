"""Backtests: when a series would have fired on history, and how soon it sees a fall.

Nobody knows whether history was healthy but who lived it. So all of it counts, or what came before
a stated time; an alarm in it cuts nothing off. Other histories that might have been are drawn from
its blocks: whole days, so that each hour stays where it was, or twentieths of a history of fewer
than four days. A fall is put into the second half of each: passes become fails with one chance.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.drift.history.replay import Alarm, Recorder, Unit
from scouter.drift.series.series import Kind, Series

FALLS: Final = (0.05, 0.10, 0.20)
"""Falls that are put into history, in share of outcomes."""
SEEDS: Final = 19
"""Histories that are drawn. The next one lies between the least and the most of 19 with a chance of
90 %, whatever the distribution (Wilks 1941, doi:10.1214/aoms/1177731788)."""
_OUTSIDE: Final = 0.05
"""Share of the draws beyond either end of an interval."""
_BLOCKS: Final = 20
_FEWEST_DAYS: Final = 4
"""Days from which on blocks are days."""
_COUNTED: Final = (Kind.PASS, Kind.ERROR, Kind.AMOUNT)
"""Kinds whose outcomes are shares of records."""
_HOUR_NS: Final = 3_600 * 10**9
_DAY_NS: Final = 24 * _HOUR_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A fall that was put into the histories that were drawn."""

    fall: float
    """In share of outcomes."""
    draws: int
    """Histories into which it could be put: no alarm was open there."""
    seen: int
    """Those in which it was seen before they were over."""
    units: float | None
    """Median delay; None where no more than half of the draws saw it."""
    least: float | None
    """Lower end of the interval in which nine of ten delays lie."""
    most: float | None
    """Upper end; None where that many draws did not see it."""
    hours: float | None
    """Median delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The findings about one series."""

    series: Recorder
    alarms: Sequence[Alarm]
    """Alarms on history as it is."""
    healthy: int
    """Units of the history that counts as healthy."""
    false_alarms: int | None
    """Alarms on history before the moment up to which it is known to be healthy; None where no
    such moment was given."""
    draws: int
    """Histories that were drawn from its blocks."""
    alarmed_draws: int
    """Those with an alarm; each is a false one if history was healthy."""
    injected: Sequence[Injected]
    """Empty where nothing could be put into it; `words` says why."""
    words: str
    """The references of the series, and why no fall was put into it."""


def backtest(
    found: Sequence[Recorder],
    *,
    healthy_until_ns: int | None = None,
    falls: Sequence[float] = FALLS,
    seeds: int = SEEDS,
    progress: Callable[[int], None] = lambda count: None,
) -> Iterator[Backtest]:
    """Look at every series of a replay.

    Args:
        found: All of them, in the order in which they began.
        healthy_until_ns: Up to here history is known to be healthy; None where that is not known.
        falls: In share of outcomes, each in (0, 1).
        seeds: Histories that are drawn; 0 for none.
        progress: Is notified how many series are done.

    Yields:
        One for each series. Histories are drawn of the series of each agent's last version only,
        and not of slices.

    Cost: for each series so many replays of its healthy part as there are seeds, and half of
        one for each draw of a fall that is not seen.
    """
    last = {(each.key[:2], each.key.agent[:2]): each.key.agent for each in found}
    for done, each in enumerate(found, 1):
        is_last = last[each.key[:2], each.key.agent[:2]] == each.key.agent
        yield _look(each, healthy_until_ns, falls, seeds if is_last and not each.key.slice else 0)
        progress(done)


def _look(
    each: Recorder, healthy_until_ns: int | None, falls: Sequence[float], seeds: int
) -> Backtest:
    units, alarms = each.units_taken, each.alarms
    healthy, false_alarms = len(units), None
    if healthy_until_ns is not None:
        healthy = units.before(healthy_until_ns)
        false_alarms = sum(alarm.opened_ns < healthy_until_ns for alarm in alarms)
    part = [units[at] for at in range(healthy)]
    # A fall before it has learnt would be learnt, too.
    start = max(each.compared_from or 0, each.learnt_from or 0, healthy // 2)
    rate = sum(unit.outcome for unit in part) / healthy if part else 0.0
    wanted = [fall for fall in falls if fall < rate]
    can_inject = bool(seeds) and each.compared_from is not None and start < healthy
    found = [_draw(each, part, start, wanted if can_inject else (), rate, n) for n in range(seeds)]
    return Backtest(
        series=each,
        alarms=alarms,
        healthy=healthy,
        false_alarms=false_alarms,
        draws=seeds if part else 0,
        alarmed_draws=sum(one.is_alarmed for one in found),
        injected=[delays_of(fall, [one.delays[fall] for one in found if one.delays])
                  for fall in (wanted if can_inject else ())],
        words=_words(each, can_inject, bool(seeds)),
    )  # fmt: skip


def _words(each: Recorder, is_injected: bool, is_last: bool) -> str:
    if each.compared_from is None:
        return f"nothing yet: {each.records:,} records, of 1,000 that it learns from"
    against = "; ".join(watch.reference.sentence() for watch in each.watches)
    if is_injected or not is_last:
        return against
    return f"{against}; too few outcomes in the healthy part to put a fall into it"


class Delay(NamedTuple):
    """Delay of a fall; beyond the end of the draw where it was not seen."""

    units: float
    hours: float


class _Drawn(NamedTuple):
    """One history that was drawn."""

    is_alarmed: bool
    """It alarmed without a fall."""
    delays: Mapping[float, Delay]
    """By fall; empty where an alarm was open when it was put in."""


def resampled(part: Sequence[Unit], seed: int) -> list[Unit]:
    """Draw a history from the blocks of one.

    Args:
        part: The history, in its order.
        seed: Of the draw.

    Returns:
        Blocks with replacement. Days stand in the place of days, each hour where it was; other
        blocks get the times of the history that they make up.

    Source: the block bootstrap, Kuensch 1989, doi:10.1214/aos/1176347265.
    """
    draw = random.Random(seed)  # noqa: S311 no secret
    days: dict[int, list[Unit]] = {}
    for unit in part:
        days.setdefault(unit.created_ns // _DAY_NS, []).append(unit)
    if len(days) >= _FEWEST_DAYS:
        found: list[Unit] = []
        for day in days:
            chosen = draw.choice(list(days))
            later_ns = (day - chosen) * _DAY_NS
            found += (
                unit._replace(at_ns=unit.at_ns + later_ns, created_ns=unit.created_ns + later_ns)
                for unit in days[chosen]
            )
        return found
    size = -(-len(part) // _BLOCKS)
    blocks = [part[at : at + size] for at in range(0, len(part), size)]
    mixed = (unit for _ in range(2 * _BLOCKS) for unit in draw.choice(blocks))
    return [
        unit._replace(at_ns=was.at_ns, created_ns=was.created_ns)
        for unit, was in zip(mixed, part, strict=False)
    ]


def _draw(
    each: Recorder,
    part: Sequence[Unit],
    start: int,
    falls: Sequence[float],
    rate: float,
    seed: int,
) -> _Drawn:
    """Draw a history, look for alarms in it, and put each fall into it."""
    units, series = resampled(part, seed), each.anew()
    is_alarmed = any([_take(series, unit) for unit in units[:start]])
    state, rest = series.to_json(), units[start:]
    delays: dict[float, Delay] = {}
    if falls and rest and not series.is_fallen:
        space, uid, agent = each.key[:3]
        for fall in falls:
            worse = worsened(rest, fall / rate, seed, is_counted=each.key.kind in _COUNTED)
            fallen = Series.from_json(space, uid, agent, state)
            seen = next((at for at, unit in enumerate(worse) if _take(fallen, unit)), None)
            hours = math.inf if seen is None else (rest[seen].at_ns - rest[0].at_ns) / _HOUR_NS
            delays[fall] = Delay(math.inf if seen is None else seen + 1, hours)
    is_alarmed |= any(_take(series, unit) for unit in rest)
    return _Drawn(is_alarmed, delays)


def delays_of(fall: float, delays: Sequence[Delay]) -> Injected:
    """Put the delays of all draws together; one that did not see the fall is slower than others."""
    ranked = sorted(delays)
    none = Delay(math.inf, math.inf)
    outside = max(1, math.floor((len(ranked) + 1) * _OUTSIDE))
    middle = statistics.median_low(ranked) if ranked else none
    least, most = (ranked[outside - 1], ranked[-outside]) if ranked else (none, none)
    units, hours, lower, upper = (
        value if math.isfinite(value) else None
        for value in (middle.units, middle.hours, least.units, most.units)
    )
    return Injected(
        fall=fall, draws=len(ranked), seen=sum(math.isfinite(one.units) for one in ranked),
        units=units, least=lower, most=upper, hours=hours,
    )  # fmt: skip


def worsened(
    units: Sequence[Unit], share: float, seed: int, *, is_counted: bool = True
) -> Iterator[Unit]:
    """Let outcomes fall by a share of themselves.

    Args:
        units: Outcomes.
        share: In (0, 1); of a rate of 0.9, a share of 1/9 is a fall of 10 points.
        seed: Of the draws.
        is_counted: Whether an outcome is a share of good records, of which each becomes a bad one
            with this chance; a score is made smaller by it.
    """
    draw = random.Random(seed).random  # noqa: S311 no secret
    for unit in units:
        outcome, records, failed, *_ = unit
        if not is_counted:
            yield unit._replace(outcome=outcome * (1 - share))
            continue
        flipped = sum(draw() < share for _ in range(records - failed))
        if flipped:
            failed += flipped
            yield unit._replace(outcome=(records - failed) / records, failed=failed)
        else:
            yield unit


def _take(series: Series, unit: Unit) -> bool:
    """Take an outcome; True if the series has fallen with it."""
    return series.take(*unit[:4], created_ns=unit.created_ns) and series.is_fallen
