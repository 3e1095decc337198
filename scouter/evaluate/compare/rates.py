"""Rows of a comparison: a test of each rate, a correction for many tests, and their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.compare.counts import Tally
from scouter.evaluate.compare.rows import (
    CLEARED,
    ENOUGH,
    WHOLE,
    WHOLE_SCENARIOS,
    RateComparison,
    p_text,
)
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.clustered import compare_clusters
from scouter.evaluate.statistics.fall_limit import CONFIDENCE, fall_limit
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.paired import tango
from scouter.evaluate.statistics.permutation import Stratum, fall_p_value
from scouter.evaluate.statistics.proportion import newcombe_difference

WHOLE_LEVEL: Final = 0.04
"""Level of whole records or conversations; that of scenarios is in `asking`."""

REST_LEVEL: Final = 0.003
"""Level of all other rates together. With that of the scores an unchanged run stops in 5 % at
most."""

PAIRED: Final = "exact permutation test, Tango interval"
CLUSTERED: Final = "exact permutation test of attempts, Tango interval at the effective size"
UNPAIRED: Final = "exact permutation test, Newcombe interval (records could not be paired)"
NO_TEST: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """Test of one tally alone, before it is corrected for the number of tallies."""

    method: str
    clusters: int = 0
    difference: float
    interval: Interval = (-1.0, 1.0)
    p_value: float | None = None
    limit: float = 1.0


def judge(tallies: Sequence[Tally], release: int = 1) -> tuple[RateComparison, ...]:
    """Judge all rows of one comparison together.

    Whole scenarios have a level of their own; all other rates share one by Holm's correction.

    Args:
        tallies: Whole scenarios or conversations, tasks, and the sums over them.
        release: Number of the release that is compared with one baseline; divides the levels.

    Returns:
        One row per tally, in order.
    """
    tests = [_test(tally) for tally in tallies]
    shared = [
        at
        for at, tally in enumerate(tallies)
        if tally.task_id not in WHOLE and tests[at].p_value is not None
    ]
    p_values = [test.p_value for test in tests]
    corrected = holm([p for at in shared if (p := p_values[at]) is not None])
    adjusted = p_values.copy()
    for at, p_value in zip(shared, corrected, strict=True):
        adjusted[at] = p_value
    return tuple(
        _row(tally, test, p_value, len(shared), release)
        for tally, test, p_value in zip(tallies, tests, adjusted, strict=True)
    )


def _test(tally: Tally) -> _Test:
    change = tally.new_rate - tally.old_rate
    strata = [each for each in tally.tested() if each.old and each.new]
    if not tally.old_count or not strata:
        return _Test(method=NO_TEST, difference=change if tally.old_count else 0.0)
    p_value = fall_p_value(strata) if tally.own_test is None else tally.own_test[0]
    if tally.is_apart:
        counts = tally.old_passed, tally.old_count, tally.new_passed, tally.new_count
        return _Test(
            method=UNPAIRED,
            clusters=len(strata[0].old) + len(strata[0].new),
            difference=change,
            interval=newcombe_difference(*counts),
            p_value=p_value,
            limit=max(0.0, -newcombe_difference(*counts, 2 * CONFIDENCE - 1)[0]),
        )
    fell, rose = net(strata)
    method, difference, interval = _interval(tally, change)
    return _Test(
        method=method,
        clusters=len(strata),
        difference=difference,
        interval=interval,
        p_value=p_value,
        limit=fall_limit(fell, rose, len(strata)),
    )


def net_fall(tally: Tally) -> float:
    """Mean over the scenarios of how far their own rates fell; negative for a rise."""
    strata = [each for each in tally.tested() if each.old and each.new]
    fell, rose = net(strata)
    return (fell - rose) / len(strata) if strata else 0.0


def net(strata: Sequence[Stratum]) -> tuple[float, float]:
    """Sum the falls, and the rises, of the scenarios' own rates."""
    fell = rose = 0.0
    for old, new in strata:
        if len(old) == len(new) == 1 and old[0] == new[0]:
            continue  # most of many are so
        difference = float(sum(new) / len(new) - sum(old) / len(old))
        fell, rose = fell - min(difference, 0.0), rose + max(difference, 0.0)
    return fell, rose


