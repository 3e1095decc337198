"""From counts to verdicts: test, correct for many tasks, and say it in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scouter.evaluate.compare.counts import Tally
from scouter.evaluate.compare.verdict import ALL_TASKS, WHOLE_SCENARIOS, TaskVerdict, Verdict
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.clustered import Cluster, compare_clusters
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.paired import mcnemar_exact, tango
from scouter.evaluate.statistics.power import (
    ALPHA,
    POWER,
    power_of_pairs,
    power_of_rates,
    smallest_fall,
    smallest_such_fall,
)
from scouter.evaluate.statistics.proportion import fisher_exact, newcombe_difference

DEFAULT_MARGIN: Final = 0.05
"""Difference taken for none where the threshold is 0, as no run can show a difference of 0."""

PAIRED: Final = "exact McNemar test, Tango interval"
CLUSTERED: Final = "exact sign-flip test by conversation, Tango interval at the effective size"
UNPAIRED: Final = "Fisher's exact test, Newcombe interval (records could not be paired)"
NO_TEST: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """What can be said of one tally before the others are looked at."""

    method: str
    fell: int = 0
    rose: int = 0
    pairs: int = 0
    clusters: int = 0
    difference: float
    interval: Interval = (-1.0, 1.0)
    p_value: float | None = None
    effective_pairs: int = 0
    sizes: tuple[int, int] = (0, 0)
    """Results of both runs, where they are not paired."""
    old_rate: float = 0.0

    def power(self, fall: float, alpha: float) -> float:
        """Chance that a fall of this size would have been reported."""
        if self.p_value is None:
            return 0.0
        if self.method is UNPAIRED:
            return power_of_rates(*self.sizes, self.old_rate, fall, alpha)
        if not self._can_reject(alpha):
            return 0.0
        churn = self._churn()
        return power_of_pairs(self.effective_pairs, min(fall, 1 - 2 * churn), churn, alpha)

    def smallest(self, alpha: float) -> float | None:
        """Smallest fall that would have been reported with a power of 0.8."""
        if self.p_value is None:
            return None
        if self.method is UNPAIRED:
            reported = partial(power_of_rates, *self.sizes, self.old_rate, alpha=alpha)
            return smallest_such_fall(lambda fall: reported(fall=fall), self.old_rate)
        if not self._can_reject(alpha):
            return None
        return smallest_fall(self.effective_pairs, self._churn(), alpha)

    def _churn(self) -> float:
        """Share of pairs that change either way by chance: as many as changed both ways."""
        return min(self.fell, self.rose) / self.pairs

    def _can_reject(self, alpha: float) -> bool:
        """Tell whether even all conversations falling would be reported."""
        return self.clusters > 1 and mcnemar_exact(self.clusters, 0) <= alpha


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The rows that are corrected together."""

    size: int
    noun: str


def judge(tallies: Sequence[Tally], threshold: float) -> tuple[TaskVerdict, ...]:
    """Judge all rows of one comparison together.

    Tasks are corrected among the tasks and sums among the sums. Each family is held to 5 % in both
    directions together, so about 2.5 % of unchanged runs get a false regression from either.

    Args:
        tallies: The tasks, and the sums over them.
        threshold: Smallest fall of a pass rate that counts, in [0, 1].

    Returns:
        One verdict per tally, in order.
    """
    tests = [_test(tally) for tally in tallies]
    rows: dict[int, TaskVerdict] = {}
    for is_sum in (True, False):
        places = [at for at, tally in enumerate(tallies) if _is_sum(tally) is is_sum]
        p_values = {at: p for at in places if (p := tests[at].p_value) is not None}
        adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        family = _Family(size=max(len(adjusted), 1), noun="rates" if is_sum else "tasks")
        for at in places:
            rows[at] = _row(tallies[at], tests[at], adjusted.get(at), family, threshold)
    return tuple(rows[at] for at in range(len(tallies)))


