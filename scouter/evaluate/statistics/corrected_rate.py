"""The pass rate behind a fallible judge's outcomes, with the calibration's own error counted.

A judge that passes good answers with a chance of `sensitivity` and fails bad ones with a chance
of `specificity` passes a share q = r * sensitivity + (1 - r) * (1 - specificity) of all answers,
where r is the share of good ones. Solved for r that is the estimate of Rogan and Gladen. The
interval is by the profile likelihood: a rate r belongs to it unless every pair of sensitivity and
specificity makes the labels and the outcomes, taken together, too unlikely under r.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.proportion import CONFIDENCE

MIN_LABELS: Final = 20
"""Labels from the same traffic below which nothing is said."""
ADDED: Final = 0.25
"""Labels that the interval adds to each of the four kinds (good or bad, passed or failed).

One label in all. Without it, intervals from some tens of labels are too short: they cover 91 to
93 % in the worst places, with it 94 % and more (`tests/bench/calibration.py`). For four cells it is
the prior of Perks 1947, "Some observations on inverse probability including a new indifference
rule", Journal of the Institute of Actuaries 73, 285-334.
"""
_MISFIT: Final = 10.83
"""Twice a difference of log-likelihoods that chance exceeds once in 1000 times."""
_HALVINGS: Final = 32
"""Halvings of an interval in [0, 1], which find its end to better than 1e-9."""
_STEPS: Final = 100
_CLOSE: Final = 1e-13
_ENDLESS: Final = 10**8
"""Items whose own share of an interval is below 0.0001."""
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRate:
    """Share of the judged items that are good, in [0, 1], with its interval."""

    estimate: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class CannotSay:
    """No rate can be told, and why."""

    reason: str


Correction: TypeAlias = CorrectedRate | CannotSay


def corrected_rate(
    labels: Confusion,
    passed: int,
    judged: int,
    *,
    same_traffic: bool = False,
    confidence: float = CONFIDENCE,
) -> Correction:
    """Correct a pass rate for the judge's errors.

    Args:
        labels: Items that people and the judge have decided; none of them is among the judged.
        passed: Items without label that the judge passed.
        judged: Items without label that the judge passed or failed.
        same_traffic: True if the labels are a random sample of the items that are judged: then
            their own share of good items counts, too, a useless judge does no harm, and fewer
            labels say more. False if they were picked in any other way, such as half good and
            half bad: then only sensitivity and specificity carry over.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Estimate and interval in [0, 1]; or `CannotSay`: with `same_traffic` where there are fewer
        than `MIN_LABELS` labels; without it where there are no labels of one kind, or where they
        do not show that the judge passes good items more often than bad ones. In both cases where
        labels and outcomes cannot both be right: a chance below 1 in 1000 under any rate.

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Cost: about 65 values of the likelihood, each found in about ten steps; about 1 ms.
    Source: Rogan and Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; with labels from the
        same traffic the estimate is that of Tenenbein 1970, doi:10.1080/01621459.1970.10481170,
        to which prediction-powered inference comes near (see `prediction_powered`). Interval by
        Wilks 1938, doi:10.1214/aoms/1177732360, against the best rate in [0, 1]; that of Lang
        and Reiczigel 2014, doi:10.1016/j.prevetmed.2013.09.015, counts the same errors.
    """
    if not 0 <= passed <= judged:
        raise ValueError(f"{passed} of {judged} is no rate")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")
    limit = NORMAL.inv_cdf((1 + confidence) / 2) ** 2
    reason = _too_few(labels) if same_traffic else _unusable(labels, judged, limit)
    if reason:
        return CannotSay(reason)
    estimate = Profile(labels, passed, judged, same_traffic, added=0.0).estimate()
    profile = Profile(labels, passed, judged, same_traffic)
    middle = profile.likeliest()
    if 2 * (profile.log_best() - profile.log_likelihood(middle)) > _MISFIT:
        return CannotSay(_misfit(labels, passed, judged, same_traffic))
    least = profile.log_likelihood(middle) - limit / 2
    low = _edge(lambda rate: profile.log_likelihood(rate) >= least, middle, 0.0)
    high = _edge(lambda rate: profile.log_likelihood(rate) >= least, middle, 1.0)
    return CorrectedRate(estimate=estimate, interval=(min(low, estimate), max(high, estimate)))


def judge_error(
    labels: Confusion, passed: int, judged: int, *, confidence: float = CONFIDENCE
) -> Correction:
    """Tell how far the judge's own error reaches: the rate if the judged items were all there are.

    Args:
        labels: As in `corrected_rate`, and so are the others; not a sample of the same traffic.
        passed: Items without label that the judge passed.
        judged: Items without label that the judge passed or failed.
        confidence: Two-sided level.

    Returns:
        As `corrected_rate`; the interval is that of so many items that they leave no error of their
        own, so that only more labels can make it shorter.

    Raises:
        ValueError: As `corrected_rate`.

    Cost: about 1 ms.
    """
    if not 0 <= passed <= judged:
        raise ValueError(f"{passed} of {judged} is no rate")
    times = _ENDLESS // max(judged, 1) + 1
    return corrected_rate(labels, passed * times, judged * times, confidence=confidence)


def _too_few(labels: Confusion) -> str:
    if labels.total >= MIN_LABELS:
        return ""
    return f"{labels.total} labels are too few; at least {MIN_LABELS} are needed"


def _unusable(labels: Confusion, judged: int, limit: float) -> str:
    """Say why sensitivity and specificity do not identify the rate; "" if they do."""
    if not judged:
        return "the judge has decided none of the records"
    if not labels.good or not labels.bad:
        kind, rate = ("good", "sensitivity") if not labels.good else ("bad", "specificity")
        return (
            f"none of the {labels.total} labelled items is {kind}, so nothing is known of the "
            f"judge's {rate}; label some that are {kind}"
        )
    counts = (
        f"it passes {labels.good_passed} of {labels.good} good items and {labels.bad_passed} of "
        f"{labels.bad} bad ones"
    )
    if (labels.youden or 0.0) <= 0:
        return f"the judge passes bad items as often as good ones: {counts}"
    blind = _best(labels.passed, labels.total - labels.passed)
    seeing = _best(labels.good_passed, labels.good_failed)
    seeing += _best(labels.bad_passed, labels.bad_failed)
    if 2 * (seeing - blind) <= limit:
        return (
            f"too few labels to tell the judge from one that does not look: {counts}; label more, "
            f"above all {'bad' if labels.bad < labels.good else 'good'} ones"
        )
    return ""


def _misfit(labels: Confusion, passed: int, judged: int, same_traffic: bool) -> str:
    share = f"{passed / judged:.1%} of the records"
    if same_traffic:
        return (
            f"the labelled items are no random sample of these records: the judge passes {share}, "
            f"and {labels.passed / labels.total:.1%} of the labelled items"
        )
    return (
        f"the calibration does not fit these records: the judge passes {share}, but "
        f"{labels.good_passed / labels.good:.1%} of good items and "
        f"{labels.bad_passed / labels.bad:.1%} of bad ones"
    )


def _edge(is_inside: Callable[[float], bool], inside: float, end: float) -> float:
    """Find the end of an interval, on the way from a point inside it to `end`."""
    if is_inside(end):
        return end
    outside = end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return (inside + outside) / 2


class Profile:
    """The profile likelihood of the share of good items.

    Args:
        labels: As in `corrected_rate`, and so are the others.
        passed: Items without label that the judge passed.
        judged: Items without label.
        same_traffic: True if the labels are a sample of the same items.
        added: Labels that are added to each of the four kinds; see `ADDED`.
    """

    def __init__(
        self,
        labels: Confusion,
        passed: int,
        judged: int,
        same_traffic: bool,
        added: float = ADDED,
    ) -> None:
        self._good_passed = labels.good_passed + added
        self._good_failed = labels.good_failed + added
        self._bad_passed = labels.bad_passed + added
        self._bad_failed = labels.bad_failed + added
        self._passed = passed
        self._failed = judged - passed
        self._same_traffic = same_traffic

    def likeliest(self) -> float:
        """The rate in [0, 1] under which everything is likeliest.

        Where labels and outcomes point beyond one end, it is an end: that one, or the other where
        so few labels tell one of the judge's errors that a larger error is the better reason.
        """
        near = self.estimate()
        if 0 < near < 1:
            return near
        far = 1.0 - near
        return far if self.log_likelihood(far) > self.log_likelihood(near) else near

    def estimate(self) -> float:
        """The closed formula, which the ends of [0, 1] bound."""
        good = self._good_passed + self._good_failed
        bad = self._bad_passed + self._bad_failed
        judged = self._passed + self._failed
        if not self._same_traffic:
            false_passes = self._bad_passed / bad
            youden = self._good_passed / good - false_passes
            return min(1.0, max(0.0, (self._passed / judged - false_passes) / youden))
        # With the labels a sample of all, the share of good items among those that the judge
        # passes, and among those that it fails, are free of each other and of its pass rate.
        among_passed = self._good_passed + self._bad_passed
        among_failed = self._good_failed + self._bad_failed
        share = (among_passed + self._passed) / (good + bad + judged)
        rate = share * self._good_passed / among_passed if among_passed else 0.0
        return rate + ((1 - share) * self._good_failed / among_failed if among_failed else 0.0)

    def log_best(self) -> float:
        """The largest logarithm of the likelihood if nothing held labels and outcomes together."""
        found = (
            _best(self._good_passed, self._good_failed)
            + _best(self._bad_passed, self._bad_failed)
            + _best(self._passed, self._failed)
        )
        if self._same_traffic:
            found += _best(
                self._good_passed + self._good_failed, self._bad_passed + self._bad_failed
            )
        return found

    def log_likelihood(self, rate: float) -> float:
        """The largest logarithm of the likelihood under this share of good items.

        For a given rate it is concave in sensitivity and specificity. Where it is largest, the
        slope that the outcomes have in q is balanced by the labels:

            good_passed / sensitivity - good_failed / (1 - sensitivity) = -rate * slope
            bad_failed / specificity - bad_passed / (1 - specificity) = (1 - rate) * slope

        A larger slope gives a larger sensitivity and a smaller specificity, so a larger q; a
        larger q has a smaller slope. So there is one solution, which a search over q finds.
        """

        def answer(slope: float) -> tuple[float, float]:
            """Sensitivity, and how often bad items pass, that balance a slope."""
            return (
                _balanced(self._good_passed, self._good_failed, rate * slope),
                _balanced(self._bad_passed, self._bad_failed, (1 - rate) * slope),
            )

        def share(slope: float) -> float:
            sensitivity, false_passes = answer(slope)
            return rate * sensitivity + (1 - rate) * false_passes

        def beyond(at: float) -> float:
            return share(self._slope(at)) - at

        slope = 0.0
        if self._passed + self._failed:
            ends = sorted((share(0.0), self._passed / (self._passed + self._failed)))
            slope = self._slope(_root(beyond, *ends))
        sensitivity, false_passes = answer(slope)
        share_passed = rate * sensitivity + (1 - rate) * false_passes
        found = (
            _log(self._good_passed, sensitivity) + _log(self._good_failed, 1 - sensitivity)
            + _log(self._bad_passed, false_passes) + _log(self._bad_failed, 1 - false_passes)
            + _log(self._passed, share_passed) + _log(self._failed, 1 - share_passed)
        )  # fmt: skip
        if self._same_traffic:
            found += _log(self._good_passed + self._good_failed, rate)
            found += _log(self._bad_passed + self._bad_failed, 1 - rate)
        return found

    def _slope(self, share: float) -> float:
        """Compute the slope of the outcomes' log-likelihood over the share that is passed."""
        up = self._passed / max(share, _TINY) if self._passed else 0.0
        return up - (self._failed / max(1 - share, _TINY) if self._failed else 0.0)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Find the root of a falling function between two ends; by the Illinois form of false position.

    Source: Dowell and Jarratt 1971, doi:10.1007/BF01934364.
    """
    above, below = falling(low), falling(high)
    if above <= 0 or below >= 0:  # an end is the place, up to rounding
        return low if above <= 0 else high
    side = 0
    for _ in range(_STEPS):
        middle = (low * below - high * above) / (below - above)
        if not low < middle < high:
            middle = (low + high) / 2
        value = falling(middle)
        if abs(value) < _CLOSE or high - low < _CLOSE:
            return middle
        if value > 0:
            low, above = middle, value
            below = below / 2 if side > 0 else below  # an end that stays twice loses weight
            side = 1
        else:
            high, below = middle, value
            above = above / 2 if side < 0 else above
            side = -1
    return (low + high) / 2


def _balanced(passed: float, failed: float, slope: float) -> float:
    """The p in [0, 1] that makes passed * ln p + failed * ln(1 - p) + slope * p largest."""
    if not slope:
        return passed / (passed + failed) if passed + failed else 0.5
    linear = passed + failed - slope
    root = math.sqrt(max(0.0, linear * linear + 4 * slope * passed))
    if linear > 0:  # both forms are the same number; this one subtracts nothing
        return min(1.0, 2 * passed / (linear + root))
    return min(1.0, max(0.0, (root - linear) / (2 * slope)))


def _log(count: float, chance: float) -> float:
    """Logarithm of a chance that came true so often."""
    if not count:
        return 0.0
    return count * math.log(chance) if chance > 0 else -math.inf


def _best(passed: float, failed: float) -> float:
    """The largest log-likelihood of so many passes and failures."""
    total = passed + failed
    return _log(passed, passed / total) + _log(failed, failed / total) if total else 0.0
