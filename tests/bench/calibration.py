"""How often the interval of a corrected pass rate holds the truth, and how often it says so.

Run as `python -m tests.bench.calibration`; `--short` makes a fortieth of the runs.

A judge decides 500 records; some of them are labelled by people, and the labels go the way that
`scouter judge calibrate` and `correct` take them. Everything is drawn anew in every run. Runs that
end in "cannot say" are counted apart; coverage is of those that say something. The second table is
of gold items in live traffic: how often a drift is seen, and whom it is put down to.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from scouter.agent.calibration.drawn import Decided, drawn_of
from scouter.agent.calibration.labels import Item, Label, LabelOrder
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics import corrected_rate as corrected_rates
from scouter.evaluate.statistics.clustered import effect_of_conversations
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CannotSay,
    Correction,
    JudgeCounts,
    corrected_rate,
    rate_of_traffic,
)
from scouter.evaluate.statistics.gold_items import Diagnosis, diagnose
from scouter.evaluate.statistics.kappa_profile import holds
from tests.bench.figures import Figures

SENSITIVITY: Final = 0.9
SPECIFICITY: Final = 0.8
JUDGED: Final = 500
JUDGES: Final = ((SENSITIVITY, SPECIFICITY), (0.7, 0.95))
RUNS: Final = 1000
LEAST: Final = 0.93
RATES: Final = (0.80, 0.95)
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """The results of one interval."""

    said: int = 0
    covered: int = 0
    width: float = 0.0

    def add(self, interval: Interval, truth: float) -> None:
        self.said += 1
        self.covered += interval[0] <= truth <= interval[1]
        self.width += interval[1] - interval[0]

    @property
    def coverage(self) -> float:
        return self.covered / self.said if self.said else math.nan

    @property
    def error(self) -> float:
        """One standard error of the simulation, at the least that is promised."""
        return math.sqrt(LEAST * (1 - LEAST) / self.said) if self.said else math.nan

    def __str__(self) -> str:
        low, high = wilson(self.covered, self.said) if self.said else (0.0, 1.0)
        return f"{self.coverage:6.1%} ({low:.1%} to {high:.1%})"


def flips(random: np.random.Generator, count: int, chance: float) -> int:
    return int(random.binomial(count, chance))


def labelled(
    random: np.random.Generator, good: int, bad: int, sensitivity: float, specificity: float
) -> Confusion:
    passed, failed = flips(random, good, sensitivity), flips(random, bad, specificity)
    return Confusion(
        good_passed=passed,
        good_failed=good - passed,
        bad_passed=bad - failed,
        bad_failed=failed,
    )


def pass_rate(rate: float, sensitivity: float, specificity: float) -> float:
    return rate * sensitivity + (1 - rate) * (1 - specificity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A situation: a traffic, how its labels were drawn, who labelled, and what is corrected."""

    name: str
    labels: int
    draw: Literal["outcome", "random", "whole", "gold"]
    """`whole`: all turns of conversations that were drawn at random."""
    judged: int = JUDGED
    moved: float | None = None
    """True rate of other records, which are corrected in place of those of the labels."""
    turns: int = 1
    alike: float = 0.0
    """Intraclass correlation of the truth in a conversation."""
    wrong: float = 0.0
    """How often a person errs."""
    raters: int = 1
    failed: int = 0
    """Labels more from the page's order `failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Records: the conversation of each, whether it is good, and whether the judge passes it."""

    session: Numbers
    is_good: Flags
    passed: Flags

    def answers(self) -> JudgeCounts:
        pairs = zip(self.session.tolist(), self.passed.tolist(), strict=True)
        effect = effect_of_conversations((f"s{session}", passed) for session, passed in pairs)
        return JudgeCounts(int(self.passed.sum()), len(self.passed), effect)


def traffic(
    random: np.random.Generator, row: Row, rate: float, sensitivity: float, specificity: float
) -> Traffic:
    count = row.judged
    session = np.arange(count) // row.turns
    chance = np.full(count, rate)
    if row.alike:
        spread = 1 / row.alike - 1
        means = random.beta(rate * spread, (1 - rate) * spread, int(session[-1]) + 1)
        chance = means[session]
    is_good = random.random(count) < chance
    right = random.random(count) < np.where(is_good, sensitivity, specificity)
    return Traffic(session=session, is_good=is_good, passed=is_good == right)


