"""False alarms on feedback that comes late, and later where it is good, as `live` simulates them.

Run as `python -m tests.bench.feedback`; `--short` makes two streams of each, `--streams N` so many.

A healthy agent serves so many traces a day, of which a share gets feedback that is good with one
chance. Delays follow exponential laws: by default a bad one is given after an hour on average, a
good one after a day. Detectors take them as the product does, by `Observed.waits`. The rows `as
they come` take them in the order in which they come, for comparison: they are not promised.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from scouter.drift.detect.detector import ALPHA
from scouter.drift.series.observed import Observed, Place, Yardstick, waits, yardsticks
from scouter.drift.series.reference import Standard, Stated
from scouter.drift.series.series import Agent
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.score import FEEDBACK, ScoreTask
from tests.bench.figures import Figures
from tests.bench.live import SECOND, Random, add_share

_HOUR: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Healthy streams of one kind."""

    name: str
    a_day: int
    """Feedbacks."""
    level: float | None = None
    """A stated level; None for one that is measured."""
    wait_s: float | None = 3_600.0
    """None takes them as they come."""
    turns: int = 1
    """Feedbacks on one conversation, which are alike."""
    hours: tuple[float, float] = (1.0, 24.0)
    """Mean delay of a bad and of a good one."""
    most: float | None = ALPHA


ROWS: Final = (
    Row(name="2,000 a day, measured", a_day=2_000),
    Row(name="20,000 a day, measured", a_day=20_000),
    Row(name="2,000 a day, level stated", a_day=2_000, level=0.8),
    Row(name="2,000 a day, wait of a day", a_day=2_000, wait_s=24.0 * _HOUR),
    Row(name="20,000 a day, bad ones late", a_day=20_000, hours=(24.0, 1.0)),
    Row(name="2,000 a day, 4 in a conversation", a_day=2_000, turns=4, wait_s=24.0 * _HOUR),
    Row(name="20,000 a day, bad ones late, as they come", a_day=20_000, hours=(24.0, 1.0),
        wait_s=None, most=None),
    Row(name="2,000 a day, level stated, as they come", a_day=2_000, level=0.8, wait_s=None,
        most=None),
)  # fmt: skip


def feedback(random: Random, row: Row, count: int, good: float) -> Iterator[Observed]:
    """Results of a healthy agent in the order in which they come."""
    units = count // row.turns
    created = np.repeat(np.sort(random.random(units)) * count / row.a_day * 24 * _HOUR, row.turns)
    is_one = row.turns == 1
    chances = np.full(units, good) if is_one else random.beta(good, 1 - good, units)
    is_good = random.random(units * row.turns) < np.repeat(chances, row.turns)
    delay = random.exponential(np.where(is_good, row.hours[1], row.hours[0]) * _HOUR)
    task = ScoreTask("thumb", wait_s=row.wait_s or 0.0)
    yards, wait = yardsticks([task]), waits([task])
    for number, at in enumerate(np.argsort(created + delay, kind="stable").tolist(), 1):
        if row.wait_s is not None and delay[at] > row.wait_s:
            continue  # the store leaves them out
        came_ns = int((created[at] + delay[at]) * SECOND)
        yield observed(number, at // row.turns, int(created[at] * SECOND), came_ns,
                       is_good=bool(is_good[at]), yards=yards, wait=wait, row=row)  # fmt: skip


def observed(
    number: int,
    unit: int,
    created_ns: int,
    came_ns: int,
    *,
    is_good: bool,
    yards: Mapping[str, Yardstick],
    wait: Mapping[tuple[str, str], int],
    row: Row,
) -> Observed:
    """One feedback as the store gives it out."""
    is_late = row.wait_s is None
    return Observed(
        place=Place(number, 0), space="s", profile_uid="p", agent=Agent(version="1"),
        session=f"c{unit}" if row.turns > 1 else "", at_ns=came_ns,
        created_ns=came_ns if is_late else created_ns, evaluation_id="",
        outcomes=(("thumb", Outcome.PASSED if is_good else Outcome.FAILED),),
        numbers=(("thumb", float(is_good)),), yardsticks=yards, score_type=FEEDBACK, waits=wait,
    )  # fmt: skip


def alarms(place: int, streams: int, *, count: int) -> int:
    """Number of streams of one row that alarm at all."""
    row, found = ROWS[place], 0
    random = np.random.default_rng(place)
    level = row.level
    stated = Stated()
    if level is not None:
        stated = Stated(standards=[Standard(task="thumb", level=level, kind="score")])
    for _ in range(streams):
        series = SeriesSet(stated_of=lambda space, uid: stated)
        for each in feedback(random, row, count, 0.8 if level is None else _good(row, level)):
            if any(turn.fall is not None for turn in series.take(each)):
                found += 1
                break
    return found


def _good(row: Row, level: float) -> float:
    """Share of all feedback that is good, where that of what comes in time is the level."""
    if row.wait_s is None:
        return level
    good, bad = (1 - np.exp(-row.wait_s / (hours * _HOUR)) for hours in row.hours[::-1])
    odds = level / (1 - level) * bad / good
    return float(odds / (1 + odds))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two streams of each")
    parser.add_argument("--streams", type=int, default=1_000, help="of each kind; 1,000 else")
    given = parser.parse_args()
    streams = 2 if given.short else given.streams
    figures = Figures("feedback", is_short=given.short)
    run = partial(alarms, count=2_500 if given.short else 20_000)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(run, range(len(ROWS)), itertools.repeat(streams))
        for row, count in zip(ROWS, found, strict=True):
            add_share(figures, f"{row.name}: alarmed", count, streams, at_most=row.most)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
