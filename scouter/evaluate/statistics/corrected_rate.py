"""The pass rate behind a fallible judge's outcomes, with the error of its calibration counted.

Let q be the share of records that the judge passes. Of the traffic that labels were drawn from, the
share of good records is

    r = q * P(good | passed) + (1 - q) * P(good | failed)

and labels that were drawn at random within each outcome of the judge tell both chances, as random
ones of the whole traffic do. Other records have another share of good ones, and with it other
chances; of them, only the judge's sensitivity and specificity are taken to be the same:

    r = (q - (1 - specificity)) / (sensitivity - (1 - specificity))

The interval is of draws from the distribution of all these chances given the counts, so that every
one of them brings its own error, however the formula joins them.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from random import Random
from typing import Final, NamedTuple, TypeAlias

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.proportion import CONFIDENCE

MIN_LABELS: Final = 30
"""Labels below which nothing is said of the traffic that they were drawn from: with 20, intervals
cover about 92.8 % where 95 % are good."""
DRAWS: Final = 2000
"""Draws behind an interval."""
_ADDED: Final = 0.5
"""Jeffreys' prior: half a record of each kind. It keeps a rate of 0 or 1 from being certain."""
_MISFIT: Final = 0.001
"""Share of draws with a rate in [0, 1] below which labels and outcomes contradict each other."""
_ENDLESS: Final = 0.0
"""Effect of so many records that their share has no error."""


class JudgeCounts(NamedTuple):
    """Counts of a judge's outcomes on some records."""

    passed: int
    judged: int
    """Records that it passed or failed."""
    effect: float = 1.0
    """Records that tell as much as one that stands alone, as turns of a conversation resemble each
    other; see `design_effect`."""


class Raters(NamedTuple):
    """Agreement of people with each other on the labelled records."""

    pairs: int = 0
    """Pairs of labels of two people on one record."""
    differ: int = 0
    """Pairs that say different things."""
    single: int = 0
    """Records whose label would be another if one person said so."""


