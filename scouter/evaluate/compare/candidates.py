"""Scenarios that are asked again, and the number of further attempts.

A scenario that passed before and fails now is broken, or was unlucky. Its first failure is no
evidence, because the scenario was picked for it. The attempts made afterwards are evidence: the
scenario is broken if all of them fail.
"""

from typing import Final

from scouter.evaluate.compare.attempts import attempts_of, flipped
from scouter.evaluate.results.run import RunResults

MAX_ASKED: Final = 20
"""Most attempts that the default asks for."""

_LEAST: Final = 4
_SCENARIOS: Final = 25
"""Up to so many scenarios the least will do; for each fourfold two more."""
_FALSE_ALARMS: Final = 0.01
"""Unchanged scenarios of a release that may be called broken, on average."""


def candidates(baseline: RunResults, new: RunResults) -> tuple[str, ...]:
    """Pick the scenarios to ask again: every attempt of the baseline passed, and none does now.

    Attempts that were not decided count for neither; where a run decided none, nobody is asked.

    Returns:
        Ids, in the order of the new run.

    Cost: linear in the number of task results.
    """
    return tuple(flipped(attempts_of(baseline), attempts_of(new, baseline)))


def usual_wanted(baseline: RunResults) -> int:
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
    decided = [
        [attempt.passed for attempt in attempts if attempt.passed is not None]
        for attempts in attempts_of(baseline).values()
    ]
    rates = [sum(found) / len(found) for found in decided if found]
    return wanted_for(len(rates), sum(rates) / len(rates) if rates else 0.0)


def wanted_for(scenarios: int, pass_rate: float) -> int:
    """Compute `usual_wanted`.

    Args:
        scenarios: Number of scenarios.
        pass_rate: Their mean, in [0, 1].
    """
    wanted, enough_for = _LEAST, _SCENARIOS
    while scenarios > enough_for:
        wanted, enough_for = wanted + 2, enough_for * 4
    flips = scenarios * pass_rate * (1 - pass_rate)
    while wanted < MAX_ASKED and flips * (1 - pass_rate) ** wanted > _FALSE_ALARMS:
        wanted += 1
    return min(wanted, MAX_ASKED)