def overall(rows: Sequence[TaskVerdict]) -> tuple[Verdict, str]:
    """Sum the rows of a comparison up.

    A regression in any row is one of the run. Otherwise the sums (per alias, and the scenarios)
    say whether there is enough data: each single task seldom has enough.

    Returns:
        The verdict, and the same in words.
    """
    worse = [row for row in rows if row.verdict is Verdict.REGRESSED]
    if worse:
        named = [row for row in worse if not row.is_sum] or worse
        first = min(named, key=lambda row: row.difference)
        more = f"; and {len(named) - 1} more" if len(named) > 1 else ""
        return Verdict.REGRESSED, f"{label(first)}: {first.reason}{more}"
    sums = [row for row in rows if row.is_sum and row.baseline_count]
    if not sums:
        return Verdict.NOT_ENOUGH_DATA, "the runs have nothing in common that could be compared"
    short = [row for row in sums if row.verdict is Verdict.NOT_ENOUGH_DATA]
    if short:
        return Verdict.NOT_ENOUGH_DATA, f"{label(short[0])}: {short[0].reason}"
    better = [row for row in rows if row.verdict is Verdict.IMPROVED]
    if better:
        first = max(better, key=lambda row: row.difference)
        return Verdict.IMPROVED, f"{label(first)}: {first.reason}"
    return Verdict.UNCHANGED, f"{label(sums[0])}: {sums[0].reason}"


def label(row: TaskVerdict) -> str:
    """Name a row for people."""
    if row.task_id == WHOLE_SCENARIOS:
        return "scenarios"
    if row.task_id == ALL_TASKS:
        return "all tasks" if not row.alias else f"alias {row.alias!r}, all tasks"
    return f"task {row.task_id!r}" + (f" of {row.alias!r}" if row.alias else "")


def _is_sum(tally: Tally) -> bool:
    return tally.task_id in {ALL_TASKS, WHOLE_SCENARIOS}


def _test(tally: Tally) -> _Test:
    old_rate = tally.old_passed / tally.old_count if tally.old_count else 0.0
    new_rate = tally.new_passed / tally.new_count if tally.new_count else 0.0
    clusters, pairs = tally.cluster_counts(), tally.pairs
    if not pairs:
        return _Test(method=NO_TEST, difference=new_rate - old_rate if tally.old_count else 0.0)
    if pairs == tally.missing and tally.new_count:
        return _test_unpaired(tally, clusters is not None, new_rate - old_rate, old_rate)
    if clusters is not None:
        return _test_clusters(tally, clusters)
    return _Test(
        method=PAIRED,
        fell=tally.fell,
        rose=tally.rose,
        pairs=pairs,
        clusters=pairs,
        difference=(tally.rose - tally.fell) / pairs,
        interval=tango(tally.fell, tally.rose, pairs),
        p_value=mcnemar_exact(tally.fell, tally.rose),
        effective_pairs=pairs,
    )


def _test_clusters(tally: Tally, clusters: Sequence[Cluster]) -> _Test:
    found = compare_clusters(clusters)
    return _Test(
        method=CLUSTERED,
        fell=tally.fell,
        rose=tally.rose,
        pairs=tally.pairs,
        clusters=len(clusters),
        difference=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        effective_pairs=int(found.effective_pairs + 1e-9),
    )


def _test_unpaired(tally: Tally, is_clustered: bool, difference: float, old_rate: float) -> _Test:
    """No record of one run is in the other. Conversations cannot be told apart then."""
    if is_clustered:
        return _Test(method=NO_TEST, difference=difference)
    counts = tally.old_passed, tally.old_count, tally.new_passed, tally.new_count
    return _Test(
        method=UNPAIRED,
        difference=difference,
        interval=newcombe_difference(*counts),
        p_value=fisher_exact(*counts),
        sizes=(tally.old_count, tally.new_count),
        old_rate=old_rate,
    )


