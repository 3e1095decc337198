"""Canary: a candidate version compared with the stable one while both take traffic."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from scouter.drift.detect.split import log_evidence_of_another_split
from scouter.drift.detect.two_samples import Interval, Sample, difference
from scouter.drift.series.group import Pace

MARGIN: Final = 0.05
"""Fall that is accepted: without one no number of conversations could ever suffice."""
ALPHA: Final = 0.05
SPLIT_ALPHA: Final = 0.001
"""Chance of ever calling a right split wrong."""


class Decision(StrEnum):
    """Advice to whoever rolls out."""

    PROMOTE = "promote"
    HOLD = "hold"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One final result of a version."""

    session: str
    """Empty where the record stands for itself."""
    at_ns: int
    is_error: bool
    is_passed: bool
    is_skipped: bool
    """Not judged, as by a gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Conditions that a candidate has to meet.

    Args:
        margin: Fall of the rate that is accepted, in (0, 1).
        alpha: Chance of rolling back a candidate that is as good as the stable version, and of
            promoting one that falls by the margin; each at all looks together, in (0, 1).
        share: Part of the conversations that the candidate gets, in (0, 1); None if it changes.
    """

    margin: float = MARGIN
    alpha: float = ALPHA
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The results of one version: a unit is a conversation, or a record without one."""

    name: str
    units: int
    """Units, those that go on included."""
    records: int
    passes: Sample
    """Share of passed among passed and failed, of complete units."""
    decided: Sample
    """Share without an error among the records that were not skipped, of complete units."""
    answered: Sample
    """Share of records that were not skipped, of complete units."""
    is_cut: bool = False
    """Later results of it are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The decision and its grounds."""

    plan: Plan
    stable: Version
    candidate: Version
    passes: Interval
    """Difference of the pass rates, candidate minus stable, at 1 - alpha or more."""
    decided: Interval
    """Difference of the shares without an error."""
    answered: Interval
    """Difference of the shares with a result."""
    split: float | None
    """Chance at most that the split of traffic is the planned one; None without a plan, or where
    results are cut."""

    @property
    def is_cut(self) -> bool:
        """True where later results of a version are not read."""
        return self.stable.is_cut or self.candidate.is_cut

    @property
    def is_split_wrong(self) -> bool:
        """True where versions get other shares than planned, or results of one are lost."""
        return self.split is not None and self.split <= SPLIT_ALPHA

    @property
    def decision(self) -> Decision:
        """Advice on the candidate.

        A candidate that is proven worse is rolled back, also if results of it are missing. One
        whose fall is proven to be smaller than the margin is promoted while all results are read.
        """
        if self._worse():
            return Decision.ROLL_BACK
        must_wait = self.is_cut or self.is_split_wrong or not self._is_fine
        return Decision.HOLD if must_wait else Decision.PROMOTE

    @property
    def _is_fine(self) -> bool:
        """True where each fall is proven to be smaller than the margin."""
        return min(self.passes.lower, self.decided.lower, self.answered.lower) > -self.plan.margin

    def _worse(self) -> list[str]:
        """The falls that are proven, and not proven to be smaller than the margin.

        A share with a result has to fall beyond the margin: a candidate that is led to other
        tasks a little more often is not worse for it.
        """
        found = [
            text
            for each, text in ((self.passes, "passes less"), (self.decided, "has more errors"))
            if each.upper < 0 and each.lower <= -self.plan.margin
        ]
        return [*found, "has fewer results"] if self.answered.upper < -self.plan.margin else found

    @property
    def reason(self) -> str:
        """The grounds in one sentence."""
        grounds = self._grounds()
        cut = [
            f"the first {each.records:,} results of version {each.name}"
            for each in (self.stable, self.candidate)
            if each.is_cut
        ]
        if not cut:
            return grounds
        return (
            f"{grounds}, but this rests on {' and '.join(cut)}: later ones are not read; "
            "ask with a later start"
        )

    def _grounds(self) -> str:
        margin = f"{100 * self.plan.margin:.3g} points"
        if self._is_fine and not self.is_split_wrong and not self._worse():
            return f"any fall is smaller than {margin}"
        worse = self._worse()
        if worse:
            return f"the candidate {' and '.join(worse)}"
        if self.is_split_wrong:
            share = self.candidate.units / (self.candidate.units + self.stable.units)
            return (
                f"the candidate has {share:.1%} of the conversations, and {self.plan.share:.1%} "
                "were planned: results of a version are missing, or traffic is split otherwise"
            )
        missing = [each.name for each in (self.stable, self.candidate) if not each.answered.size]
        if missing:
            names = " and ".join(missing)
            return f"no complete conversation of version {names} since the canary began"
        if self.answered.lower <= -self.plan.margin and self.candidate.answered.mean < 1:
            return (
                "it is not proven that the share of records with a result falls by less than "
                f"{margin}; the task was skipped in the others, as by a gate"
            )
        return f"neither a fall nor its absence, to {margin}, is proven yet"


def decide(plan: Plan, stable: Version, candidate: Version) -> Canary:
    """Hold a candidate against the stable version.

    Raises:
        ValueError: The plan has a number out of range.

    Cost: that of `difference`, three times.
    """
    if not 0 < plan.margin < 1:
        raise ValueError(f"a margin of {plan.margin}; expected a share between 0 and 1")
    split = None
    # A version that is cut stands still while the other one goes on.
    if plan.share is not None and not (stable.is_cut or candidate.is_cut):
        log = log_evidence_of_another_split(stable.units, candidate.units, plan.share)
        split = math.exp(-max(log, 0.0))
    # A third of alpha for each of three ways to be rolled back: a bound of an interval is wrong
    # with half of the chance of the interval.
    passes, decided, answered = (
        difference(first, second, plan.alpha * 2 / 3)
        for first, second in (
            (stable.passes, candidate.passes),
            (stable.decided, candidate.decided),
            (stable.answered, candidate.answered),
        )
    )
    return Canary(
        plan=plan, stable=stable, candidate=candidate, passes=passes, decided=decided,
        answered=answered, split=split,
    )  # fmt: skip


def version_of(
    name: str, results: Iterable[Result], pace: Pace, now_ns: int, most: int | None = None
) -> Version:
    """Put the results of a version together to conversations.

    Args:
        name: The version.
        results: In the order of completion.
        pace: When a conversation is complete; what comes later is another one.
        now_ns: Time of the look.
        most: So many of the first results are read; all of them by default.
    """
    passes, decided, answered = (defaultdict[float, int](int) for _ in range(3))
    going: dict[str, _Conversation] = {}
    started = records = 0

    def close(unit: _Conversation) -> None:
        judged = unit.records - unit.skipped
        rated = judged - unit.errors
        if rated:
            passes[unit.passed / rated] += 1
        if judged:
            decided[rated / judged] += 1
        answered[judged / unit.records] += 1

    rest = iter(results)
    for result in islice(rest, most):
        records += 1
        unit = going.get(result.session) if result.session else None
        if unit is not None and unit.is_complete(pace, result.at_ns):
            close(going.pop(result.session))
            unit = None
        if unit is None:
            started += 1
            unit = _Conversation(first_ns=result.at_ns, last_ns=result.at_ns)
            if result.session:
                going[result.session] = unit
        unit.take(result)
        if not result.session:
            close(unit)
    for unit in going.values():
        if unit.is_complete(pace, now_ns):
            close(unit)
    return Version(
        name=name, units=started, records=records, passes=Sample(passes), decided=Sample(decided),
        answered=Sample(answered), is_cut=next(rest, None) is not None,
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Conversation:
    first_ns: int
    last_ns: int
    records: int = 0
    errors: int = 0
    passed: int = 0
    skipped: int = 0

    def is_complete(self, pace: Pace, now_ns: int) -> bool:
        """Tell whether it was quiet for long enough, or is as old as one may be."""
        return now_ns >= self.last_ns + pace.quiet_ns or now_ns >= self.first_ns + pace.deadline_ns

    def take(self, result: Result) -> None:
        """Count a result."""
        self.last_ns = max(self.last_ns, result.at_ns)
        self.records += 1
        self.errors += result.is_error
        self.passed += result.is_passed
        self.skipped += result.is_skipped
