"""Reports: rate and evidence of a series over time, its alarms, and how far mixes moved."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scouter.drift.history.replay import Alarm, History, Mix, Recorder
from scouter.drift.series.series import Kind
from scouter.evaluate.intervals import wilson
from scouter.evaluate.statistics.explained import Origin

_EXPECTED: Final = 5.0
"""Names with a smaller expected count on either side are tested as one (Cochran 1954)."""
_ADDED: Final = 0.5
"""Added to each count, so that a name that is new has no infinite weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of one name, in [0, 1], before and since."""

    name: str
    before: float
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The distance of two mixes."""

    psi: float
    """Population stability index, 0 or more; above 0.25 is commonly called a shift."""
    jensen_shannon: float
    """Divergence of Jensen and Shannon in bits, in [0, 1]."""
    chance: float | None
    """Chance of a distance like this by lot, in [0, 1], if calls were independent of each other;
    None where too few are known."""
    shares: tuple[Share, ...]
    """By name, the one that moved most first."""


def moved(before: Mapping[str, int], since: Mapping[str, int]) -> Moved | None:
    """Compare two mixes.

    Args:
        before: Counts by name.
        since: Counts by name.

    Returns:
        None where one of them is empty: nothing is known then.

    Source: Jensen-Shannon divergence, Lin 1991, doi:10.1109/18.61115; the index is the symmetric
        divergence of Jeffreys, here of counts with a half added to each. The test is the
        chi-square test of homogeneity, Pearson 1900.
    """
    names = sorted({*before, *since})
    totals = sum(before.values()), sum(since.values())
    if not all(totals):
        return None
    shares = [
        Share(name=n, before=before.get(n, 0) / totals[0], since=since.get(n, 0) / totals[1])
        for n in names
    ]
    return Moved(
        psi=math.fsum(
            (q - p) * math.log(q / p)
            for p, q in zip(_smooth(before, names), _smooth(since, names), strict=True)
        ),
        jensen_shannon=math.fsum(
            (_bits(each.before, each.since) + _bits(each.since, each.before)) / 2 for each in shares
        ),
        chance=_chance(before, since),
        shares=tuple(sorted(shares, key=lambda each: (-abs(each.since - each.before), each.name))),
    )


def _smooth(counts: Mapping[str, int], names: list[str]) -> list[float]:
    total = sum(counts.values()) + _ADDED * len(names)
    return [(counts.get(name, 0) + _ADDED) / total for name in names]


def _bits(share: float, other: float) -> float:
    """The part of a name in the divergence from the middle of both."""
    return share * math.log2(2 * share / (share + other)) if share else 0.0


def _chance(before: Mapping[str, int], since: Mapping[str, int]) -> float | None:
    """The p-value of the chi-square test of two samples."""
    totals = sum(before.values()), sum(since.values())
    smaller = min(totals) / sum(totals)
    cells: list[tuple[int, int]] = []
    rest = (0, 0)
    for name in sorted({*before, *since}):
        cell = before.get(name, 0), since.get(name, 0)
        if sum(cell) * smaller >= _EXPECTED:
            cells.append(cell)
        else:
            rest = rest[0] + cell[0], rest[1] + cell[1]
    if sum(rest) * smaller >= _EXPECTED:
        cells.append(rest)
    retained = [sum(column) for column in zip(*cells, strict=True)]
    if len(cells) < 2 or not all(retained):
        return None
    statistic = math.fsum(
        (count - sum(cell) * total / sum(retained)) ** 2 / (sum(cell) * total / sum(retained))
        for cell in cells
        for count, total in zip(cell, retained, strict=True)
    )
    return _chi_square_tail(statistic, len(cells) - 1)


def _chi_square_tail(statistic: float, freedom: int) -> float:
    """P(chi-square of `freedom` degrees >= statistic), by the finite sums for whole degrees.

    Source: Abramowitz and Stegun 26.4.4 and 26.4.5.
    """
    if statistic <= 0:
        return 1.0
    half = statistic / 2
    powers = [freedom / 2 - step for step in range(1, freedom // 2 + 1)]
    terms = (math.exp(k * math.log(half) - half - math.lgamma(k + 1)) for k in powers)
    return min(1.0, math.fsum(terms) + (math.erfc(math.sqrt(half)) if freedom % 2 else 0.0))


BUCKETS: Final = 60


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
    origin: Origin | None
    """Of the last alarm's fall; None without an alarm, or where too little is known."""
    words: str
    """The references of the series."""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Alarms on history as it is."""
        return self.series.alarms


def report_of(each: Recorder, history: History) -> SeriesReport:
    """Look at one series of a replay.

    Args:
        each: The series.
        history: Has the results that explain its last fall.

    Cost: one more replay of its outcomes.
    """
    bucket_ns = _bucket_ns(each)
    origin: Origin | None = None
    if each.alarms and each.key.kind is Kind.PASS:
        origin = history.explain(each.key, each.alarms[-1].fall.since_ns)
    against = "; ".join(watch.reference.sentence() for watch in each.watches)
    return SeriesReport(
        series=each,
        bucket_ns=bucket_ns,
        buckets=_buckets(each, bucket_ns),
        origin=origin,
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
        series.take(*unit[:4], created_ns=unit.created_ns)
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