def _row(
    tally: Tally, test: _Test, adjusted: float | None, family: _Family, threshold: float
) -> TaskVerdict:
    margin = threshold or DEFAULT_MARGIN
    alpha = ALPHA / family.size
    power = test.power(margin, alpha)
    verdict = _verdict(test, adjusted, margin, power)
    smallest = test.smallest(alpha)
    return TaskVerdict(
        alias=tally.alias,
        task_id=tally.task_id,
        baseline_passed=tally.old_passed,
        baseline_count=tally.old_count,
        comparison_passed=tally.new_passed,
        comparison_count=tally.new_count,
        baseline_pass_rate=tally.old_passed / tally.old_count if tally.old_count else 0.0,
        comparison_pass_rate=tally.new_passed / tally.new_count if tally.new_count else 0.0,
        baseline_interval=wilson(tally.old_passed, tally.old_count),
        comparison_interval=wilson(tally.new_passed, tally.new_count),
        pairs=test.pairs,
        clusters=test.clusters,
        fell=test.fell,
        rose=test.rose,
        missing=tally.missing,
        difference=test.difference,
        interval=test.interval,
        method=test.method,
        p_value=test.p_value,
        adjusted_p=adjusted,
        smallest_difference=smallest,
        power=power,
        verdict=verdict,
        reason=_reason(tally, test, adjusted, family, verdict, margin, smallest),
    )


def _verdict(test: _Test, adjusted: float | None, margin: float, power: float) -> Verdict:
    """Apply the rules of `docs/comparison.md`."""
    if adjusted is None:
        return Verdict.NOT_ENOUGH_DATA
    is_small = -margin < test.interval[0] and test.interval[1] < margin
    if adjusted <= ALPHA:
        if is_small:
            return Verdict.UNCHANGED
        return Verdict.REGRESSED if test.difference < 0 else Verdict.IMPROVED
    return Verdict.UNCHANGED if is_small and power >= POWER else Verdict.NOT_ENOUGH_DATA


def _reason(
    tally: Tally,
    test: _Test,
    adjusted: float | None,
    family: _Family,
    verdict: Verdict,
    margin: float,
    smallest: float | None,
) -> str:
    if adjusted is None or test.p_value is None:
        return _untested(tally)
    parts = [
        _changes(tally, test),
        f"difference {_points(test.difference)} (95 % {_bound(test.interval[0])} to "
        f"{_bound(test.interval[1])})",
        f"p {_p(adjusted)}"
        + (f" after Holm over {family.size} {family.noun}" if family.size > 1 else ""),
    ]
    if tally.missing and test.pairs:
        parts.insert(1, f"{tally.missing} missing now, counted as not passed")
    if verdict is Verdict.UNCHANGED:
        parts.append(f"a difference of {_size(margin)} points can be ruled out")
    if verdict is Verdict.NOT_ENOUGH_DATA:
        parts.append(_blind(smallest, margin))
    return "; ".join(parts)


def _untested(tally: Tally) -> str:
    if not tally.old_count:
        return "new: the baseline has no result to compare with"
    if tally.new_count:
        return "records could not be paired, and several belong to one conversation"
    return "the new run has no result to compare"


def _changes(tally: Tally, test: _Test) -> str:
    if test.method is UNPAIRED:
        return (
            f"{tally.old_passed} of {tally.old_count} passed before, {tally.new_passed} of "
            f"{tally.new_count} now"
        )
    among = "" if test.clusters == test.pairs else f" in {_conversations(test.clusters)}"
    return f"{test.fell} of {test.pairs} fell, {test.rose} rose{among}"


def _conversations(count: int) -> str:
    return "1 conversation" if count == 1 else f"{count} conversations"


def _blind(smallest: float | None, margin: float) -> str:
    if smallest is None:
        return "too few to see a fall of any size"
    if smallest <= margin:
        return f"a difference of {_size(margin)} points cannot be ruled out"
    return f"falls below {_size(smallest)} points would mostly go unseen, and {_size(margin)} count"


def _points(share: float) -> str:
    return f"{share * 100:+.1f} points".replace("-", "\u2212") if share else "0 points"


def _bound(share: float) -> str:
    text = f"{share * 100:+.0f}"
    return "0" if text in {"+0", "-0"} else text.replace("-", "\u2212")


def _size(share: float) -> str:
    return f"{share * 100:.3g}" if share < 1 else "100"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"
