"""What a release check would see, and what it would take, before it runs.

Releases are simulated by the rule of the check itself, with pass rates that stored runs tell.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final, TypeAlias

from scouter.evaluate.compare.asking import LARGE_FALL, Rows, Trial, carried_out, trial_of
from scouter.evaluate.compare.gate_counts import Attempt, attempts_of
from scouter.evaluate.results.run import RunResults, totals_of
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.statistics.failing import Attempts, FailingChances
from scouter.model.genai.work import sum_known

SEEN: Final = 0.8
"""Share of releases in which a fall has to be found."""
RELEASES: Final = 40
"""Simulated releases behind each share and mean."""

_REPEATS: Final = (1, 3, 5)
_RUNS: Final = (1, 3)
_SURE: Final = 0.9
"""Share of releases in which a recommended design finds broken scenarios."""
_SEED: Final = 2033
_COARSE, _COARSE_STEP = 30, 0.05
_FINE, _FINE_STEP = 70, 0.015
"""Number of steps in the search for a fall, and their size."""

Rates: TypeAlias = Mapping[str, float]
"""By scenario: how often an attempt passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A way to check releases.

    Args:
        repeats: Attempts at each scenario.
        runs: Runs of the baseline, each with as many; None for the stored ones, as they are.
    """

    repeats: int
    runs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a design would see, and what it takes if nothing changed.

    Args:
        design: The design.
        fall: Fall of every scenario, a share, that is found in 80 % of releases; None if none is.
        one_broken: Share of releases in which a scenario that never passes any more is found.
        fifth_broken: The same where a fifth of the scenarios never pass.
        calls: Mean number of attempts of a release, with those of asking again.
        calls_in_rounds: The same with `--sequential`; None for a single repeat.
    """

    design: Design
    fall: float | None
    one_broken: float
    fifth_broken: float
    calls: float
    calls_in_rounds: float | None

    @property
    def suffices(self) -> bool:
        """True if it finds broken scenarios, and the fall that a check never lets go."""
        is_sharp = self.fall is not None and self.fall <= LARGE_FALL
        return is_sharp and min(self.one_broken, self.fifth_broken) >= _SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Means of one attempt; None where nothing is known.

    Args:
        seconds: Time.
        agent_tokens: Tokens of the agent's model calls, read and written, as its spans report them.
        judge_calls: Questions to judges.
        judge_usd: Dollars for them.
    """

    seconds: float
    agent_tokens: float | None
    judge_calls: float | None
    judge_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Designs of a check, from the one at hand to the dearest.

    Args:
        scenarios: Number of scenarios that can be compared.
        attempts: Stored attempts at each scenario, at most.
        passed: Number of stored attempts that passed.
        made: Number of stored attempts.
        price: Means of one attempt.
        outlooks: The design at hand, then others.
        noisy: Scenarios that pass now and then, most first, with the shares of all repeats that
            would pay most there: those of Neyman's allocation.
        silent: By scenario that can tell nothing, the reason.
    """

    scenarios: int
    attempts: int
    passed: int
    made: int
    price: Price
    outlooks: Sequence[Outlook]
    noisy: Mapping[str, float]
    silent: Mapping[str, str]

    @property
    def recommended(self) -> Outlook:
        """The cheapest design that suffices; where none does, the one that sees the most."""
        enough = [each for each in self.outlooks if each.suffices]
        if enough:
            return min(enough, key=lambda each: (each.design.repeats, each.design.runs or 0))
        return min(self.outlooks, key=lambda each: (each.fall or 1.0, -each.one_broken))

    def to_json(self) -> dict[str, Any]:
        """Write all of it as plain JSON."""
        best = asdict(self.recommended) if self.outlooks else None
        return {**asdict(self), "recommended": best}


def plan_of(
    baseline: RunResults,
    names: Collection[str],
    repeats: int,
    started: Callable[[Design], object] = lambda design: None,
) -> Plan:
    """Lay out what designs of a check would see.

    Args:
        baseline: Stored runs.
        names: Ids of the scenarios that would be run.
        repeats: Attempts of the design at hand.
        started: Called with each design before its simulation.

    Returns:
        The plan; without outlooks where no scenario can be compared.

    Cost: some hundred simulated releases for each of at most nine designs: about 5 s for 20
        scenarios, and in proportion to scenarios and repeats beyond.
    Source: weighted up-down method, Kaernbach 1991, Perception & Psychophysics 49, 227-229;
        allocation: Neyman 1934, Journal of the Royal Statistical Society 97, 558-625.
    """
    found = {name: row for name, row in attempts_of(baseline).items() if name in names}
    silent = {name: why for name in names if (why := _silence(found.get(name, ())))}
    simulator = _Simulator(trial_of(baseline, baseline), names)
    usual = simulator.usual
    designs = [Design(repeats=repeats, runs=None)] if simulator.rates else []
    if designs:
        tries = sorted({*_REPEATS, repeats})
        designs += [Design(repeats=each, runs=runs) for each in tries for runs in _RUNS]
    outlooks: list[Outlook] = []
    for design in designs:
        started(design)
        outlooks.append(simulator.outlook(design))
    return Plan(
        scenarios=len(simulator.rates),
        attempts=max((len(row) for row in simulator.rows.values()), default=0),
        passed=sum(each.passed for each in usual.values()),
        made=sum(each.made for each in usual.values()),
        price=_price(baseline),
        outlooks=outlooks,
        noisy=_noisy(usual, simulator.rates),
        silent=silent,
    )


