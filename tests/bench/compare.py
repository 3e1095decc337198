"""Two sides held against each other: how often a comparison is wrong, and what it costs.

`python -m tests.bench.compare` draws live sides, compares them as the collector does, and prints a
row for each promise of docs/comparison.md with the 95 % interval of the simulation. A bound is
missed where that interval lies wholly beyond it. `--short` draws a sixtieth.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from collector.comparing.live import Samples, compare_live
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.statistics.clustered import Cluster
from scouter.evaluate.statistics.mix import Split, split_difference, trait_changes
from scouter.evaluate.statistics.samples import Sample, compare_samples, sample_of
from scouter.evaluate.statistics.strata import Result
from tests.bench.figures import Figures

RUNS: Final = 600
SHORTER: Final = 60
TASKS: Final = tuple(
    TaskSpec(task_id=f"t{index}", task_type="Assertion", operator="Equals") for index in range(20)
)
Random: TypeAlias = np.random.Generator
Trial: TypeAlias = Callable[[Random], bool]
"""Simulates once; True where it was as the row says."""


# --- traffic --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Conversations whose own rates follow a beta distribution."""

    conversations: int
    turns: tuple[int, int] = (1, 1)
    rate: float = 0.9
    correlation: float = 0.0
    """Of the records of one conversation (ICC)."""

    def drawn(self, random: Random) -> list[list[bool]]:
        """Records by conversation."""
        rates = np.full(self.conversations, self.rate)
        if self.correlation:
            weight = 1 / self.correlation - 1
            rates = random.beta(self.rate * weight, (1 - self.rate) * weight, self.conversations)
        turns = random.integers(self.turns[0], self.turns[1] + 1, self.conversations)
        lengths: list[int] = turns.tolist()
        levels: list[float] = rates.tolist()
        found: list[list[bool]] = []
        for length, level in zip(lengths, levels, strict=True):
            draws: list[float] = random.random(length).tolist()
            found.append([each < level for each in draws])
        return found


def record(session: str, passed: Sequence[bool], at: int) -> RecordResult:
    tasks = tuple(
        EvalTaskResult(spec, Outcome.PASSED if ok else Outcome.FAILED, None, 1, 1)
        for spec, ok in zip(TASKS, passed, strict=False)
    )
    return RecordResult(f"u{at}", f"u{at}", session, None, record_outcome(tasks), tasks, at, 0)


def side(conversations: Sequence[Sequence[bool]], *, has_ids: bool = True) -> EvalResults:
    """Records of one task."""
    flat = [(at, passed) for at, each in enumerate(conversations) for passed in each]
    return EvalResults(
        [
            record(f"s{number}" if has_ids else "", [passed], at)
            for at, (number, passed) in enumerate(flat)
        ]
    )


def compared(before: EvalResults, after: EvalResults, *, is_open: bool = False) -> Samples:
    return compare_live(before, after, is_open=is_open, require_ruled_out=None)


def regressed(found: Samples) -> bool:
    return found.decision.exit_code == 1


# --- rates ----------------------------------------------------------------------------------------


def says_regressed(before: Traffic, after: Traffic, *, has_ids: bool = True) -> Trial:
    def trial(random: Random) -> bool:
        sides = [side(each.drawn(random), has_ids=has_ids) for each in (before, after)]
        return regressed(compared(*sides))

    return trial


def covers(before: Traffic, after: Traffic) -> Trial:
    """Tell whether the interval of a rate has the true difference."""

    def trial(random: Random) -> bool:
        found = compare_samples(*(_sample(each.drawn(random)) for each in (before, after)))
        return found.interval[0] <= after.rate - before.rate <= found.interval[1]

    return trial


def rules_out(before: Traffic, after: Traffic) -> Trial:
    """Tell whether the fall that is ruled out is at least the true one."""

    def trial(random: Random) -> bool:
        found = compare_samples(*(_sample(each.drawn(random)) for each in (before, after)))
        return -found.interval[0] >= before.rate - after.rate

    return trial


def _sample(conversations: Sequence[Sequence[bool]]) -> Sample:
    return sample_of([Cluster(0, sum(each), len(each)) for each in conversations])


