"""The rule of a release check: what to ask again, and what the attempts come to.

Four kinds of evidence decide. The *suite test* compares all whole attempts at the suite with the
baseline's, at most three times, and so does the test of *scores*. A *broken* scenario failed so
often that an unchanged one hardly would. And a *visible fall* of 20 points that is left at the end
is never let go.

A sequential run makes its first attempts in rounds, and looks after each. A stop for a fall takes
its part of the level; a stop for a go takes none, as it can only make a fall harder to find.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeAlias

from scouter.evaluate.compare.gate_counts import Attempt, attempts_of
from scouter.evaluate.compare.rows import (
    LARGE_FALL,
    NEARLY,
    SCORE_LEVEL,
    SCORE_LOOK,
    ScoreChange,
    at_level,
)
from scouter.evaluate.compare.scores import run_scores
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.statistics.failing import Attempts, FailingChances
from scouter.evaluate.statistics.permutation import Stratum, fall_p_value

LOOKS: Final = (0.015, 0.010, 0.010)
"""Levels of the suite test: at the first attempts, and after each further round of the suite."""

ONLY_LOOK: Final = sum(LOOKS)
"""Level of the suite test where the suite ran once and for all."""

EARLY: Final = 0.005
"""Part of the first level that a sequential run spends before all first attempts are made."""

ONE_BROKEN: Final = 0.010
"""Chance that an unchanged suite has a scenario that is called broken by its own failures."""

SEVERAL_BROKEN: Final = 0.003
"""The same for several scenarios that are called broken together."""

_LOOK_AGAIN_P: Final = 0.10
_FUTILE_SLOPE: Final = 0.9
"""Addition to the least p-value for a go, if no round were made yet; it falls with each round."""
_LOOK_AGAIN_FALL: Final = 0.12
_LEAST_LEVEL: Final = 0.25
_EPSILON: Final = 1e-9

Rows: TypeAlias = Mapping[str, Sequence[int]]
"""By scenario: 1 for each attempt that passed and 0 for each that did not."""


class Ask(StrEnum):
    """The next thing to do."""

    ROUND = "round"
    """Make the next one of the first attempts at every scenario."""
    SUITE = "suite"
    """Ask every scenario again, as often as at first."""
    SCENARIOS = "scenarios"
    """Ask each scenario that still has no pass once."""
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Attempts of a run beside those of its baseline.

    Args:
        baseline: Whole attempts at the suite, of scenarios that both runs have.
        usual: All attempts of the agent before, with those at single scenarios.
        suite: Whole attempts of the new run: the first ones, then those of each further round.
        single: Attempts at scenarios that were asked again alone.
        compared: Scores of tasks, over all whole attempts.
        release: Number of the release that is compared with this baseline, from 1. Every level is
            divided by it, so that a baseline that is used often does not stop more often.
        confirm: Most further attempts at one scenario; None for no bound of its own.
        planned: Most first attempts at each scenario in a sequential run, else 0.
        left: Those of them that are not made yet.
    """

    baseline: Rows
    usual: Mapping[str, Attempts]
    suite: Sequence[Rows]
    single: Rows
    compared: Sequence[ScoreChange] = ()
    release: int = 1
    confirm: int | None = None
    planned: int = 0
    left: int = 0

    @cached_property
    def pooled(self) -> Rows:
        """All whole attempts of the new run."""
        return {
            name: [passed for rows in self.suite for passed in rows.get(name, ())]
            for name in self.baseline
        }

    @property
    def made(self) -> int:
        """Number of attempts of the new run, whole and single ones."""
        return sum(map(len, (*self.pooled.values(), *self.single.values())))

    @cached_property
    def p_value(self) -> float:
        """One-sided mid-p of the suite test."""
        strata = (Stratum(self.baseline[name], self.pooled[name]) for name in self.baseline)
        return fall_p_value(strata, mid=True)

    @property
    def level(self) -> float:
        """Level of the suite test, once no further round is to come."""
        if self.left or len(self.suite) > 1:
            return self._look
        return self._look + (ONLY_LOOK - LOOKS[0]) / self.release

    @property
    def _look(self) -> float:
        """Level of the suite test at this look, where others may follow."""
        if self.left:
            return EARLY / (self.planned - 1) / self.release
        level = LOOKS[len(self.suite) - 1]
        if self.planned > 1 and len(self.suite) == 1:
            level -= EARLY
        return level / self.release

    @property
    def has_fallen(self) -> bool:
        """True if the suite test rejects that nothing changed."""
        return self.p_value <= self.level

    @cached_property
    def scores(self) -> Sequence[ScoreChange]:
        """Scores of tasks, at their level once no further round is to come."""
        level = self._score_look
        if not self.left and len(self.suite) == 1:
            level += (SCORE_LEVEL - SCORE_LOOK) / self.release
        return at_level(self.compared, level)

    @property
    def _score_look(self) -> float:
        """Level of the scores at this look; it is spent as that of the suite test is."""
        return SCORE_LOOK * self._look / LOOKS[len(self.suite) - 1]

    @cached_property
    def fall(self) -> float:
        """By how much the share of attempts that passed fell; negative for a rise."""
        return _rate(self.baseline) - _rate(self.pooled)

    @property
    def is_large(self) -> bool:
        """True if a fall of 20 points is left."""
        return self.fall >= LARGE_FALL - _EPSILON

    @property
    def exit_code(self) -> Literal[0, 1, 3]:
        """Decision of all attempts, once nothing more is to come.

        1 if the suite or a score fell, or a scenario is broken; 3 if a fall of 20 points is left,
        if failures of single scenarios are nearly enough, or if scores leave a doubt; else 0.
        """
        if self.has_fallen or self.broken.names or any(row.regressed for row in self.scores):
            return 1
        is_open = any(row.is_doubtful or row.is_unseen for row in self.scores)
        return 3 if self.is_large or self.broken.is_doubtful or is_open else 0

    @cached_property
    def next(self) -> Ask:
        """The next thing to do."""
        if not self.baseline or self.p_value <= self._look:
            return Ask.NOTHING
        if any(row.falls_at(self._score_look) for row in self.compared):
            return Ask.NOTHING
        found = self.broken
        if found.names:
            return Ask.NOTHING
        if self.left and self._wants_round:
            return Ask.ROUND
        if self._wants_suite:
            return Ask.SUITE
        if not self.open or found.is_spent:
            return Ask.NOTHING
        return Ask.SCENARIOS

    @property
    def _wants_round(self) -> bool:
        """Tell whether a fall may still be found: the fewer attempts, the more has to pass."""
        if any(self.single.values()):
            return False
        futile = _LOOK_AGAIN_P + _FUTILE_SLOPE * self.left / self.planned
        is_open = self.p_value <= futile or any(row.falls_at(futile) for row in self.compared)
        return is_open or self._is_in_doubt

    @property
    def _wants_suite(self) -> bool:
        looks = len(self.suite)
        most = self.confirm
        if self.left or looks == len(LOOKS) or any(self.single.values()):
            return False
        if most is not None and looks * self._tries > most:
            return False
        return self.p_value <= _LOOK_AGAIN_P or self._is_in_doubt

    @property
    def _is_in_doubt(self) -> bool:
        if self.fall >= _LOOK_AGAIN_FALL - _EPSILON:
            return True
        if any(row.falls_at(NEARLY * SCORE_LEVEL) for row in self.compared):
            return True
        is_large = any(row.is_large for row in self.compared)
        return len(self.suite) == 1 and (is_large or self._fell_visibly)

    @property
    def _tries(self) -> int:
        """First attempts at each scenario, with those that a sequential run may still make."""
        return max([self.planned, *map(len, self.suite[0].values())])

    @property
    def _fell_visibly(self) -> bool:
        """Tell whether the first attempts show a large fall, of attempts or of scenarios."""
        first = self.suite[0]
        if _rate(self.baseline) - _rate(first) >= LARGE_FALL - _EPSILON:
            return True
        both = [name for name in self.baseline if self.baseline[name] and first.get(name)]
        if any(len(self.baseline[name]) != len(first[name]) for name in both):
            return False  # more attempts pass less often
        before, now = (sum(all(rows[name]) for name in both) for rows in (self.baseline, first))
        return bool(both) and before - now >= LARGE_FALL * len(both) - _EPSILON

    @cached_property
    def watched(self) -> Sequence[str]:
        """Scenarios that passed at least half of their attempts before."""
        return [
            name for name, old in self.usual.items()
            if old.made and 2 * old.passed >= old.made and self.pooled.get(name)
        ]  # fmt: skip

    @cached_property
    def open(self) -> Sequence[str]:
        """Watched scenarios that have not passed once in the new run."""
        return [
            name for name in self.watched
            if not any(self.pooled[name]) and not any(self.single.get(name, ()))
        ]  # fmt: skip

    def failures(self, name: str) -> int:
        """Number of attempts of the new run at a scenario that has not passed once."""
        return len(self.pooled[name]) + len(self.single.get(name, ()))

    @cached_property
    def broken(self) -> "Broken":
        """Scenarios that their failures show to be broken, and the chances of that."""
        if not self.open:
            return Broken(names=(), chances={}, is_spent=False, is_doubtful=False)
        order = {name: at for at, name in enumerate(self.usual)}
        first = tuple(_attempts(self.suite[0].get(name, ())) for name in self.usual)
        chances = _chances(tuple(self.usual.values()), first)
        failures = {name: self.failures(name) for name in self.open}
        own = {name: chances.all_failing(order[name], failures[name]) for name in self.open}
        level = 1 / self.release
        least = min(failures.values())
        expected = math.fsum(chances.all_failing(order[name], least) for name in self.watched)
        several = _poisson_tail(expected, len(self.open)) if len(self.open) > 1 else 1.0
        alone = {name: own[name] * len(self.watched) / ONE_BROKEN for name in self.open}
        strength = min(several / SEVERAL_BROKEN, *alone.values())
        names = [name for name in self.open if alone[name] <= level]
        is_together = len(names) < len(self.open) and several / SEVERAL_BROKEN <= level
        return Broken(
            names=self.open if is_together else names,
            together=several if is_together else None,
            chances=own,
            is_spent=self._is_spent(failures),
            is_doubtful=not names
            and not is_together
            and strength <= NEARLY * max(level, _LEAST_LEVEL),
        )

    def _is_spent(self, failures: Mapping[str, int]) -> bool:
        budget = max(40, 2 * self._tries * len(self.baseline))
        spent = sum(map(len, self.single.values()))
        if spent + len(self.open) > budget:
            return True
        most = self.confirm
        return most is not None and any(failures[name] - self._tries >= most for name in self.open)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Failures of single scenarios, weighed.

    Args:
        names: Scenarios that are broken.
        together: Chance of so many scenarios without a pass, where only their number says that
            they are broken; None where each of the names says it alone.
        chances: By scenario without a pass, the chance that it fails so often if it did not change.
        is_spent: True if no further attempt may be made.
        is_doubtful: True if the failures are nearly enough.
    """

    names: Sequence[str]
    together: float | None = None
    chances: Mapping[str, float]
    is_spent: bool
    is_doubtful: bool


def carried_out(trial: Trial, attempts: Callable[[str, int], Sequence[int]]) -> Trial:
    """Ask what a trial asks for, until that is nothing.

    Args:
        trial: The first attempts.
        attempts: Makes so many attempts at a scenario: 1 for each that passed, else 0.
    """
    while (ask := trial.next) is not Ask.NOTHING:
        first, *more = trial.suite
        match ask:
            case Ask.ROUND:
                first = {name: [*row, *attempts(name, 1)] for name, row in first.items()}
                trial = replace(trial, suite=[first], left=trial.left - 1)
            case Ask.SUITE:
                again = {name: attempts(name, len(row)) for name, row in first.items()}
                trial = replace(trial, suite=[first, *more, again])
            case Ask.SCENARIOS:
                found = {
                    name: [*trial.single.get(name, ()), *attempts(name, 1)] for name in trial.open
                }
                trial = replace(trial, single={**trial.single, **found})
    return trial


def trial_of(baseline: RunResults, new: RunResults, confirm: int | None = None) -> Trial:
    """Lay the attempts of a run beside those of its baseline.

    Whole attempts count as decided: passed, or not. An attempt at a single scenario does not count
    where nothing but a judge that gave no answer stands against it.

    Args:
        baseline: The run to compare with.
        new: The run in question, with what was asked again so far.
        confirm: Most further attempts at one scenario; None for no bound of its own.

    Cost: linear in the number of task results.
    """
    # Both runs need the records of the other, or a record that comes and goes only falls.
    old = _decided(attempts_of(baseline, new, baseline.dataset_results))
    now = attempts_of(new, baseline)
    tries = new.repeats // new.rounds
    rounds = [
        _decided({name: [each for each in found if each.attempt // tries == at]
                  for name, found in now.items()})
        for at in range(new.rounds)
    ]  # fmt: skip
    both = [name for name, row in old.items() if row and any(rows.get(name) for rows in rounds)]
    before = _alone(baseline.reasked, None)
    return Trial(
        baseline={name: old[name] for name in both},
        usual={name: _attempts([*old[name], *before.get(name, ())]) for name in both},
        suite=rounds,
        single=_alone(new.reasked, baseline),
        compared=run_scores(baseline, new),
        release=baseline.releases + 1,
        confirm=confirm,
        planned=new.planned,
        left=max(new.planned - new.repeats, 0),
    )


def _decided(found: Mapping[str, Sequence[Attempt]]) -> dict[str, list[int]]:
    return {
        name: [int(each.passed) for each in attempts if each.passed is not None]
        for name, attempts in found.items()
    }


def _alone(results: RunResults | None, baseline: RunResults | None) -> dict[str, list[int]]:
    """The decided attempts at single scenarios, each of which was repeated as often as it took."""
    if results is None:
        return {}
    items = (*results.scenario_results, *results.conversations)
    made = {(item.scenario_id, item.attempt) for item in items}
    return _decided(
        {
            name: [
                each
                for each in attempts
                if (name, each.attempt) in made and (each.passed or not each.is_unanswered)
            ]
            for name, attempts in attempts_of(results, baseline).items()
        }
    )


@lru_cache(maxsize=4)
def _chances(baseline: tuple[Attempts, ...], first: tuple[Attempts, ...]) -> FailingChances:
    """Remember those of a trial while single scenarios are asked again."""
    return FailingChances(baseline, first)


def _attempts(row: Sequence[int]) -> Attempts:
    return Attempts(sum(row), len(row))


def _rate(rows: Rows) -> float:
    made = sum(map(len, rows.values()))
    return sum(map(sum, rows.values())) / made if made else 0.0


def _poisson_tail(mean: float, least: int) -> float:
    """Chance of so many events or more."""
    term = math.exp(-mean)
    below = 0.0
    for count in range(least):
        below += term
        term *= mean / (count + 1)
    return max(1 - below, 0.0)
