"""Slices, one alert for one cause, and traffic or behaviour, on simulated traffic.

Run as `python -m tests.bench.slices`; `--short` makes one stream of each, `--streams N` so many.

Records of a stream, 5,000 a day, have one of ten tools, one of four tiers and one of two models.
The product's own replay takes them one by one, as the collector does, and puts falls together as
its alerts are. Each share has its 95 % interval (Wilson).
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from scouter.drift.config import SLICES
from scouter.drift.detect.detector import ALPHA
from scouter.drift.history.replay import replay
from scouter.drift.series.causes import Cause
from scouter.drift.series.group import Pace
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.reference import Stated
from scouter.drift.series.series import Agent
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.explained import explain_results
from scouter.evaluate.statistics.strata import Result
from tests.bench.figures import Figures
from tests.bench.live import A_DAY, add_share

SECOND: Final = 10**9
EVERY_NS: Final = 86_400 * SECOND // A_DAY
"""Between two records."""
GUILTY: Final = "tool t0"
PACE: Final = Pace(60 * SECOND, 3_600 * SECOND)
Random: TypeAlias = np.random.Generator


def records(random: Random, count: int, after: int, fallen: float) -> Iterator[Observed]:
    """Records at 0.9; those with one of the tools pass at another rate from some record on."""
    tools, tiers, models = (random.integers(0, many, count) for many in (10, 4, 2))
    draws = random.random(count)
    for at in range(count):
        rate = fallen if at >= after and tools[at] == 0 else 0.9
        outcome = Outcome.PASSED if draws[at] < rate else Outcome.FAILED
        at_ns = (at + 1) * EVERY_NS
        yield Observed(
            place=Place(at + 1, 0), space="s", profile_uid="p", agent=Agent(version="1"),
            session="", at_ns=at_ns, created_ns=at_ns, evaluation_id="",
            outcomes=((RECORD, outcome), ("t", outcome)),
            traits=(f"tool t{tools[at]}", f"tag tier={tiers[at]}", f"model m{models[at]}"),
        )  # fmt: skip


def seen(random: Random, count: int, after: int, fallen: float) -> Sequence[Cause]:
    """The alerts that people would have seen."""
    _, alerts = replay(
        records(random, count, after, fallen), alpha=ALPHA, pace=PACE, end_ns=2 * count * EVERY_NS,
        stated_of=lambda space, uid: Stated(slices=SLICES),
    )  # fmt: skip
    return alerts


def _falls(figures: Figures, streams: int) -> None:
    for after, most in ((4_000, 800.0), (10_000, 800.0)):
        random, delays, single = np.random.default_rng(after), list[float](), 0
        for _ in range(streams):
            alerts = seen(random, after + 6_000, after, 0.5)
            late = [each for each in alerts if each.opened_ns > after * EVERY_NS]
            at = [
                fall.at_ns / EVERY_NS - after
                for each in late
                for key, fall in each.falls.items()
                if key.slice == GUILTY
            ]
            delays.append(min(at, default=6_000.0))
            single += len(late) == 1 and late[0].headline.slice == GUILTY
        name = f"a tenth falls 0.9 to 0.5 after {after:,}"
        figures.add(f"{name}: median delay", statistics.median(delays), "records", at_most=most)
        add_share(figures, f"{name}: one alert, about the slice", single, streams, at_least=0.9)


def shifted(random: Random, share: float, harm: float) -> tuple[list[Result], list[Result]]:
    """2,000 results before and since; hard ones pass at 0.6, others at 0.95, and call a tool more.

    Args:
        random: Draws.
        share: Of the traffic that becomes hard since.
        harm: By so much each passes less often since.
    """
    sides: list[list[Result]] = []
    for hard_share, less in ((0.2, 0.0), (0.2 + share, harm)):
        hard = random.random(2_000) < hard_share
        good = random.random(2_000) < np.where(hard, 0.6, 0.95) - less
        looks = random.random(2_000) < np.where(hard, 0.8, 0.2)
        sides.append(
            [
                Result(at, bool(good[at]), frozenset({f"tag hard={hard[at]}"} | (
                    {"tool look"} if looks[at] else set[str]())))
                for at in range(2_000)
            ]
        )  # fmt: skip
    return sides[0], sides[1]


def _explanations(figures: Figures, streams: int) -> None:
    """A shift that makes the rate fall by some ten points, and as large a fall of behaviour."""
    random = np.random.default_rng(8)
    found = [explain_results(*shifted(random, 0.3, 0.0), is_open=False) for _ in range(streams)]
    called = sum(each is None or each.split.within.fell for each in found)
    name = "30 % of the traffic shifts: called behaviour"
    add_share(figures, name, called, streams, at_most=0.05)
    named = sum(each is not None and bool(each.origin.guilty) for each in found)
    name = "30 % of the traffic shifts: a tag or tool is named"
    add_share(figures, name, named, streams, at_most=0.07)  # its level is 5 %
    found = [explain_results(*shifted(random, 0.3, 0.1), is_open=False) for _ in range(streams)]
    called = sum(each is not None and each.split.within.fell for each in found)
    name = "the same and 10 points of behaviour: called behaviour"
    add_share(figures, name, called, streams, at_least=0.9)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one stream of each")
    parser.add_argument("--streams", type=int, default=1_000, help="of each kind; 1,000 else")
    given = parser.parse_args()
    streams = 1 if given.short else given.streams
    figures = Figures("slices", is_short=given.short)
    random = np.random.default_rng(1)
    count = 6_000 if given.short else 20_000
    alarms = sum(
        any(key.slice for each in seen(random, count, count, 0.9) for key in each.falls)
        for _ in range(streams)
    )
    add_share(figures, "steady 0.9, 16 slices: a slice alarmed", alarms, streams, at_most=ALPHA)
    _falls(figures, streams)
    _explanations(figures, streams if given.short else min(streams, 200))
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