def drawn(random: np.random.Generator, row: Row, of: Traffic) -> list[int]:
    """Choose records as the row says; for halves of `gold` the truth is known beforehand."""
    every = np.arange(row.judged)
    if row.draw == "whole":
        chosen = random.permutation(int(of.session[-1]) + 1)[: row.labels // row.turns]
        return every[np.isin(of.session, chosen)].tolist()
    if row.draw == "random":
        return random.permutation(every)[: row.labels].tolist()
    by = of.passed if row.draw == "outcome" else of.is_good
    half = row.labels // 2
    parts = (random.permutation(every[mask])[:half].tolist() for mask in (by, ~by))
    return [at for part in parts for at in part]


def items(random: np.random.Generator, row: Row, of: Traffic) -> tuple[list[Item], list[Decided]]:
    """Labels as files and the page have them, read as `scouter judge calibrate` reads them."""
    chosen = [(at, row.draw) for at in drawn(random, row, of)]
    rest = random.permutation(np.flatnonzero(~of.passed)).tolist()
    chosen += [(at, "failed") for at in rest[: row.failed]]
    sizes = {True: int(of.passed.sum()), False: int((~of.passed).sum())}
    found: list[Item] = []
    decided: list[Decided] = []
    for number, (at, draw) in enumerate(chosen):
        truth, passed = bool(of.is_good[at]), bool(of.passed[at])
        label = Label(
            uid=f"{number}", label=truth, session=f"s{of.session[at]}",
            order=ORDERS[draw], is_blind=draw != "failed",
            stratum=("passed" if passed else "failed") if draw == "outcome" else "all",
            size=sizes[passed] if draw == "outcome" else row.judged,
        )  # fmt: skip
        votes = [truth != (random.random() < row.wrong) for _ in range(row.raters)]
        item = Item(
            key=label.uid, uid=label.uid, record_id="", context=None, session=label.session,
            votes=votes, blind_votes=votes if label.is_blind else [],
            drawn=None if label.not_drawn else label, not_drawn=label.not_drawn,
        )  # fmt: skip
        found.append(item)
        if item.is_good is not None:
            decided.append(Decided(item, item.is_good, passed, None))
    return found, decided


ORDERS: Final[Mapping[str, LabelOrder]] = {
    "outcome": "outcome", "random": "random", "whole": "random", "gold": "gold", "failed": "failed",
}  # fmt: skip
ROWS: Final = (
    *(Row(name="drawn by outcome", labels=n, draw="outcome") for n in (30, 50, 100)),
    *(Row(name="random", labels=n, draw="random") for n in (30, 50, 100)),
    Row(name="random, 50 more of the order failed", labels=100, draw="random", failed=50),
    Row(name="by outcome, of 100 records", labels=50, draw="outcome", judged=100),
    Row(name="by outcome, of 2,000 records", labels=50, draw="outcome", judged=2000),
    Row(name="random, of 100 records", labels=50, draw="random", judged=100),
    Row(name="two people, wrong in 5 %", labels=100, draw="outcome", wrong=0.05, raters=2),
    Row(name="two people, wrong in 10 %", labels=100, draw="outcome", wrong=0.1, raters=2),
    Row(name="two people, wrong in 10 %, random", labels=100, draw="random", wrong=0.1, raters=2),
    Row(name="conversations of 5, by outcome", labels=100, draw="outcome", turns=5, alike=0.5),
    Row(name="conversations of 10, by outcome", labels=100, draw="outcome", turns=10, alike=0.5),
    Row(name="whole conversations of 5", labels=100, draw="whole", turns=5, alike=0.5),
    Row(name="whole conversations of 10", labels=100, draw="whole", turns=10, alike=0.5),
    *(
        Row(name=f"other traffic, {to:.0%} good, by outcome", labels=n, draw="outcome", moved=to)
        for to in (0.8, 0.6)
        for n in (50, 100)
    ),
    Row(name="other traffic, 80 % good, random", labels=50, draw="random", moved=0.8),
    Row(name="other traffic, 80 % good, random", labels=100, draw="random", moved=0.8),
    Row(name="other traffic, 80 % good, gold halves", labels=50, draw="gold", moved=0.8),
    Row(name="other traffic, 80 % good, gold halves", labels=100, draw="gold", moved=0.8),
)


def once_corrected(
    random: np.random.Generator, row: Row, rate: float, sensitivity: float, specificity: float
) -> Correction:
    """Draw a traffic, label a part of it, and correct what the judge says."""
    of = traffic(random, row, rate, sensitivity, specificity)
    found, _ = drawn_of(*items(random, row, of))
    if found is None:
        return CannotSay("no labels")
    if row.moved is None:
        return rate_of_traffic(found.labels, of.answers())
    other = traffic(random, row, row.moved, sensitivity, specificity)
    return corrected_rate(found.labels, other.answers())


def coverages(runs: int) -> bool:
    """Print the first table; tell whether every promise was kept."""
    corrected_rates.DRAWS = 500
    random = np.random.default_rng(20261128)
    kept = True
    print(f"intervals of corrected rates; {runs} runs per row")
    for sensitivity, specificity in JUDGES:
        for rate in RATES:
            print(f"  sensitivity {sensitivity}, specificity {specificity}, {rate:.0%} good")
            for row in ROWS:
                tally, truth = Tally(), row.moved or rate
                for _ in range(runs):
                    said = once_corrected(random, row, rate, sensitivity, specificity)
                    if not isinstance(said, CannotSay):
                        tally.add(said.interval, truth)
                good = not tally.said or LEAST - 3 * tally.error <= tally.coverage
                kept &= good
                line = f"    {row.name:40} {row.labels:4} {tally.said / runs:6.1%}  {tally}  "
                line += f"{tally.width / max(1, tally.said):5.3f}"
                print(line if good else f"{line}  NOT KEPT", flush=True)
    return kept


def drifts(runs: int) -> None:
    """Print the second table."""
    random = np.random.default_rng(7)
    print(f"gold items in live traffic, half good, half bad; {runs} runs per line")
    print("  gold  what happens                      judge   agent   cannot tell")
    cases = (
        ("nothing", 0.8, 0.9, 0.8),
        ("agent 0.80 -> 0.60", 0.6, 0.9, 0.8),
        ("judge: sensitivity 0.90 -> 0.60", 0.8, 0.6, 0.8),
        ("judge: sensitivity 0.90 -> 0.75", 0.8, 0.75, 0.8),
        ("judge: specificity 0.80 -> 0.50", 0.8, 0.9, 0.5),
        ("both: 0.80 -> 0.50, 0.90 -> 0.60", 0.5, 0.6, 0.8),
    )
    for gold in (100, 400):
        for name, rate, sensitivity, specificity in cases:
            found = [once(random, gold // 2, rate, sensitivity, specificity) for _ in range(runs)]
            print(
                f"  {gold:4}  {name:32} {share(found, lambda d: d.judge.has_drifted):6.1%}  "
                f"{share(found, lambda d: d.has_agent_drifted is True):6.1%}  "
                f"{share(found, lambda d: d.has_agent_drifted is None):6.1%}"
            )


def once(
    random: np.random.Generator, each: int, rate: float, sensitivity: float, specificity: float
) -> Diagnosis:
    """One later window after a calibration on 200 labels at a true rate of 0.80."""
    before = flips(random, JUDGED, pass_rate(0.8, SENSITIVITY, SPECIFICITY))
    after = flips(random, JUDGED, pass_rate(rate, sensitivity, specificity))
    return diagnose(
        labelled(random, 100, 100, SENSITIVITY, SPECIFICITY),
        JudgeCounts(before, JUDGED),
        labelled(random, each, each, sensitivity, specificity),
        JudgeCounts(after, JUDGED),
    )


def share(found: list[Diagnosis], holds: Callable[[Diagnosis], bool]) -> float:
    return sum(map(holds, found)) / len(found)


def kappas(runs: int) -> bool:
    """Print the third table: how often the interval of kappa holds the truth, skewed sets too."""
    random = np.random.default_rng(11)
    print(f"kappa of a judge with people; {runs} tables per line")
    print("  labels  good  sensitivity  specificity  kappa  covers")
    kept = True
    for gold in (20, 30, 50, 200):
        for rate in (0.05, 0.2, 0.5, 0.9):
            for sensitivity, specificity in ((0.9, 0.8), (0.98, 0.98), (0.8, 0.6)):
                chances = (
                    rate * sensitivity, rate * (1 - sensitivity),
                    (1 - rate) * (1 - specificity), (1 - rate) * specificity,
                )  # fmt: skip
                truth = kappa_of(chances)
                tally = Tally()
                drawn = np.unique(
                    random.multinomial(gold, chances, runs), axis=0, return_counts=True
                )
                for (a, b, c, d), count in zip(*(each.tolist() for each in drawn), strict=True):
                    if max(a + b, c + d) < gold or max(a + c, b + d) < gold:
                        tally.said += count  # of one category only nothing is said
                        cells = [cell + 0.25 for cell in (a, b, c, d)]
                        tally.covered += count * holds(cells, truth, 0.95)
                good = LEAST - 3 * tally.error <= tally.coverage
                kept &= good
                line = (
                    f"  {gold:6} {rate:5.0%} {sensitivity:12.2f} {specificity:12.2f} {truth:6.2f}  "
                )
                print(f"{line}{tally}{'' if good else '  NOT KEPT'}")
    return kept


def kappa_of(chances: tuple[float, float, float, float]) -> float:
    a, b, c, d = chances
    chance = (a + b) * (a + c) + (c + d) * (b + d)
    return (a + d - chance) / (1 - chance)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a fortieth of the runs")
    is_short = parser.parse_args().short
    runs = RUNS // 40 if is_short else RUNS
    kept = coverages(runs)
    drifts(runs)
    kept &= kappas(max(100, runs))
    print(f"coverage promised and {'kept' if kept else 'NOT KEPT'}")
    figures = Figures("calibration", is_short=is_short)
    figures.add("coverage kept as promised", int(kept), at_least=1)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
