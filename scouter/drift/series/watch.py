"""Watches: one series compared with one reference, through alarm and recovery."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from scouter.drift.detect.detector import Design, Detector
from scouter.drift.series.reference import REFERENCE, SPREADS, Reference
from scouter.drift.series.sample import BLOCK
from scouter.evaluate.intervals import wilson

_CLOSEST: Final = 1e-6
"""A recovery is bet on from a bound at least so far from 0 and 1."""


_UNSURE: Final = 5
"""The rate of a fall is known but for so small a part of the chance of a false alarm."""


class Mark(NamedTuple):
    """A moment in the life of a series."""

    at_ns: int
    """Time at which its next outcome came."""
    units: int
    """Outcomes before it."""
    total: float
    """Their sum."""
    records: int
    """Records in them."""
    failed: int
    """Number of them that failed."""


_EMPTY: Final[tuple[int, float, Mark | None]] = (0, 0.0, None)
"""A block without a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall that was proven, with the figures of now."""

    since_ns: int
    """Time at which the change most likely began."""
    records: int
    """Records since then."""
    failed: int
    """Number of them that failed."""
    units: int
    """Units since then."""
    mean: float
    """Their mean outcome, in [0, 1]."""
    evidence: float
    """Ratio of likelihoods; its inverse bounds the chance that a healthy series gets so far, given
    that the lower bound of the healthy mean holds."""
    reference: Reference
    run_length: float | None = None
    """Units between two false alarms on average, where that is what was promised."""


class Watch:
    """Evidence of one series against one reference.

    Args:
        reference: The healthy mean.
        run_length: See `Reference.design`.
    """

    __slots__ = (
        "_block", "_gap", "_hour", "_marks", "detector", "fall", "is_quick", "recovery",
        "reference", "run_length",
    )  # fmt: skip

    def __init__(self, reference: Reference, run_length: float | None = None) -> None:
        self.reference = reference
        self.run_length: Final = run_length
        self.is_quick = not reference.is_alike
        """It takes a pass by `take_pass` without more."""
        self._block = _EMPTY
        """Units of the block that grows, their sum, and the series before them."""
        self._hour = 0
        """Hour since 1970 of the last unit, where the reference is one of halves of the day."""
        self.detector = Detector(reference.design(run_length))
        self.recovery: Detector | None = None
        """Gathers evidence that the fall is over, while there is one."""
        self._gap = 0.0
        """How far below the healthy bound the mean has to be above for that."""
        self.fall: Mark | None = None
        """The beginning of the proven fall; None while none is proven."""
        self._marks: Sequence[Mark] = ()
        """By component of the detector the outcome after which the change may have started."""

    def turn(self, hour: int) -> None:
        """Compare with the half of the day that an hour since 1970 is in."""
        if self.reference.other is None:
            return
        was, self._hour = self._hour, hour
        if self.reference.lower_in(was) == self.reference.lower_in(hour):
            return
        self.detector.redesign(self._design)
        if self.recovery is not None:
            self.recovery.redesign(self._recovery_design)

    @property
    def _design(self) -> Design:
        return self.reference.design(self.run_length, self._hour)

    @property
    def _recovery_design(self) -> Design:
        bound = self.reference.lower_in(self._hour) - self._gap
        bound = min(max(bound, _CLOSEST), 1 - _CLOSEST)
        return Design(healthy=1 - bound, alpha=self.reference.design().alpha)

    def take(self, outcome: float, before: Mark, after: Mark) -> bool:
        """Take the next outcome, which is below 1.

        Args:
            outcome: In [0, 1]; where the reference is one of single units, below 1.
            before: The series before it; its time is that of this outcome.
            after: The series with it.

        Returns:
            True if a fall is proven, or is proven to be over, with this one; `fall` says which.
        """
        if not self.is_quick:
            count, total, first = self._block
            count, total, first = count + 1, total + outcome, first or before
            if count < BLOCK:
                self._block = (count, total, first)
                return False
            self._block = _EMPTY
            outcome, before = min(1.0, total / BLOCK), first
            if outcome == 1:
                return self.take_pass()
        self._take_bad(outcome, before, after)
        if self.fall is None and self.detector.is_alarmed:
            self._open(after)
            return True
        return self.recovery is not None and self.take_recovery(outcome)

    def take_pass(self) -> bool:
        """Take an outcome of 1; True if a fall is proven to be over with it."""
        self.detector.update(1)
        return self.recovery is not None and self.take_recovery(1)

    def take_recovery(self, outcome: float) -> bool:
        """Let the recovery take an outcome; True if the fall is proven to be over."""
        assert self.recovery is not None  # noqa: S101 checked before, as it is once for each record
        # A pass is the outcome 0 of the recovery, at which its evidence rises.
        if not self.recovery.update(1 - outcome):
            return False
        self.restart()
        return True

    def _take_bad(self, outcome: float, before: Mark, after: Mark) -> None:
        count, known = self.detector.count, self._marks or (before,) * len(self.detector.starts)
        old = self.detector.starts
        self.detector.update(outcome)
        self._marks = tuple(
            [
                mark if start == was else before if start <= count else after
                for mark, was, start in zip(known, old, self.detector.starts, strict=True)
            ]
        )

    def _open(self, now: Mark) -> None:
        """Note the fall, and begin to look for its end.

        The recovery bets that the mean is above the middle between the healthy one and that of the
        fall: an agent that stays below it resolves the alarm with chance alpha, however long.
        """
        # The alarm is at a bad outcome, so that no pass waits to be taken into account.
        fall = self._marks[self.detector.starts.index(self.detector.changed_after)]
        # The mean of the few records that proved the fall is lower than the agent's own: so the
        # upper end of its interval is taken, and never more than the healthy mean. The interval is
        # wide, as a bound below the agent's own rate resolves the alarm of one that stays bad.
        units, healthy = now.units - fall.units, self.detector.design.healthy
        confidence = 1 - self.detector.design.alpha / _UNSURE
        total = math.ceil(now.total - fall.total)
        if not self.is_quick:
            total, units = math.ceil(total / BLOCK), math.ceil(units / BLOCK)
        fallen = min(wilson(total, units, confidence)[1], healthy)
        self.fall, self._gap = fall, (healthy - fallen) / 2
        self.recovery = Detector(self._recovery_design)

    def prove(self, now: Mark) -> bool:
        """Note a fall at a bad outcome though the evidence has not reached the line of the watch.

        Returns:
            False where that outcome waits in a block of neighbours.
        """
        if self.detector.changed_after not in self.detector.starts:
            return False
        self._open(now)
        return True

    def refer(self, reference: Reference) -> None:
        """Compare with a better known healthy mean from the next outcome on.

        Args:
            reference: Taken from the outcomes so far. Its lower bound counts only where it is
                higher, so that a fall which is among these outcomes changes nothing. Where it found
                neighbours to be alike, a rate that moves by itself or halves of the day, it counts
                in any case: the evidence so far is none then.
        """
        is_smaller = self.reference.is_alike and not reference.is_alike
        is_larger = reference.is_alike and not self.reference.is_alike
        if not reference.is_usable or is_smaller:
            self.settle(is_early=reference.is_early)
        elif is_larger or reference.spread or reference.halves:
            self.reference, self.is_quick = reference, not reference.is_alike
            self.restart()
        elif reference.baseline.lower > self.reference.baseline.lower:
            self.reference = reference
            self.detector.redesign(self._design)
        else:
            self.settle(is_early=reference.is_early)

    def is_usual(self, own: Reference, now: Mark) -> bool:
        """Tell whether what two days show explains all that is below the reference.

        Args:
            own: Of two days of the series itself. They explain it by the time of day, if the better
                half of the day, and as much again as halves of the day vary around it, reaches the
                reference; or a fall by a rate that moves by itself, if so does the mean since then.
            now: The series now.
        """
        mean, swing = own.baseline.mean, SPREADS * own.spread
        if own.other is not None:
            swing += (mean - own.other.mean) / 2
        elif self.fall is None:
            return False
        else:
            mean = (now.total - self.fall.total) / (now.units - self.fall.units)
        return swing > 0 and mean >= self.reference.baseline.lower - swing

    def settle(self, *, is_early: bool = False) -> None:
        """Note whether the first days of its reference are over."""
        self.reference = replace(self.reference, is_early=is_early)

    def restart(self) -> None:
        """Forget the evidence, be there a fall or none; the reference stays."""
        self.detector = Detector(self._design)
        self.recovery, self.fall, self._marks = None, None, ()
        self._block = _EMPTY

    def figures(self, now: Mark) -> Fall | None:
        """The proven fall with the figures of now; None where none is proven."""
        if self.fall is None:
            return None
        return Fall(
            since_ns=self.fall.at_ns,
            records=now.records - self.fall.records,
            failed=now.failed - self.fall.failed,
            units=now.units - self.fall.units,
            mean=(now.total - self.fall.total) / (now.units - self.fall.units),
            evidence=self.detector.evidence,
            reference=self.reference,
            run_length=self.run_length,
        )

    def _marks_by_start(self) -> list[list[Any]]:
        marks = dict(zip(self.detector.starts, self._marks, strict=False))
        return [[start, *mark] for start, mark in sorted(marks.items())]

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        recovery = self.recovery
        return {
            "reference": REFERENCE.dump_python(self.reference, mode="json"),
            "run_length": self.run_length,
            "detector": self.detector.to_json(),
            "fall": self.fall,
            "recovery": None if recovery is None else recovery.to_json(),
            "gap": self._gap,
            "hour": self._hour,
            "marks": self._marks_by_start(),
            "block": self._block,
        }

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Watch":
        """Go on from a stored state."""
        found = Watch(REFERENCE.validate_python(state["reference"]), state["run_length"])
        found._gap, found._hour = state["gap"], state["hour"]
        found.detector = Detector.from_json(found._design, state["detector"])
        count, total, first = state["block"]
        found._block = (count, total, None if first is None else Mark(*first))
        found.fall = None if state["fall"] is None else Mark(*state["fall"])
        if state["recovery"] is not None:
            found.recovery = Detector.from_json(found._recovery_design, state["recovery"])
        marks = {start: Mark(*mark) for start, *mark in state["marks"]}
        if marks:
            found._marks = [marks[start] for start in found.detector.starts]
        return found
