"""Backtests: when a series would have fired on history, and how soon it sees a fall.

The healthy part of a series ends where its first alarm says that the change began. A fall is put
into the second half of that part: each pass becomes a fail with one chance. The outcomes before it
are those of history, and so are the times.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scouter.drift.history.replay import Alarm, Recorder, Unit
from scouter.drift.series.series import Kind, Series

FALLS: Final = (0.05, 0.10, 0.20)
"""Falls that are put into history, in share of outcomes."""
SEEDS: Final = 9
"""Draws of each; an odd number has a middle one."""
_COUNTED: Final = (Kind.PASS, Kind.ERROR)
"""Kinds whose outcomes are shares of records."""
_HOUR_NS: Final = 3_600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A fall that was put into the healthy part, in several draws."""

    fall: float
    """In share of outcomes."""
    seeds: int
    seen: int
    """Draws in which it was seen before the healthy part was over."""
    units: float | None
    """Median delay; None where no more than half of the draws saw it."""
    hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The findings about one series."""

    series: Recorder
    alarms: Sequence[Alarm]
    """Alarms on history as it is."""
    healthy: int
    """Units of the healthy part."""
    false_alarms: int | None
    """Alarms on history before the moment up to which it is known to be healthy; None where no
    such moment was given."""
    orders: int
    """Orders of the healthy part that were drawn by lot."""
    alarmed_orders: int
    """Orders with an alarm. Nothing can have changed in them, so each alarm is a false one."""
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
    told: Callable[[int], None] = lambda count: None,
) -> Iterator[Backtest]:
    """Look at every series of a replay.

    Args:
        found: All of them, in the order in which they began.
        healthy_until_ns: Up to here history is known to be healthy; None where that is not known.
        falls: In share of outcomes, each in (0, 1).
        seeds: Draws of each fall, and of orders; 0 for none.
        told: Is told how many series are done.

    Yields:
        One for each series. Falls are put into the series of each agent's last version only.

    Cost: for each series so many replays of its healthy part as there are seeds, and half of
        one for each draw of a fall that is not seen.
    """
    last = {(each.key[:2], each.key.agent[:2]): each.key.agent for each in found}
    for done, each in enumerate(found, 1):
        is_last = last[each.key[:2], each.key.agent[:2]] == each.key.agent
        yield _look(each, healthy_until_ns, falls, seeds if is_last else 0)
        told(done)


def _look(
    each: Recorder, healthy_until_ns: int | None, falls: Sequence[float], seeds: int
) -> Backtest:
    units, alarms = each.units_taken, each.alarms
    healthy = units.before(alarms[0].fall.since_ns) if alarms else len(units)
    false_alarms = None
    if healthy_until_ns is not None:
        healthy = min(healthy, units.before(healthy_until_ns))
        false_alarms = sum(alarm.opened_ns < healthy_until_ns for alarm in alarms)
    part = [units[at] for at in range(healthy)] if seeds else []
    # A fall before it has learnt would be learnt, too.
    start = max(each.held_from or 0, each.learnt_from or 0, healthy // 2)
    can_inject = seeds and each.held_from is not None and start < healthy
    return Backtest(
        series=each,
        alarms=alarms,
        healthy=healthy,
        false_alarms=false_alarms,
        orders=seeds if part else 0,
        alarmed_orders=sum(_alarms_by_lot(each, part, seed) for seed in range(seeds)),
        injected=_inject_all(each, part, start, falls, seeds) if can_inject else (),
        words=_words(each, bool(can_inject), bool(seeds)),
    )


def _words(each: Recorder, is_injected: bool, is_last: bool) -> str:
    if each.held_from is None:
        return f"nothing yet: {each.records:,} records, of 1,000 that it learns from"
    against = "; ".join(watch.reference.sentence() for watch in each.watches)
    if is_injected or not is_last:
        return against
    return f"{against}; too few outcomes in the healthy part to put a fall into it"


def _alarms_by_lot(each: Recorder, part: Sequence[Unit], seed: int) -> bool:
    """Tell whether the healthy part alarms in an order that is drawn by lot."""
    order, series = list(part), each.anew()
    random.Random(seed).shuffle(order)  # noqa: S311 no secret
    timed = (
        unit._replace(at_ns=was.at_ns, created_ns=was.created_ns)
        for unit, was in zip(order, part, strict=True)
    )
    return any(_take(series, unit) for unit in timed)


def _inject_all(
    each: Recorder, part: Sequence[Unit], start: int, falls: Sequence[float], seeds: int
) -> list[Injected]:
    series = each.anew()
    for unit in part[:start]:
        _take(series, unit)
    state, rate = series.to_json(), sum(unit.outcome for unit in part) / len(part)
    return [
        _injected(each, state, part[start:], fall, rate, seeds) for fall in falls if fall < rate
    ]


def _injected(
    each: Recorder,
    state: dict[str, Any],
    rest: Sequence[Unit],
    fall: float,
    rate: float,
    seeds: int,
) -> Injected:
    """Put one fall into the rest of the healthy part, once for each seed."""
    space, uid, agent = each.key[:3]
    delays: list[int] = []
    for seed in range(seeds):
        series = Series.from_json(space, uid, agent, state)
        worse = worsened(rest, fall / rate, seed, is_counted=each.key.kind in _COUNTED)
        seen = next((at for at, unit in enumerate(worse) if _take(series, unit)), None)
        if seen is not None:
            delays.append(seen)
    is_known = 2 * len(delays) > seeds
    # A draw that did not see the fall is slower than all that did.
    middle = statistics.median_low(delays + [len(rest)] * (seeds - len(delays))) if is_known else 0
    waited_ns = rest[middle].at_ns - rest[0].at_ns
    return Injected(
        fall=fall,
        seeds=seeds,
        seen=len(delays),
        units=middle + 1 if is_known else None,
        hours=waited_ns / _HOUR_NS if is_known else None,
    )


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
