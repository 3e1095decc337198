"""How often the interval of a corrected pass rate holds the truth, and how often it says so.

Run as `python -m tests.bench.calibration`; `--short` makes a fortieth of the runs.

A judge of sensitivity 0.9 and specificity 0.8 decides 500 live records; a gold set of records that
people and the judge have decided is drawn beside them, anew in every run, so that its own error is
in the figures. Three ways to use it:

* *transferred*: only sensitivity and specificity are used. The gold set is either a random sample
  of the same traffic (so that 50 labels at a true rate of 0.95 hold two or three bad ones), or half
  good and half bad, whatever the traffic is.
* *same traffic*: the gold set is known to be a random sample, and its labels count themselves.
* PPI++ with its normal interval, on the same data, for comparison; and the naive intervals, of Wald
  and Wilson, which take the judge's word.

Runs that end in "cannot say" are counted apart; coverage is of those that say something. The second
table is of gold items in live traffic: how often a drift is seen, and whom it is put down to.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import CannotSay, Correction, corrected_rate
from scouter.evaluate.statistics.gold_items import Diagnosis, JudgeCounts, diagnose
from scouter.evaluate.statistics.kappa_profile import holds
from scouter.evaluate.statistics.prediction_powered import prediction_powered
from tests.bench.figures import Figures

SENSITIVITY: Final = 0.9
SPECIFICITY: Final = 0.8
JUDGED: Final = 500
RUNS: Final = 4000
LEAST, MOST, MOST_FROM = 0.93, 0.97, 200
RATES: Final = (0.80, 0.95)
GOLD: Final = (50, 100, 200, 1000)
Design: TypeAlias = Literal["sample", "halves"]


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
        """One standard error of the simulation."""
        share = self.coverage
        return math.sqrt(share * (1 - share) / self.said) if self.said else math.nan

    def __str__(self) -> str:
        return f"{self.coverage:6.1%} ± {self.error:.1%}"


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


def cell(
    random: np.random.Generator, rate: float, gold: int, design: Design, runs: int
) -> dict[str, Tally]:
    """Simulate one true rate with one size of gold set."""
    found = {name: Tally() for name in ("transferred", "same", "ppi", "wald", "wilson")}

    def add(name: str, correction: Correction) -> None:
        if not isinstance(correction, CannotSay):
            found[name].add(correction.interval, rate)

    for _ in range(runs):
        good = flips(random, gold, rate) if design == "sample" else gold // 2
        labels = labelled(random, good, gold - good, SENSITIVITY, SPECIFICITY)
        passed = flips(random, JUDGED, pass_rate(rate, SENSITIVITY, SPECIFICITY))
        add("transferred", corrected_rate(labels, passed, JUDGED))
        if design == "sample":
            add("same", corrected_rate(labels, passed, JUDGED, same_traffic=True))
            found["ppi"].add(prediction_powered(labels, passed, JUDGED).interval, rate)
        share = passed / JUDGED
        half = 1.959964 * math.sqrt(share * (1 - share) / JUDGED)
        found["wald"].add((share - half, share + half), rate)
        found["wilson"].add(wilson(passed, JUDGED), rate)
    return found


def is_kept(tally: Tally, gold: int) -> bool:
    """Whether a cell is as promised, give or take three standard errors of the simulation."""
    most = MOST if gold >= MOST_FROM else 1.0
    return LEAST - 3 * tally.error <= tally.coverage <= most + 3 * tally.error


def coverages(runs: int) -> bool:
    """Print the first table; tell whether every promise was kept."""
    random = np.random.default_rng(20261123)
    kept = True
    for design, words in (("sample", "a sample of the traffic"), ("halves", "half good, half bad")):
        print(f"gold set: {words}; {runs} runs per cell")
        line = "  rate  gold   says  transferred    width"
        print(line + "  same traffic   width  PPI++" * (design == "sample"))
        for rate in RATES:
            naive = Tally(), Tally()
            for gold in GOLD:
                found = cell(random, rate, gold, "sample" if design == "sample" else "halves", runs)
                ours = [found["transferred"]]
                line = f"  {rate:.2f} {gold:5} {ours[0].said / runs:6.1%}  {ours[0]}  "
                line += f"{ours[0].width / max(1, ours[0].said):6.3f}"
                if design == "sample":
                    ours.append(found["same"])
                    line += f"  {found['same']}  {found['same'].width / runs:6.3f}"
                    line += f"  {found['ppi']}"
                for tally, name in zip(naive, ("wald", "wilson"), strict=True):
                    tally.said += found[name].said
                    tally.covered += found[name].covered
                good = all(is_kept(tally, gold) for tally in ours)
                kept &= good
                print(line if good else f"{line}  NOT KEPT")
            print(f"  {rate:.2f} naive: Wald {naive[0]}, Wilson {naive[1]}")
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
    drifts(runs // 4)
    kept &= kappas(max(100, runs // 10))
    print(f"coverage promised and {'kept' if kept else 'NOT KEPT'}")
    figures = Figures("calibration", is_short=is_short)
    figures.add("coverage kept as promised", int(kept), at_least=1)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
