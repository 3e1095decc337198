"""The chance that a scenario fails so often although nothing changed."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Final, NamedTuple

_MEANS: Final = (0.1, 0.3, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995)
_WEIGHTS: Final = (0.3, 0.8, 2.0, 5.0, 12.0, 30.0, 80.0)
_STRAYS: Final = (0.0, 0.1, 0.25)


class _Suite(NamedTuple):
    """A guess at how the pass rates of a suite's scenarios are spread.

    A beta distribution, and beside it a share of scenarios that may have any rate.
    """

    passes: float
    failures: float
    strays: float


_GUESSES: Final = tuple(
    _Suite(mean * weight, (1 - mean) * weight, strays)
    for mean in _MEANS
    for weight in _WEIGHTS
    for strays in _STRAYS
)


class Attempts(NamedTuple):
    """Attempts at one scenario by an agent that did not change."""

    passed: int
    made: int


class FailingChances:
    """Predicts failures of scenarios from what their suite did.

    A scenario's own few attempts say little about its rate; all others say how flaky the suite is.
    The predictive chance is averaged over 231 guesses at the spread of rates, each weighted by the
    attempts of the other scenarios. An attempt that might be of a changed agent is left out for
    the scenario in question.

    Args:
        baseline: Attempts of the agent before, by scenario.
        first: First attempts of the agent in question, in the same order.

    Source: empirical Bayes with a beta-binomial mixture; Skellam 1948, Journal of the Royal
        Statistical Society B 10, 257-261.
    """

    def __init__(self, baseline: Sequence[Attempts], first: Sequence[Attempts]) -> None:
        self._baseline: Final = tuple(baseline)
        self._both: Final = tuple(
            Attempts(old.passed + new.passed, old.made + new.made)
            for old, new in zip(baseline, first, strict=True)
        )
        counts = Counter(self._both)
        terms = [[count * term for term in _log_chances(*seen)] for seen, count in counts.items()]
        self._suite: Final = list(map(math.fsum, zip(*terms, strict=True)))
        self._known: dict[tuple[Attempts, Attempts, int], float] = {}
        self._shares: dict[tuple[Attempts, Attempts], list[float]] = {}

    def all_failing(self, scenario: int, failures: int) -> float:
        """Predict that so many attempts in a row fail, if the agent did not change.

        Args:
            scenario: Its place.
            failures: Number of attempts, from 0.

        Returns:
            A chance in [0, 1].

        Cost: 231 steps for each distinct history of a scenario.
        """
        own, both = self._baseline[scenario], self._both[scenario]
        key = own, both, failures
        if key not in self._known:
            chances = _failing(*own, failures)
            self._known[key] = math.fsum(map(mul, self._weigh(own, both), chances))
        return self._known[key]

    def _weigh(self, own: Attempts, both: Attempts) -> list[float]:
        """Probabilities of the guesses, by what a scenario and all others did."""
        if (own, both) not in self._shares:
            weights = [
                suite - mine + before
                for suite, mine, before in zip(
                    self._suite, _log_chances(*both), _log_chances(*own), strict=True
                )
            ]
            top = max(weights)
            shares = [math.exp(weight - top) for weight in weights]
            whole = math.fsum(shares)
            self._shares[own, both] = [share / whole for share in shares]
        return self._shares[own, both]


@lru_cache(maxsize=65536)
def _failing(passed: int, made: int, failures: int) -> tuple[float, ...]:
    """Chance that so many further attempts fail, by guess."""
    before, after = _log_chances(passed, made), _log_chances(passed, made + failures)
    return tuple(math.exp(late - early) for late, early in zip(after, before, strict=True))


@lru_cache(maxsize=65536)
def _log_chances(passed: int, made: int) -> tuple[float, ...]:
    """Log of the chance of an ordered sequence with so many passes, by guess."""
    return tuple(_log_chance(passed, made - passed, guess) for guess in _GUESSES)


def _log_chance(passed: int, failed: int, guess: _Suite) -> float:
    a, b, strays = guess
    usual = math.exp(_log_beta(a + passed, b + failed) - _log_beta(a, b))
    if not strays:
        return _log_beta(a + passed, b + failed) - _log_beta(a, b)
    return math.log((1 - strays) * usual + strays * math.exp(_log_beta(1 + passed, 1 + failed)))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
