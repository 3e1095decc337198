"""Which scenarios are asked again, and how often.

A scenario that passed before and fails now is broken, or was unlucky. The first failure was picked
for being one, so that it is no evidence; the attempts made afterwards are. A scenario is broken if
all of them fail.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from scouter.evaluate.compare.attempts import Attempt, attempts_of
from scouter.evaluate.scenario_results import ScenarioEvalResults

MAX_ASKED: Final = 20
"""Most attempts that the default asks for."""

_LEAST: Final = 4
_SCENARIOS: Final = 25
"""Up to so many scenarios the least will do; for each fourfold two more."""
_NONE: Final[frozenset[str]] = frozenset()
_FALSE_ALARMS: Final = 0.01
"""Unchanged scenarios of a release that may be called broken, on average."""


def candidates(baseline: ScenarioEvalResults, new: ScenarioEvalResults) -> tuple[str, ...]:
    """Pick the scenarios to ask again: every attempt of the baseline passed, and none does now.

    Attempts that were not decided count for neither; where a run decided none, nobody is asked.

    Returns:
        Ids, in the order of the new run.

    Cost: linear in the number of task results.
    """
    before, now = attempts_of(baseline), attempts_beside(baseline, new)
    return tuple(
        name for name in new.scenario_ids if is_candidate(before.get(name, ()), now.get(name, ()))
    )


def attempts_beside(
    baseline: ScenarioEvalResults, new: ScenarioEvalResults
) -> dict[str, list[Attempt]]:
    """Say of each attempt whether it passed, and left what it has to leave.

    Returns:
        As `attempts_of`, but an attempt did not pass without a record for each alias that every
        attempt of its scenario in the baseline had one for.
    """
    expected, seen = _aliases(baseline), _aliases(new)
    usual = {
        name: frozenset[str].intersection(*(expected.get((name, a.attempt), _NONE) for a in found))
        for name, found in attempts_of(baseline).items()
    }
    return {
        name: [
            attempt
            if usual.get(name, _NONE) <= seen.get((name, attempt.attempt), _NONE)
            else replace(attempt, passed=False)
            for attempt in found
        ]
        for name, found in attempts_of(new).items()
    }


def is_candidate(before: Iterable[Attempt], now: Iterable[Attempt]) -> bool:
    """Tell whether a scenario is one of the `candidates`.

    Args:
        before: Its attempts in the baseline.
        now: Its attempts in the new run.
    """
    past, found = _decided(before), _decided(now)
    return bool(past) and all(past) and bool(found) and not any(found)


def usual_wanted(baseline: ScenarioEvalResults) -> int:
    """Say how many attempts have to fail, if nobody says otherwise.

    Four up to 25 scenarios, six up to 100, eight up to 400 and so on. More where the scenarios of
    the baseline are flaky: n scenarios that pass at the rate p are called broken, although nothing
    changed, n p (1-p)^(k+1) times on average: passed before, failed now, failed k times more. That
    is to be 0.01 at most.

    Args:
        baseline: The run whose scenarios and their mean pass rate say it.

    Returns:
        From 4 to 20.
    """
    decided = map(_decided, attempts_of(baseline).values())
    rates = [sum(found) / len(found) for found in decided if found]
    return wanted_for(len(rates), sum(rates) / len(rates) if rates else 0.0)


def wanted_for(scenarios: int, pass_rate: float) -> int:
    """Compute `usual_wanted`.

    Args:
        scenarios: How many there are.
        pass_rate: Their mean, in [0, 1].
    """
    wanted, enough_for = _LEAST, _SCENARIOS
    while scenarios > enough_for:
        wanted, enough_for = wanted + 2, enough_for * 4
    flips = scenarios * pass_rate * (1 - pass_rate)
    while wanted < MAX_ASKED and flips * (1 - pass_rate) ** wanted > _FALSE_ALARMS:
        wanted += 1
    return min(wanted, MAX_ASKED)


def _decided(attempts: Iterable[Attempt]) -> list[bool]:
    return [attempt.passed for attempt in attempts if attempt.passed is not None]


def _aliases(results: ScenarioEvalResults) -> dict[tuple[str, int], frozenset[str]]:
    """The aliases that each attempt left records for."""
    found: dict[tuple[str, int], set[str]] = {}
    for alias, rows in results.dataset_results.items():
        for row in rows:
            found.setdefault((row.scenario_id or "", row.attempt), set()).add(alias)
    return {key: frozenset(aliases) for key, aliases in found.items()}
