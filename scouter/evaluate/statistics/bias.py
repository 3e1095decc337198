"""Biases of a judge: leniency, length, position, chance.

Each check gives an interval, and says in a sentence what it means.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.agreement import fleiss_kappa
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.paired import mcnemar_exact, tango
from scouter.evaluate.statistics.proportion import CONFIDENCE

LEVEL: Final = 0.05
_HALVINGS: Final = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check of a judge."""

    check: str
    """`leniency`, `length`, `position` or `consistency`."""
    value: float | None
    """Measured bias; the sentence names its unit. None where there was nothing to measure."""
    interval: Interval
    p_value: float | None
    """Two-sided p-value of a judge without such a bias; None where nothing is tested."""
    items: int
    """Items that the figure rests on."""
    sentence: str

    @property
    def is_biased(self) -> bool:
        """True where chance explains what was found in fewer than 5 % of cases."""
        return self.p_value is not None and self.p_value <= LEVEL


def leniency(labels: Confusion, confidence: float = CONFIDENCE) -> Finding:
    """Does the judge pass more than people do?

    Returns:
        The judge's pass rate less that of people on the same items, in [-1, 1].

    Source: McNemar's exact test and Tango's interval; see `paired`.
    """
    total = labels.total
    p_value = mcnemar_exact(labels.good_failed, labels.bad_passed)
    low, high = tango(labels.good_failed, labels.bad_passed, total, confidence)
    if not total:
        return _nothing("leniency", "no item was decided by both people and the judge")
    value = (labels.bad_passed - labels.good_failed) / total
    word = "more" if value > 0 else "fewer"
    found = f"{word} items than people do: {_points(value)} ({_points(low)} to {_points(high)})"
    if p_value <= LEVEL:
        what = f"the judge passes {found} of {total}"
    elif low > 0 or high < 0:  # two tests, of which the exact one is the stricter
        what = f"the judge may pass {found} of {total}; the exact test takes it for chance"
    else:
        what = (
            f"the judge passes about as many of {total} items as people do: the difference is "
            f"between {_points(low)} and {_points(high)}"
        )
    return Finding(
        check="leniency",
        value=value,
        interval=(low, high),
        p_value=p_value,
        items=total,
        sentence=f"{what} (p {p_value:.2g})",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedItem:
    """One item with its length."""

    is_good: bool
    """True if people pass the item."""
    passed: bool
    """True if the judge passes the item."""
    length: float


def length_bias(items: Iterable[SizedItem], confidence: float = CONFIDENCE) -> Finding:
    """Does the judge prefer long answers, or short ones, where people see no difference?

    Of all pairs of items of which people say the same, and of which the judge passes one and
    fails the other: in which share is the passed one the longer? Equal lengths count half. A
    judge that does not care has 0.5. As only items with the same label are compared, good answers
    may well be longer than bad ones without the judge being called biased.

    Returns:
        That share, in [0, 1]; (0, 1) without such pairs.

    Cost: n log n.
    Source: the statistic of Mann and Whitney 1947, summed over the two labels; interval and test
        by method 5 of Newcombe 2006, doi:10.1002/sim.2323, whose variance at 0.5 is that of the
        rank-sum test.
    """
    known = list(items)
    strata: list[tuple[float, int, int]] = []
    for is_good in (True, False):
        same = [each for each in known if each.is_good is is_good]
        passed = [each.length for each in same if each.passed]
        failed = sorted(each.length for each in same if not each.passed)
        if passed and failed:
            strata.append((_longer(passed, failed), len(passed), len(failed)))
    pairs = sum(passed * failed for _, passed, failed in strata)
    if not pairs:
        return _nothing(
            "length", "there are no two items with one label that the judge decided differently"
        )
    share = math.fsum(longer for longer, _, _ in strata) / pairs

    def spread(at: float) -> float:
        """Standard error of the share if it truly were `at`."""
        either = (1 - at) / (2 - at) + at / (1 + at)
        total = math.fsum(
            passed * failed * (1 + ((passed + failed) / 2 - 1) * either)
            for _, passed, failed in strata
        )
        return math.sqrt(at * (1 - at) * total) / pairs

    z = NORMAL.inv_cdf((1 + confidence) / 2)
    low = _end(lambda at: share - at <= z * spread(at), share, 0.0)
    high = _end(lambda at: at - share <= z * spread(at), share, 1.0)
    p_value = min(1.0, 2 * NORMAL.cdf(-abs(share - 0.5) / spread(0.5)))
    if p_value <= LEVEL:
        what = f"the judge prefers {'longer' if share > 0.5 else 'shorter'} answers"
    else:
        what = "no preference for long or short answers is seen"
    items_used = sum(passed + failed for _, passed, failed in strata)
    return Finding(
        check="length",
        value=share,
        interval=(low, high),
        p_value=p_value,
        items=items_used,
        sentence=f"{what}: of two that people call the same, the one that it passes is the longer "
        f"in {share:.0%} ({low:.0%} to {high:.0%}) of cases (p {p_value:.2g})",
    )


def _longer(passed: Sequence[float], failed: Sequence[float]) -> float:
    """Pairs in which the passed one is the longer; `failed` is sorted."""
    return math.fsum(
        (bisect_left(failed, length) + bisect_right(failed, length)) / 2 for length in passed
    )


def _end(is_inside: Callable[[float], bool], inside: float, outside: float) -> float:
    if is_inside(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return inside


def position_bias(pairs: Iterable[tuple[bool, bool]], confidence: float = CONFIDENCE) -> Finding:
    """Does the judge prefer what stands first, or second, whatever it is?

    Args:
        pairs: For each comparison judged in both orders: did it choose the first place as given,
            and did it choose the first place after the swap? A judge that looks at the answers
            says one of each.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Share of comparisons won by the first place alone, less those won by the second place
        alone; in [-1, 1].

    Source: McNemar's exact test and Tango's interval; see `paired`.
    """
    known = list(pairs)
    if not known:
        return _nothing("position", "no comparison was judged in both orders")
    first = sum(given and swapped for given, swapped in known)
    second = sum(not given and not swapped for given, swapped in known)
    value = (first - second) / len(known)
    p_value = mcnemar_exact(second, first)
    low, high = tango(second, first, len(known), confidence)
    if p_value <= LEVEL:
        what = f"the judge prefers the {'first' if value > 0 else 'second'} place"
    else:
        what = "no preference for a place is seen"
    return Finding(
        check="position",
        value=value,
        interval=(low, high),
        p_value=p_value,
        items=len(known),
        sentence=f"{what}: swapping changed what won in {first + second} of {len(known)} "
        f"comparisons, {first} times for the first place and {second} times for the second "
        f"(difference {_points(low)} to {_points(high)}, p {p_value:.2g})",
    )


def consistency(repeats: Iterable[Sequence[bool]], confidence: float = CONFIDENCE) -> Finding:
    """Does the judge say the same when it gets the same question again?

    Args:
        repeats: For each item, what the judge said each time; items judged once are left out.
        confidence: Two-sided level, between 0 and 1, both excluded.

    Returns:
        Share of the items on which all outcomes are the same, with Wilson's interval; Fleiss'
        kappa is in the sentence.
    """
    known = [row for row in repeats if len(row) > 1]
    if not known:
        return _nothing("consistency", "no item was judged more than once")
    same = sum(len(set(row)) == 1 for row in known)
    low, high = wilson(same, len(known), confidence)
    kappa = fleiss_kappa([(sum(row), len(row) - sum(row)) for row in known], confidence)
    times = max(map(len, known))
    beyond = (
        "" if kappa.value is None
        else f"; beyond chance {kappa.value:.2f} "
        f"({kappa.interval[0]:.2f} to {kappa.interval[1]:.2f}, Fleiss' kappa)"
    )  # fmt: skip
    return Finding(
        check="consistency",
        value=same / len(known),
        interval=(low, high),
        p_value=None,
        items=len(known),
        sentence=f"called up to {times} times, the judge says the same of {same} of {len(known)} "
        f"items ({low:.0%} to {high:.0%}){beyond}",
    )


def _nothing(check: str, why: str) -> Finding:
    return Finding(
        check=check, value=None, interval=(-1.0, 1.0), p_value=None, items=0, sentence=why
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"
