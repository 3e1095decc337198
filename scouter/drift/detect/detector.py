"""Detects that the mean of a stream of outcomes has fallen.

An outcome is 1 for a pass, 0 for a fail, or any score from 0 to 1. While the agent is healthy, the
mean of the next outcome, given all before it, is at least the healthy mean. Each component of the
detector bets against that, on one size of a fall; the evidence is their weighted sum.

Source: e-detectors, Shin, Ramdas and Rinaldo 2022, arXiv:2203.03532; the weighted start is
Lorden's reduction with a spending sequence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import Any, Final

from scouter.drift.detect.alternatives import bets, falls
from scouter.drift.detect.spending import Start, weight_of, weights_of

ALPHA: Final = 0.01
"""Chance of ever alarming while nothing is wrong, unless said otherwise."""
_MAX_FACTORS: Final = 64
"""Runs of passes whose factors are stored: a power of each component is a tenth of an update."""
_MOST: Final = 1e200
"""The most that evidence grows to, so that no product of it overflows."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """A detector's bets, shared by all series that have the same healthy mean.

    Args:
        healthy: Mean of the outcomes of a healthy agent, in (0, 1).
        alpha: Chance of ever alarming while the agent is healthy, in (0, 1); with
            `Start.ALWAYS` one over the least average number of outcomes between false alarms.
        start: When a change may have started.
        rates: Means that are looked for, each in [0, healthy); by default `falls(healthy)`.
        weights: One per rate, adding up to 1; equal ones by default.

    Raises:
        ValueError: Says which argument is out of range.
    """

    healthy: float
    alpha: float = ALPHA
    start: Start = Start.SPENT
    rates: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; expected a chance between 0 and 1")
        if not self.rates:
            object.__setattr__(self, "rates", falls(self.healthy))
        if not self.weights:
            count = len(self.rates)
            object.__setattr__(self, "weights", (1 / count,) * count)
        if not 0 < self.healthy < 1 or not all(0 <= rate < self.healthy for rate in self.rates):
            raise ValueError(f"rates {self.rates} are not in [0, {self.healthy})")
        if len(self.weights) != len(self.rates) or abs(math.fsum(self.weights) - 1) > 1e-9:
            raise ValueError(f"weights {self.weights} are no {len(self.rates)} shares of 1")

    @cached_property
    def bets(self) -> tuple[float, ...]:
        """The bet of each component."""
        return bets(self.healthy, self.rates)

    @cached_property
    def on_pass(self) -> tuple[float, ...]:
        """The factor of each component for an outcome of 1."""
        return tuple(1 - bet * (1 - self.healthy) for bet in self.bets)

    @cached_property
    def on_fail(self) -> tuple[float, ...]:
        """The factor of each component for an outcome of 0."""
        return tuple(1 + bet * self.healthy for bet in self.bets)

    @cached_property
    def _powers(self) -> dict[int, tuple[float, ...]]:
        return {}

    def on_passes(self, count: int) -> tuple[float, ...]:
        """The factor of each component for so many passes, 1 or more."""
        known = self._powers.get(count)
        if known is None:
            known = tuple(factor**count for factor in self.on_pass)
            if count <= _MAX_FACTORS:
                self._powers[count] = known
        return known

    def factors(self, outcome: float) -> Sequence[float]:
        """The factor of each component for an outcome in [0, 1]."""
        if outcome == 1:
            return self.on_pass
        if outcome == 0:
            return self.on_fail
        above = outcome - self.healthy
        return [1 - bet * above for bet in self.bets]


class Detector:
    """One stream's evidence against being healthy.

    Args:
        design: The bets.

    Cost: about 1 µs for an outcome where nine of ten pass; 5 µs for a score. The state is 24
        numbers.
    """

    __slots__ = (
        "_masses", "_passes", "_peaks", "_since", "_taken", "_weighed", "alarmed_at", "design",
    )  # fmt: skip

    def __init__(self, design: Design) -> None:
        self.design = design
        self.alarmed_at: int | None = None
        """Number of the outcome at which the evidence first reached its line; None before."""
        components = len(design.rates)
        self._taken = 0
        """Outcomes that all numbers have in them."""
        self._passes = 0
        """Passes since then. They lower all evidence that is near the line, so they can wait."""
        self._weighed = 0
        """Of these passes the ones that the masses have in them: to ask for the evidence changes
        nothing but when they are weighed, and not what comes out."""
        self._masses = [0.0] * components
        self._peaks = [1.0] * components
        """Per component the largest product of factors up to now, over all starts; at least 1."""
        self._since = [0] * components
        """Per component the outcome after which that product starts."""

    @property
    def count(self) -> int:
        """Outcomes so far."""
        return self._taken + self._passes

    def update(self, outcome: float) -> bool:
        """Take the next outcome.

        Args:
            outcome: In [0, 1]; 1 for a pass.

        Returns:
            True for the one outcome at which the alarm begins.

        Raises:
            ValueError: The outcome is outside [0, 1].
        """
        if outcome == 1:
            self._passes += 1
            return False
        if not 0 <= outcome < 1:
            raise ValueError(f"{outcome} is no outcome; expected a number from 0 to 1")
        self._take_passes()
        self._take(outcome)
        if self.alarmed_at is None and self._evidence() >= 1 / self.design.alpha:
            self.alarmed_at = self._taken
            return True
        return False

    def redesign(self, design: Design) -> None:
        """Bet by another design from the next outcome on; the evidence so far stays.

        The chance of a false alarm stays, too, where each design was chosen before the outcomes
        that it bets on, and the agent is healthy by all of them.

        Args:
            design: With as many rates, and the same start and alpha.
        """
        self._take_passes()
        self.design = design

    def _take(self, outcome: float) -> None:
        factors, before = self.design.factors(outcome), self._taken
        self._taken = at = before + 1
        start = weight_of(self.design.start, at)
        self._masses = [(m + start) * f for m, f in zip(self._masses, factors, strict=True)]
        peaks = [peak * f for peak, f in zip(self._peaks, factors, strict=True)]
        if min(peaks) < 1:
            self._since = [at if p <= 1 else s for p, s in zip(peaks, self._since, strict=True)]
            peaks = [max(peak, 1.0) for peak in peaks]
        self._peaks = peaks
        if max(peaks) > _MOST:
            self._peaks = [min(peak, _MOST) for peak in peaks]
            self._masses = [min(mass, _MOST) for mass in self._masses]

    def _weigh(self) -> None:
        """Bring the masses up to date with the passes since."""
        passes = self._passes - self._weighed
        if not passes:
            return
        starts = weights_of(self.design.start, self._taken + self._weighed + 1, passes)
        masses: list[float] = []
        for mass, factor in zip(self._masses, self.design.on_pass, strict=True):
            for start in starts:
                mass = (mass + start) * factor
            masses.append(mass)
        self._masses = masses
        self._weighed = self._passes

    def _take_passes(self) -> None:
        """Bring all numbers up to date with the passes since."""
        self._weigh()
        passes = self._passes
        if not passes:
            return
        self._taken += passes
        self._passes = self._weighed = 0
        peaks, since, taken = self._peaks, self._since, self._taken
        for place, factor in enumerate(self.design.on_passes(passes)):
            left = peaks[place] * factor
            if left <= 1:
                since[place], left = taken, 1.0
            peaks[place] = left

    @property
    def evidence(self) -> float:
        """Evidence of a fall, as a ratio of likelihoods; the alarm is at 1 / alpha."""
        self._weigh()
        return self._evidence()

    def _evidence(self) -> float:
        return sum(map(mul, self.design.weights, self._masses))

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of `evidence`, for a picture with the line -ln(alpha)."""
        evidence = self.evidence
        return math.log(evidence) if evidence > 0 else -math.inf

    @property
    def is_alarmed(self) -> bool:
        """Tells whether the evidence has reached its line, however long ago."""
        return self.alarmed_at is not None

    @property
    def changed_after(self) -> int:
        """Number of the outcome after which the change most likely began; 0 for the start.

        Where the component with the most evidence last had none, by the rule of a CUSUM.
        """
        self._weigh()
        best = max(range(len(self._masses)), key=self._masses.__getitem__)
        left = self._peaks[best] * self.design.on_pass[best] ** self._passes
        return self.count if self._passes and left <= 1 else self._since[best]

    @property
    def starts(self) -> tuple[int, ...]:
        """Per component the outcome after which the change began, if it is the one that bets best.

        Passes that came last are not taken into account yet.
        """
        return tuple(self._since)

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        self._weigh()
        return {
            "taken": self._taken,
            "passes": self._passes,
            "alarmed_at": self.alarmed_at,
            "masses": list(self._masses),
            "peaks": list(self._peaks),
            "since": list(self._since),
        }

    @staticmethod
    def from_json(design: Design, state: dict[str, Any]) -> "Detector":
        """Go on from a stored state.

        Args:
            design: The one that the state was made with.
            state: Of `to_json`.

        Raises:
            ValueError: The state has another number of components.
        """
        found = Detector(design)
        sizes = {len(state[name]) for name in ("masses", "peaks", "since")}
        if sizes != {len(design.rates)}:
            raise ValueError(f"a state of {sizes} components is none of {len(design.rates)}")
        found._taken, found._passes = state["taken"], state["passes"]
        found._weighed = found._passes
        found.alarmed_at = state["alarmed_at"]
        found._masses, found._peaks = list(state["masses"]), list(state["peaks"])
        found._since = list(state["since"])
        return found
