"""Error budgets: the failures that the objective of a profile allows, and how fast they go."""

from dataclasses import dataclass
from typing import Final

from scouter.alert.condition import AlertThreshold
from scouter.drift.profile import AgentEvalProfile

FEWEST: Final = 30
"""Results in the long window from which on a budget is looked at."""
_LARGEST: Final = 0.75
"""Largest share of failures that a rule may ask for. One that asks for nearly all of the results
could not tell an agent that always fails from chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """Two windows in which too much of the budget goes.

    Args:
        long: Window that proves it, as Prometheus writes it.
        short: Window that shows that it still goes on.
        factor: How many times as fast as allowed.
    """

    long: str
    short: str
    factor: float


BURNS: Final = (
    Burn(long="1h", short="5m", factor=14.4),
    Burn(long="6h", short="30m", factor=6),
    Burn(long="1d", short="2h", factor=3),
    Burn(long="3d", short="6h", factor=1),
)
"""The pairs for a budget of 30 days. Source: "The Site Reliability Workbook", chapter 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The share of results that a profile wants to pass.

    Args:
        name: The profile's name.
        alias: Its alias.
        share: In (0, 1).
    """

    name: str
    alias: str
    share: float

    def failures(self, burn: Burn) -> float:
        """The share of failures at which the budget goes that fast; above 1 for never."""
        return burn.factor * (1 - self.share)

    @property
    def burns(self) -> tuple[Burn, ...]:
        """The pairs that an agent can reach.

        The budget of the objective s goes at most 1 / (1 - s) times as fast as allowed, when all
        results fail: at 80 % five times, so that 14.4 and 6 would never fire.
        """
        return tuple(burn for burn in BURNS if self.failures(burn) <= _LARGEST)


def objective_of(profile: AgentEvalProfile) -> float | None:
    """The share of passes that a profile states as its lowest healthy one.

    Returns:
        In (0, 1); None where its alert condition states none, or one without room for a failure.
    """
    condition = profile.config.alert_config.alert_condition
    if condition is None or condition.alert_threshold is AlertThreshold.Above:
        return None
    share = condition.lower_bound()
    return share if 0 < share < 1 else None