def _silence(attempts: Sequence[Attempt]) -> str:
    """Say why a scenario can tell nothing; empty if it can."""
    if not attempts:
        return "not in the baseline"
    decided = [each for each in attempts if each.passed is not None]
    if not decided:
        return "no check of it gave a result"
    if any(each.passed for each in decided):
        return ""
    verb = "errored" if all(each.is_errored for each in decided) else "failed"
    times = "its only attempt" if len(decided) == 1 else f"all {len(decided)} attempts"
    return f"{verb} in {times}, so it cannot fall"


def _noisy(usual: Mapping[str, Attempts], rates: Rates) -> dict[str, float]:
    """Share the repeats out in proportion to the standard deviations."""
    spread = {
        name: math.sqrt(rates[name] * (1 - rates[name]))
        for name, seen in usual.items()
        if 0 < seen.passed < seen.made
    }
    whole = math.fsum(spread.values())
    ordered = sorted(spread.items(), key=lambda item: -item[1])
    return {name: each / whole for name, each in ordered}


def _price(baseline: RunResults) -> Price:
    attempts = (*baseline.scenario_results, *baseline.conversations)
    made = max(len(attempts), 1)
    tokens = sum_known(
        number
        for item in attempts
        for act in (SpanTree(item.traces).acts if item.traces else ())
        for number in (act.facts.usage.input, act.facts.usage.output)
    )
    judges = totals_of(baseline)
    used = None if judges is None else judges.usage
    cost = None if used is None else used.cost_usd
    return Price(
        seconds=sum(item.duration_ns for item in attempts) / made / 1e9,
        agent_tokens=None if tokens is None else tokens / made,
        judge_calls=None if used is None else used.calls / made,
        judge_usd=None if cost is None else cost / made,
    )


class _Simulator:
    """Draws releases of an agent with the pass rates that its stored attempts tell.

    The rate of a scenario is the predictive one, given its own attempts and those of all others.
    """

    def __init__(self, stored: Trial, names: Collection[str]) -> None:
        self.rows: Final[Rows] = {
            name: row for name, row in stored.baseline.items() if name in names
        }
        self.usual: Final = {name: stored.usual[name] for name in self.rows}
        self._release: Final = stored.release
        nothing = [Attempts(0, 0)] * len(self.usual)
        chances = FailingChances(list(self.usual.values()), nothing)
        self.rates: Final[Rates] = {
            name: 1 - chances.all_failing(at, 1) for at, name in enumerate(self.usual)
        }

    def outlook(self, design: Design) -> Outlook:
        """Simulate what a design sees."""
        luck = Random(_SEED)  # noqa: S311 - no secret

        def played(broken: int = 0, *, in_rounds: bool = False) -> list[Trial]:
            return [
                self._played(luck, design, self._broken(luck, broken), in_rounds=in_rounds)
                for _ in range(RELEASES)
            ]

        def mean(values: Iterable[float]) -> float:
            return math.fsum(values) / RELEASES

        one, fifth = (
            mean(trial.exit_code == 1 for trial in played(count))
            for count in (1, max(round(len(self.rates) / 5), 1))
        )
        rounds = None
        if design.repeats > 1:
            rounds = mean(trial.made for trial in played(in_rounds=True))
        return Outlook(
            design=design,
            fall=self._fall(luck, design),
            one_broken=one,
            fifth_broken=fifth,
            calls=mean(trial.made for trial in played()),
            calls_in_rounds=rounds,
        )

    def _fall(self, luck: Random, design: Design) -> float | None:
        """Go up after a fall that is not found and down after one that is: 4 to 1, for 80 %."""
        largest = max(self.rates.values())
        fall, visited = min(LARGE_FALL, largest), list[float]()
        for step in (_COARSE_STEP,) * _COARSE + (_FINE_STEP,) * _FINE:
            now = {name: max(rate - fall, 0.0) for name, rate in self.rates.items()}
            is_found = self._played(luck, design, now).exit_code == 1
            fall += -(1 - SEEN) * step if is_found else SEEN * step
            fall = min(max(fall, 0.0), largest)
            visited.append(fall)
        mean = sum(visited[_COARSE:]) / _FINE
        return mean if mean < 0.95 * largest else None

    def _broken(self, luck: Random, count: int) -> Rates:
        """Some of the scenarios that passed in at least half of their attempts never pass."""
        watched = [name for name, seen in self.usual.items() if 2 * seen.passed >= seen.made]
        chosen = luck.sample(watched, min(count, len(watched)))
        return {**self.rates, **dict.fromkeys(chosen, 0.0)}

    def _played(
        self, luck: Random, design: Design, now: Rates, *, in_rounds: bool = False
    ) -> Trial:
        tries = design.repeats
        rows, usual, release = self.rows, self.usual, self._release
        if design.runs is not None:
            made = tries * design.runs
            rows = {name: _drawn(luck, rate, made) for name, rate in self.rates.items()}
            usual = {name: Attempts(sum(row), made) for name, row in rows.items()}
            release = 1
        at_first = 1 if in_rounds else tries
        trial = Trial(
            baseline=rows,
            usual=usual,
            suite=[{name: _drawn(luck, now[name], at_first) for name in rows}],
            single={},
            release=release,
            planned=tries if in_rounds else 0,
            left=tries - at_first,
        )
        return carried_out(trial, lambda name, times: _drawn(luck, now[name], times))


def _drawn(luck: Random, rate: float, times: int) -> list[int]:
    return [int(luck.random() < rate) for _ in range(times)]
