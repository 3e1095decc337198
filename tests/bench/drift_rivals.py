"""Other detectors, tuned to the same false alarms, beside those of the product.

ADWIN and Page-Hinkley are those of river. The former rule is a Wilson interval of the last hundred
records that lies below the healthy rate, which somebody has to state.
"""

import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from scouter.drift.detect.detector import ALPHA, Design, Detector
from scouter.drift.series.series import Series
from scouter.evaluate.intervals import wilson
from tests.bench.drift_streams import KEY, after_version

Update: TypeAlias = Callable[[int], bool]
"""Takes the next outcome, and tells whether there is an alarm."""

WINDOW: Final = 100
_DELTAS: Final = tuple(10 ** (-k / 2) for k in range(2, 40))
_THRESHOLDS: Final = tuple(1.15**k for k in range(56))
_CONFIDENCES: Final = tuple(1 - 10 ** (-k / 4) for k in range(4, 44))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A kind of detector.

    Args:
        name: For the table.
        make: Makes one for a healthy rate and a setting.
        settings: The ones to choose among, the most sensitive first; one of them is no choice.
    """

    name: str
    make: Callable[[float, float], Update]
    settings: Sequence[float]


def _adwin(healthy: float, delta: float) -> Update:
    from river.drift import ADWIN  # two seconds, of each worker that collects the tests

    del healthy  # it knows of none
    detector = ADWIN(delta=delta)

    def update(outcome: int) -> bool:
        detector.update(outcome)
        return detector.drift_detected

    return update


def _page_hinkley(healthy: float, threshold: float) -> Update:
    from river.drift import PageHinkley

    del healthy
    detector = PageHinkley(mode="down", threshold=threshold)

    def update(outcome: int) -> bool:
        detector.update(outcome)
        return detector.drift_detected

    return update


def former_rule(healthy: float, confidence: float) -> Update:
    """The rule that was there before the detectors: the last hundred, looked at after each."""
    passed = range(WINDOW + 1)
    few = sum(wilson(each, WINDOW, confidence)[1] < healthy for each in passed)
    last, count = deque[int](maxlen=WINDOW), 0

    def update(outcome: int) -> bool:
        nonlocal count
        count += outcome - (last[0] if len(last) == WINDOW else 0)
        last.append(outcome)
        return len(last) == WINDOW and count < few

    return update


def _known(healthy: float, alpha: float) -> Update:
    detector = Detector(Design(healthy=healthy, alpha=alpha))
    return lambda outcome: detector.update(float(outcome))


def _taking(series: Series) -> Update:
    return lambda outcome: series.take(float(outcome), 1, 1 - outcome, 0) and series.is_fallen


def _first(healthy: float, alpha: float) -> Update:
    del healthy
    return _taking(Series(KEY, alpha))


def _version(healthy: float, alpha: float) -> Update:
    del alpha
    passed = round(5_000 * healthy)  # its estimate is right, and the bound is what it can be
    return _taking(after_version([1.0] * passed + [0.0] * (5_000 - passed)))


RIVALS: Final = (
    Rival(name="scouter, rate known", make=_known, settings=(ALPHA,)),
    Rival(name="scouter, 5,000 before", make=_version, settings=(ALPHA,)),
    Rival(name="scouter, first 1,000", make=_first, settings=(ALPHA,)),
    Rival(name="ADWIN", make=_adwin, settings=_DELTAS),
    Rival(name="Page-Hinkley", make=_page_hinkley, settings=_THRESHOLDS),
    Rival(name="former rule, rate known", make=former_rule, settings=_CONFIDENCES),
)


def false_alarms(
    rival: Rival, setting: float, healthy: float, streams: int, records: int, seed: int
) -> float:
    """Share of healthy streams that ever alarm."""
    random = np.random.default_rng(seed)
    alarms = 0
    for _ in range(streams):
        update = rival.make(healthy, setting)
        alarms += any(map(update, (random.random(records) < healthy).astype(int).tolist()))
    return alarms / streams


def tuned(rival: Rival, healthy: float, streams: int, records: int, seed: int) -> float:
    """The most sensitive setting with false alarms on a share of at most alpha.

    Raises:
        ValueError: Not even the least sensitive one has so few.
    """
    settings = rival.settings
    if len(settings) == 1:
        return settings[0]
    at = bisect_left(
        settings,
        True,
        key=lambda each: false_alarms(rival, each, healthy, streams, records, seed) <= ALPHA,
    )
    if at == len(settings):
        raise ValueError(f"{rival.name}: more false alarms than {ALPHA} with any setting")
    return settings[at]


def delays(
    rival: Rival,
    setting: float,
    healthy: float,
    after: Callable[[np.random.Generator], Iterable[int]],
    streams: int,
    late: int,
    seed: int,
) -> list[int | None]:
    """Records from a change to the alarm, of streams that did not alarm before.

    Args:
        rival: The detector.
        setting: Of it.
        healthy: Rate before the change.
        after: Draws the outcomes after it.
        streams: How many.
        late: Records before it.
        seed: Of the streams.

    Returns:
        For each stream the delay; None where there was no alarm.
    """
    random, found = np.random.default_rng(seed), list[int | None]()
    while len(found) < streams:
        update = rival.make(healthy, setting)
        if any(map(update, (random.random(late) < healthy).astype(int).tolist())):
            continue
        found.append(next((n for n, bit in enumerate(after(random), 1) if update(bit)), None))
    return found


def median(found: Sequence[int | None]) -> float:
    """The median of delays, of which those that never came are the longest."""
    return statistics.median(float("inf") if each is None else each for each in found)