NOBODY: Final = Raters()
"""No record has labels of two people, so that nobody knows how often people err."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLabels:
    """Labels of records that were drawn at random, and what they were drawn from."""

    counts: Confusion
    traffic: JudgeCounts | None = None
    """Outcomes on the records that the labels were drawn from, where they were drawn within the
    judge's outcomes. None of a sample of the whole, which has the traffic's share of each."""
    effect: float = 1.0
    """Labels that tell as much as one of another conversation."""
    raters: Raters = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRate:
    """Share of the judged items that are good, in [0, 1], with its interval."""

    estimate: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class CannotSay:
    """No rate can be determined, and why."""

    reason: str


Correction: TypeAlias = CorrectedRate | CannotSay


def rate_of_traffic(
    labels: DrawnLabels, answers: JudgeCounts, confidence: float = CONFIDENCE
) -> Correction:
    """Tell the share of good records in the traffic that labels were drawn from.

    Args:
        labels: Drawn from exactly these records.
        answers: The judge's outcomes on all of them, labelled ones included.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Estimate and interval in [0, 1]; `CannotSay` below `MIN_LABELS` labels, where none of the
        records with one outcome has a label, and where people differ as if they guessed.

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Cost: about 2 ms, and 100 ms more for labels that are new.
    Source: stratified sampling, Cochran 1977, chapter 5; of a sample of the whole, Tenenbein 1970,
        doi:10.1080/01621459.1970.10481170. Jeffreys' priors: Brown, Cai and DasGupta 2001,
        doi:10.1214/ss/1009213286.
    """
    _check(answers, confidence)
    counts = labels.counts
    if counts.total < MIN_LABELS:
        return CannotSay(f"{counts.total} labels are too few; at least {MIN_LABELS} are needed")
    for name, count, drawn in (
        ("passed", answers.passed, counts.passed),
        ("failed", answers.judged - answers.passed, counts.total - counts.passed),
    ):
        if count and not drawn:
            return CannotSay(f"none of the {count} records that the judge {name} has a label")
    share = answers.passed / answers.judged if answers.judged else 0.0
    estimate = share * counts.good_passed / counts.passed if counts.passed else 0.0
    failed = counts.total - counts.passed
    estimate += (1 - share) * counts.good_failed / failed if failed else 0.0
    return _summed(_of_traffic(labels, answers), estimate, confidence)


def corrected_rate(
    labels: DrawnLabels, answers: JudgeCounts, confidence: float = CONFIDENCE
) -> Correction:
    """Tell the share of good records in other traffic than the labels are of.

    The judge is taken to pass the same share of good records there, and to fail the same share of
    bad ones. The nearer its pass rate is to that of the traffic of the labels, the less hangs on
    these shares, and the narrower is the interval.

    Args:
        labels: Drawn within the judge's outcomes, as a sample of the whole, or (without `traffic`)
            by what the records are, blind to the outcome: half good and half bad, say.
        answers: The judge's outcomes.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Estimate and interval in [0, 1]; `CannotSay` where there are no labels of one kind, where
        they do not show that the judge passes good items more often than bad ones, where labels and
        outcomes contradict each other, and where people differ as if they guessed.

    Raises:
        ValueError: The counts contradict each other, or the level is out of range.

    Cost: about 2 ms, and 100 ms more for labels that are new.
    Source: Rogan and Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; sensitivity and
        specificity of records drawn by outcome, Begg and Greenes 1983, doi:10.2307/2530820.
    """
    _check(answers, confidence)
    reason = _unusable(labels.counts, answers.judged, confidence)
    if reason:
        return CannotSay(reason)
    found = _of_other(labels, answers)
    if found is not None and found.fitting < _MISFIT:
        return CannotSay(_misfit(labels.counts, answers))
    judge = rates_of_judge(labels)
    false_passes = 1 - (judge.specificity or 0.0)
    raw = answers.passed / answers.judged - false_passes
    estimate = min(1.0, max(0.0, raw / ((judge.sensitivity or 0.0) - false_passes)))
    return _summed(found, estimate, confidence)


def judge_error(
    labels: DrawnLabels, answers: JudgeCounts, confidence: float = CONFIDENCE
) -> Correction:
    """Tell how far the judge's own error reaches: the rate if the judged items were all there are.

    The same as `corrected_rate`, for so many outcomes that they leave no error of their own, so
    that only more labels can make the interval shorter.
    """
    return corrected_rate(labels, answers._replace(effect=_ENDLESS), confidence)


class JudgeQuality(NamedTuple):
    """How often a judge is right; None where no label says."""

    sensitivity: float | None
    sensitivity_interval: Interval
    specificity: float | None
    specificity_interval: Interval


def rates_of_judge(labels: DrawnLabels) -> JudgeQuality:
    """Tell sensitivity and specificity in the traffic that labels were drawn from.

    Returns:
        Shares of the labels, with Wilson's intervals, where these are a sample of the whole. Of
        labels that were drawn within the judge's outcomes each outcome counts by its records, with
        an interval by draws.
    """
    counts, traffic = labels.counts, labels.traffic
    failed = counts.total - counts.passed
    if traffic is None or not counts.passed or not failed:
        return JudgeQuality(
            counts.sensitivity,
            counts.sensitivity_interval(),
            counts.specificity,
            counts.specificity_interval(),
        )
    drawn = [_quality(*each) for each in zip(*_chances(labels)[0], strict=True)]
    passing, failing = (tuple(sorted(each)) for each in zip(*drawn, strict=True))
    sensitivity, specificity = _quality(
        counts.good_passed / counts.passed,
        counts.good_failed / failed,
        traffic.passed / traffic.judged,
    )
    tail = (1 - CONFIDENCE) / 2
    low, high = _quantile(passing, tail), _quantile(passing, 1 - tail)
    least, most = _quantile(failing, tail), _quantile(failing, 1 - tail)
    return JudgeQuality(
        sensitivity if counts.good else None,
        (min(low, sensitivity), max(high, sensitivity)) if counts.good else (0.0, 1.0),
        specificity if counts.bad else None,
        (min(least, specificity), max(most, specificity)) if counts.bad else (0.0, 1.0),
    )


def _quality(good_if_passed: float, good_if_failed: float, passed: float) -> tuple[float, float]:
    """Sensitivity and specificity, from what the outcomes tell; 0 where there is nothing."""
    good = passed * good_if_passed + (1 - passed) * good_if_failed
    right = (1 - passed) * (1 - good_if_failed)
    return (
        passed * good_if_passed / good if good else 0.0,
        right / (1 - good) if good < 1 else 0.0,
    )


def planned_width(labels: DrawnLabels, answers: JudgeCounts, more: int = 0) -> float:
    """Foresee the width of the interval of `rate_of_traffic`, with more labels than there are.

    Args:
        labels: May be none at all.
        answers: The judge's outcomes on the traffic, at least one.
        more: Further labels, half of what the judge passed and half of what it failed.

    Returns:
        The width in [0, 1], by a normal interval. Each outcome of the judge counts as right on
        85 % of two records more, so that something is foreseen from few labels, too.
    """
    counts = labels.counts
    share = answers.passed / answers.judged
    good_if_passed, among_passed = _foreseen(counts.good_passed, counts.passed, 0.85)
    failed = counts.total - counts.passed
    good_if_failed, among_failed = _foreseen(counts.good_failed, failed, 0.15)
    difference = good_if_passed - good_if_failed

    def error(chance: float, count: float) -> float:
        return chance * (1 - chance) * labels.effect / max(1.0, count + more / 2)

    variance = (
        share**2 * error(good_if_passed, among_passed)
        + (1 - share) ** 2 * error(good_if_failed, among_failed)
        + difference**2 * share * (1 - share) * answers.effect / answers.judged
    )
    return min(1.0, 2 * NORMAL.inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(variance))


def _foreseen(good: int, count: int, guess: float) -> tuple[float, int]:
    return (good + 2 * guess) / (count + 2), count


def _check(answers: JudgeCounts, confidence: float) -> None:
    if not 0 <= answers.passed <= answers.judged:
        raise ValueError(f"{answers.passed} of {answers.judged} is no rate")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; expected a level between 0 and 1")


def _unusable(labels: Confusion, judged: int, confidence: float) -> str:
    """Say why sensitivity and specificity do not identify the rate; "" if they do."""
    if not judged:
        return "the judge has decided none of the records"
    if not labels.good or not labels.bad:
        kind, rate = ("good", "sensitivity") if not labels.good else ("bad", "specificity")
        return (
            f"none of the {labels.total} labelled items is {kind}, so nothing is known of the "
            f"judge's {rate}; label more"
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
    if 2 * (seeing - blind) <= NORMAL.inv_cdf((1 + confidence) / 2) ** 2:
        return f"too few labels to tell the judge from one that does not look: {counts}; label more"
    return ""


def _best(passed: int, failed: int) -> float:
    """The largest log-likelihood of so many passes and failures."""
    total = passed + failed
    return sum(count * math.log(count / total) for count in (passed, failed) if count)


def _misfit(labels: Confusion, answers: JudgeCounts) -> str:
    return (
        f"the calibration does not fit these records: the judge passes "
        f"{answers.passed / answers.judged:.1%} of the records, but "
        f"{labels.good_passed / labels.good:.1%} of the labelled good items and "
        f"{labels.bad_passed / labels.bad:.1%} of the bad ones"
    )


class _Found(NamedTuple):
    """Draws of a rate, in order: with labels as they are, and, where people differ, once more."""

    rates: tuple[list[float], ...]
    fitting: float = 1.0
    """Share of the draws that lay in [0, 1] by themselves."""


def _summed(found: _Found | None, estimate: float, confidence: float) -> Correction:
    """The interval of the draws: of both kinds, where people differ."""
    if found is None:
        return CannotSay(
            "people differ on the records as if they guessed; agree on what is good, label again"
        )
    tail = (1 - confidence) / 2
    low = min(_quantile(rates, tail) for rates in found.rates)
    high = max(_quantile(rates, 1 - tail) for rates in found.rates)
    return CorrectedRate(estimate=estimate, interval=(min(low, estimate), max(high, estimate)))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Chances(NamedTuple):
    """Draws from the traffic of the labels, in no order."""

    good_if_passed: tuple[float, ...]
    good_if_failed: tuple[float, ...]
    passed: tuple[float, ...]


@lru_cache(maxsize=64)
def _chances(labels: DrawnLabels) -> tuple[_Chances, ...]:
    """Draw by the labels as they are; and, where people differ, without errors as often as that.

    Returns:
        Nothing where people differ as if they guessed.
    """
    counts, effect = labels.counts, labels.effect
    found = _Chances(
        _betas(1, counts.good_passed / effect, counts.bad_passed / effect),
        _betas(2, counts.good_failed / effect, counts.bad_failed / effect),
        _passed(3, labels.traffic or JudgeCounts(counts.passed, counts.total, effect)),
    )
    if not labels.raters.differ:
        return (found,)
    errors = _label_errors(labels.raters, counts.total)
    if errors is None:
        return ()

    def right(chances: tuple[float, ...]) -> tuple[float, ...]:
        pairs = zip(chances, errors, strict=True)
        return tuple(min(1.0, max(0.0, (at - wrong) / (1 - 2 * wrong))) for at, wrong in pairs)

    other = _Chances(right(found.good_if_passed), right(found.good_if_failed), found.passed)
    return found, other


def _label_errors(raters: Raters, labels: int) -> list[float] | None:
    """Draws of the share of labels that are wrong, if people err independently of each other.

    Two people who err with chance e differ on 2e(1 - e) of the records. A label that one person
    alone could turn is wrong with chance e, and one with a second voice behind it with chance
    e^2 / (e^2 + (1 - e)^2).

    Returns:
        None where they may differ on half of the records, as guesses do.
    """
    single = min(1.0, raters.single / labels) if labels else 1.0
    differing = _betas(4, raters.differ, raters.pairs - raters.differ)
    if max(differing) >= 0.5:
        return None
    found: list[float] = []
    for share in differing:
        error = (1 - math.sqrt(1 - 2 * share)) / 2
        backed = error * error / (error * error + (1 - error) ** 2)
        found.append(single * error + (1 - single) * backed)
    return found


def _betas(seed: int, up: float, down: float) -> tuple[float, ...]:
    """Draws of a chance that came true and did not so often; the same ones at every call.

    Every fourth of an ordered sample lies nearer to the quantiles than a sample of its size.
    """
    random = Random(seed)  # noqa: S311 no secret
    up, down = up + _ADDED, down + _ADDED
    found = sorted(random.betavariate(up, down) for _ in range(4 * DRAWS))[2::4]
    random.shuffle(found)
    return tuple(found)


@cache
def _normals(seed: int) -> tuple[float, ...]:
    found = [NORMAL.inv_cdf((at + 0.5) / DRAWS) for at in range(DRAWS)]
    Random(seed).shuffle(found)  # noqa: S311 no secret
    return tuple(found)


def _passed(seed: int, answers: JudgeCounts) -> tuple[float, ...]:
    """Draws of the share that the judge passes, which is of many records.

    Source: Anscombe 1948, doi:10.1093/biomet/35.3-4.246: the root's arc sine is nearly normal.
    """
    passed, judged, effect = answers
    if effect == _ENDLESS:
        return (passed / judged,) * DRAWS
    passed, judged = passed / effect, judged / effect
    middle = math.asin(math.sqrt((passed + 0.375) / (judged + 0.75)))
    step, sin = 0.5 / math.sqrt(judged + 0.5), math.sin
    most = math.pi / 2
    return tuple(sin(min(most, max(0.0, middle + step * z))) ** 2 for z in _normals(seed))


@lru_cache(maxsize=1024)
def _of_traffic(labels: DrawnLabels, answers: JudgeCounts) -> _Found | None:
    passed = _passed(5, answers)
    rates = tuple(
        sorted(
            q * good + (1 - q) * bad
            for good, bad, q in zip(each.good_if_passed, each.good_if_failed, passed, strict=True)
        )
        for each in _chances(labels)
    )
    return _Found(rates) if rates else None


@lru_cache(maxsize=1024)
def _of_other(labels: DrawnLabels, answers: JudgeCounts) -> _Found | None:
    passed = _passed(5, answers)
    rates: list[list[float]] = []
    fitting = 0.0
    for judge in _qualities(labels):
        raw = sorted(
            (q - false_passes) / youden
            for (false_passes, youden), q in zip(judge, passed, strict=True)
            if youden > 0
        )
        fitting = max(fitting, (bisect_right(raw, 1.0) - bisect_left(raw, 0.0)) / DRAWS)
        rates.append([min(1.0, max(0.0, rate)) for rate in raw] or [0.0, 1.0])
    return _Found(tuple(rates), fitting) if rates else None


@lru_cache(maxsize=64)
def _qualities(labels: DrawnLabels) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Draws of how often bad records pass, and of how much oftener good ones do."""
    found: list[tuple[tuple[float, float], ...]] = []
    for each in _chances(labels):
        drawn = (_quality(*draw) for draw in zip(*each, strict=True))
        found.append(
            tuple((1 - specificity, sens + specificity - 1) for sens, specificity in drawn)
        )
    return tuple(found)