def _interval(tally: Tally, difference: float) -> tuple[str, float, Interval]:
    """Method, difference and interval over the pairs."""
    clusters = tally.cluster_counts()
    if clusters is not None:
        found = compare_clusters(clusters)
        return CLUSTERED, found.difference, found.interval
    if not tally.pairs:
        return PAIRED, difference, (-1.0, 1.0)
    interval = tango(tally.fell, tally.rose, tally.pairs)
    return PAIRED, (tally.rose - tally.fell) / tally.pairs, interval


def _row(
    tally: Tally, test: _Test, adjusted: float | None, family: int, release: int
) -> RateComparison:
    is_whole = tally.task_id in WHOLE
    level = (WHOLE_LEVEL if is_whole else REST_LEVEL) / release
    if tally.own_test is not None:
        level = tally.own_test[1]
    rejected = adjusted is not None and adjusted <= level
    return RateComparison(
        alias=tally.alias,
        task_id=tally.task_id,
        baseline_passed=tally.old_passed,
        baseline_count=tally.old_count,
        comparison_passed=tally.new_passed,
        comparison_count=tally.new_count,
        baseline_pass_rate=tally.old_rate,
        comparison_pass_rate=tally.new_rate,
        baseline_interval=wilson(tally.old_passed, tally.old_count),
        comparison_interval=wilson(tally.new_passed, tally.new_count),
        pairs=tally.pairs,
        clusters=test.clusters,
        fell=tally.fell,
        rose=tally.rose,
        missing=tally.missing,
        difference=test.difference,
        interval=test.interval,
        method=test.method,
        p_value=test.p_value,
        adjusted_p=adjusted,
        level=level,
        fall_limit=test.limit,
        regressed=rejected,
        is_cleared=test.p_value is not None and test.p_value > CLEARED,
        reason=_reason(tally, test, adjusted, 1 if is_whole else family, rejected=rejected),
    )


def _reason(
    tally: Tally, test: _Test, adjusted: float | None, family: int, *, rejected: bool
) -> str:
    if adjusted is None:
        return _untested(tally)
    most = max(tally.old_count, tally.new_count)
    is_repeated = tally.task_id == WHOLE_SCENARIOS and most > test.clusters
    noun = " attempts" if is_repeated else ""
    parts = [
        f"{tally.old_passed} of {tally.old_count}{noun} before, {tally.new_passed} of "
        f"{tally.new_count} now"
    ]
    if tally.missing and not tally.is_apart:
        parts.append(f"{tally.missing} missing now, counted as not passed")
    if test.clusters < ENOUGH:
        return "; ".join([*parts, too_few(test.clusters)])
    around = ""
    if not rejected or test.interval[1] < 0:  # it is of the pairs, and more attempts may decide
        low, high = (_bound(bound) for bound in test.interval)
        around = f" (95 % {low} to {high})"
    parts.append(f"difference {points(test.difference)}{around}")
    corrected = f" after Holm over {family} rates" if family > 1 else ""
    return "; ".join([*parts, f"p {p_text(adjusted)}{corrected}"])


def too_few(conversations: int) -> str:
    """Text shown in place of an interval and a p-value below six conversations."""
    if conversations == 1:
        return "1 conversation is too few for an interval"
    return f"{conversations} conversations are too few for an interval"


def _untested(tally: Tally) -> str:
    if not tally.old_count:
        return "new: the baseline has no result to compare with"
    if tally.new_count:
        return "the runs have no conversation in common that was judged in both"
    return "the new run has no result to compare"


def points(share: float) -> str:
    """Write a difference in percentage points."""
    return f"{share * 100:+.1f} points".replace("-", "\u2212") if share else "0 points"


def _bound(share: float) -> str:
    text = f"{share * 100:+.0f}"
    return "0" if text in {"+0", "-0"} else text.replace("-", "\u2212")
