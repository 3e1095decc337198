"""Reports: rate and evidence of a series over time, its alarms, and what explains them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.drift.detect.slices import Culprit, culprits
from scouter.drift.history.history import History, Mix
from scouter.drift.history.mix import Moved, moved
from scouter.drift.history.replay import Alarm, Recorder
from scouter.drift.series.series import Kind
from scouter.evaluate.intervals import wilson

BUCKETS: Final = 60
_CULPRITS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The outcomes of one stretch of time."""

    start_ns: int
    units: int
    rate: float
    """Mean of the units."""
    lower: float
    upper: float
    """Wilson interval (95 %) of that, for one look; no alarm comes of it."""
    evidence: float
    """The most that there was, as an e-value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesReport:
    """All about one series."""

    series: Recorder
    bucket_ns: int
    buckets: Sequence[Bucket]
    """Buckets with an outcome, by time."""
    explained: Sequence[Culprit]
    """Slices that fell since the last alarm's change point."""
    words: str
    """The references of the series."""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Alarms on history as it is."""
        return self.series.alarms


def report_of(each: Recorder, history: History, alpha: float) -> SeriesReport:
    """Look at one series of a replay.

    Args:
        each: The series.
        history: Has the slices.
        alpha: Chance of a false alarm, for the slices, too.

    Cost: one more replay of its outcomes.
    """
    bucket_ns = _bucket_ns(each)
    explained: list[Culprit] = []
    if each.alarms and each.key.kind is Kind.PASS:
        slices, total = history.slices(each.key, each.alarms[-1].fall.since_ns)
        explained = culprits(slices, total, alpha)[:_CULPRITS]
    against = "; ".join(watch.reference.sentence() for watch in each.watches)
    return SeriesReport(
        series=each,
        bucket_ns=bucket_ns,
        buckets=_buckets(each, bucket_ns),
        explained=explained,
        words=against or "nothing yet: it learns from its first 1,000 records",
    )


def mixes(
    history: History, since_ns: int, begin_ns: int | None, end_ns: int
) -> dict[Mix, Moved | None]:
    """Compare the calls of all agents of a space before a moment and since.

    Args:
        history: Has the calls.
        since_ns: The moment.
        begin_ns: Calls from then on; None for all.
        end_ns: Calls before.
    """
    return {
        mix: moved(history.calls(mix, begin_ns, since_ns), history.calls(mix, since_ns, end_ns))
        for mix in Mix
    }


def _bucket_ns(each: Recorder) -> int:
    units = each.units_taken
    return max(1, -(-(units[len(units) - 1].at_ns + 1 - units[0].at_ns) // BUCKETS))


def _buckets(each: Recorder, bucket_ns: int) -> list[Bucket]:
    """Replay the series, and note its evidence wherever it may have risen."""
    found: list[Bucket] = []
    series, begin_ns = each.anew(), each.units_taken[0].at_ns
    count, total, evidence, place = 0, 0.0, 0.0, 0
    for unit in each.units_taken:
        at = max(place, (unit.at_ns - begin_ns) // bucket_ns)
        if at > place and count:
            found.append(_bucket(begin_ns + place * bucket_ns, count, total, evidence))
            count, total, evidence = 0, 0.0, series.evidence
        place = at
        series.take(unit.outcome, unit.records, unit.failed, unit.at_ns)
        count += 1
        total += unit.outcome
        if unit.outcome < 1:
            evidence = max(evidence, series.evidence)
    found.append(_bucket(begin_ns + place * bucket_ns, count, total, evidence))
    return found


def _bucket(start_ns: int, count: int, total: float, evidence: float) -> Bucket:
    lower = wilson(math.floor(total), count)[0]
    upper = wilson(math.ceil(total), count)[1]
    return Bucket(
        start_ns=start_ns, units=count, rate=total / count, lower=lower, upper=upper,
        evidence=evidence,
    )  # fmt: skip