def ever_wrong(traffic: Traffic, looks: int, *, by_interval: bool) -> Trial:
    """Tell whether any of some looks at equal sides was wrong."""

    def trial(random: Random) -> bool:
        sides = [traffic.drawn(random) for _ in range(2)]
        for look in range(1, looks + 1):
            count = max(6, traffic.conversations * look // looks)
            found = compare_samples(*(_sample(each[:count]) for each in sides), is_open=True)
            low, high = found.interval
            if (not low <= 0 <= high) if by_interval else found.p_value <= 0.025:
                return True
        return False

    return trial


def names_a_task(records: int, rate: float) -> Trial:
    """Tell whether anything of equal sides with 20 tasks is named."""

    def one(random: Random) -> EvalResults:
        passed = (random.random((records, len(TASKS))) < rate).tolist()
        return EvalResults([record("", each, at) for at, each in enumerate(passed)])

    return lambda random: any(row.word for row in compared(one(random), one(random)).rates)


# --- traffic or behaviour -------------------------------------------------------------------------

KINDS: Final[Mapping[str, float]] = {"easy": 0.97, "usual": 0.9, "hard": 0.7}
USUAL: Final = (0.6, 0.3, 0.1)
SHIFTED: Final = (0.3, 0.3, 0.4)
TAGS: Final = 8
"""Tags beside the kind that say nothing of it, with three values each."""


def traffic_of(
    random: Random, conversations: int, shares: Sequence[float], turns: int, fall: float
) -> list[Result]:
    """Conversations of a kind each, whose records call tools."""
    made: list[Result] = []
    for at, kind in enumerate(random.choice(list(KINDS), conversations, p=shares).tolist()):
        rate = KINDS[kind] - fall
        if turns > 1:  # correlation 0.3
            rate = random.beta(rate * 7 / 3, (1 - rate) * 7 / 3)
        tags = {f"n{tag}={value}" for tag, value in enumerate(random.integers(3, size=TAGS))}
        for _ in range(turns):
            tools = {f"tool {tool}" for tool in range(4) if random.random() < 0.5}
            traits = frozenset({f"kind={kind}", *tags, *tools})
            made.append(Result(at, bool(random.random() < rate), traits))
    return made


def splits(
    conversations: int,
    shares: Sequence[float],
    wanted: Callable[[Split], bool],
    *,
    turns: int = 1,
    fall: float = 0.0,
) -> Trial:
    """Split the difference of usual traffic and of another one."""

    def trial(random: Random) -> bool:
        before = traffic_of(random, conversations, USUAL, turns, 0)
        after = traffic_of(random, conversations, shares, turns, fall)
        traits = {trait for each in (*before, *after) for trait in each.traits}
        route = {trait for trait in traits if trait.startswith("tool ")}
        found = split_difference(before, after, traits - route, route)
        return found is not None and wanted(found)

    return trial


def is_behaviour(split: Split) -> bool:
    return split.within.fell


def is_traffic(split: Split) -> bool:
    return split.traffic.fell


def names_a_trait(split: Split) -> bool:
    traits = {
        trait for cell in split.cells for each in (*cell.before, *cell.after)
        for trait in each.traits
    }  # fmt: skip
    return any(each.is_named for each in trait_changes(split, traits))


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A promise, and how often it holds."""

    name: str
    trial: Trial
    at_most: float | None = None
    at_least: float | None = None
    share: float = 1.0
    """Part of the runs; fewer of what is slow."""

    def run(self, runs: int) -> tuple[float, Interval]:
        random = np.random.default_rng(54)
        found = sum(self.trial(random) for _ in range(runs))
        return found / runs, wilson(found, runs)


def rates() -> Iterator[Row]:
    single = Traffic(conversations=500)
    five = Traffic(conversations=100, turns=(5, 5), correlation=0.5)
    ten = Traffic(conversations=100, turns=(10, 10), correlation=0.5)
    mild = Traffic(conversations=100, turns=(5, 5), correlation=0.1)
    uneven = Traffic(conversations=100, turns=(3, 20), correlation=0.3)
    short = Traffic(conversations=120, turns=(2, 4), correlation=0.2)
    long = Traffic(conversations=120, turns=(5, 9), correlation=0.2)
    yield Row(name="equal, longer now: regressed", trial=says_regressed(short, long), at_most=0.05)
    yield Row(name="equal, 500 x 1: regressed", trial=says_regressed(single, single), at_most=0.05)
    yield Row(name="equal, 5 turns, ICC .5: regressed", trial=says_regressed(five, five),
              at_most=0.05)  # fmt: skip
    yield Row(name="equal, 5 turns, ICC .5, no ids: regressed", at_most=0.05,
              trial=says_regressed(five, five, has_ids=False))  # fmt: skip
    yield Row(name="equal, 20 tasks at 95 %, 200 x 1: something named", at_most=0.05,
              trial=names_a_task(200, 0.95), share=0.5)  # fmt: skip
    named = {
        "5 turns, ICC .1": mild, "5 turns, ICC .5": five, "10 turns, ICC .5": ten,
        "3 to 20 turns, ICC .3": uneven,
    }  # fmt: skip
    for name, traffic in named.items():
        yield Row(name=f"{name}: interval covers", trial=covers(traffic, traffic), at_least=0.93)
    worse = Traffic(conversations=100, turns=(5, 5), correlation=0.5, rate=0.8)
    yield Row(name="fall of 10, 5 turns, ICC .5: ruled out is true", trial=rules_out(five, worse),
              at_least=0.95)  # fmt: skip
    fall = Traffic(conversations=500, rate=0.8)
    yield Row(name="0.9 to 0.8, 500 x 1: regressed", trial=says_regressed(single, fall),
              at_least=0.95)  # fmt: skip
    looks = {
        "500 x 1": (single, 10), "1,000 x 1": (Traffic(conversations=1_000), 20),
        "500 x 1 at 97 %": (Traffic(conversations=500, rate=0.97), 10),
        "100 x 5, ICC .5": (five, 10), "100 x 3 to 20, ICC .3": (uneven, 10),
    }  # fmt: skip
    for name, (traffic, count) in looks.items():
        yield Row(name=f"equal, {count} looks, {name}: interval ever wrong", at_most=0.05,
                  share=0.5, trial=ever_wrong(traffic, count, by_interval=True))  # fmt: skip
    yield Row(name="equal, 10 looks, 500 x 1: ever regressed", at_most=0.05, share=0.5,
              trial=ever_wrong(single, 10, by_interval=False))  # fmt: skip


def parts() -> Iterator[Row]:
    for count in (100, 300, 1_000):
        share = 0.5 if count < 1_000 else 0.2
        yield Row(name=f"shift of 30 %, {count} x 1: called behaviour", at_most=0.05, share=share,
                  trial=splits(count, SHIFTED, is_behaviour))  # fmt: skip
    yield Row(name="shift of 30 %, 100 x 5, ICC .3: called behaviour", at_most=0.05, share=0.5,
              trial=splits(100, SHIFTED, is_behaviour, turns=5))  # fmt: skip
    yield Row(name="shift of 30 %, 300 x 1: called traffic", at_least=0.9, share=0.5,
              trial=splits(300, SHIFTED, is_traffic))  # fmt: skip
    yield Row(name="equal, 300 x 1: called traffic", at_most=0.05, share=0.5,
              trial=splits(300, USUAL, is_traffic))  # fmt: skip
    yield Row(name="fall of 10, 300 x 1: called behaviour", at_least=0.85, share=0.5,
              trial=splits(300, USUAL, is_behaviour, fall=0.1))  # fmt: skip
    yield Row(name="fall of 10, 300 x 1: called traffic", at_most=0.05, share=0.5,
              trial=splits(300, USUAL, is_traffic, fall=0.1))  # fmt: skip
    yield Row(name="fall of 10 and shift, 300 x 1: called behaviour", at_least=0.6, share=0.5,
              trial=splits(300, SHIFTED, is_behaviour, fall=0.1))  # fmt: skip
    yield Row(name="shift of 30 %, 300 x 1: a trait is named", at_most=0.05, share=0.2,
              trial=splits(300, SHIFTED, names_a_trait))  # fmt: skip


# --- seconds --------------------------------------------------------------------------------------


def make_run(records: int, seed: int, rate: float) -> EvalResults:
    """Seeded results of five tasks, each of which passes with the same chance."""
    rng = random.Random(seed)
    return EvalResults(
        [record(f"{seed} {at}", [rng.random() < rate for _ in range(5)], at)
         for at in range(records)]
    )  # fmt: skip


def seconds_of(records: int, compare: Callable[[EvalResults, EvalResults], object]) -> float:
    """Processor seconds of one comparison; the results are made before the clock starts."""
    before, now = make_run(records, 1, 0.95), make_run(records, 2, 0.949)
    start = time.process_time()
    compare(before, now)
    return time.process_time() - start


def main() -> int:
    """Print the figures; 1 where a bound is missed in the long form."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a sixtieth of the runs")
    is_short = parser.parse_args().short
    figures = Figures("compare", is_short=is_short)
    missed = 0
    for row in (*rates(), *parts()):
        runs = max(int(RUNS * row.share) // (SHORTER if is_short else 1), 2)
        value, (low, high) = row.run(runs)
        is_missed = (row.at_most is not None and low > row.at_most) or (
            row.at_least is not None and high < row.at_least
        )
        missed += is_missed
        figures.add(row.name, value)
        bound = f"at most {row.at_most:.0%}" if row.at_most is not None else ""
        bound += f"at least {row.at_least:.0%}" if row.at_least is not None else ""
        mark = "✗" if is_missed else "✓"
        print(f"{mark} {row.name:58} {value:7.2%} [{low:.2%} to {high:.2%}]  {bound}", flush=True)
    count = 1_000 if is_short else 10_000
    figures.add(f"{count:,} pairs of five tasks", seconds_of(count, _pairs), "s")
    figures.add(f"{count:,} records of five tasks as samples", seconds_of(count, compared), "s")
    figures.end()
    return int(missed > 0 and not is_short)


def _pairs(before: EvalResults, now: EvalResults) -> object:
    return now.compare_to(before)


if __name__ == "__main__":
    sys.exit(main())
