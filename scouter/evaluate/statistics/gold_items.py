"""Gold items in live traffic: is it the judge that drifts, or the agent?

A falling pass rate has two causes that look alike from outside. Items whose right outcome is known,
slipped in among the others, tell them apart: the agent never sees these, so that only the judge
can change what becomes of them.
"""

import math
from dataclasses import dataclass
from typing import Final

from scouter.evaluate.intervals import Interval
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CannotSay,
    Correction,
    DrawnLabels,
    JudgeCounts,
    corrected_rate,
)
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.power import power_of_rates, smallest_such_fall
from scouter.evaluate.statistics.proportion import CONFIDENCE, fisher_exact

LEVEL: Final = 0.01
"""False alarms per window: with one window a day, one in more than three months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDrift:
    """Comparison of a judge's outcomes on gold items with those at its calibration."""

    sensitivity_p: float
    """Chance of a difference as large by luck, corrected for there being two tests."""
    specificity_p: float
    level: float
    visible_fall: float | None
    """Smallest fall of the sensitivity that would have been seen with a chance of 0.8; None if
    any could have been missed."""

    @property
    def has_drifted(self) -> bool:
        """True if either differs by more than luck."""
        return min(self.sensitivity_p, self.specificity_p) <= self.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Changes between two windows: those of the judge, and those of the agent."""

    judge: JudgeDrift
    before: Correction
    """Share of good live records in the earlier window."""
    after: Correction
    difference: Interval
    """Interval of the later share less the earlier one; (-1, 1) where one cannot be determined."""
    has_agent_drifted: bool | None
    """None where the outcomes moved and it cannot be determined why."""
    sentence: str


def judge_drift(calibration: Confusion, gold: Confusion, level: float = LEVEL) -> JudgeDrift:
    """Hold the outcomes on a window's gold items against the calibration.

    Two of Fisher's exact tests, so that the calibration's own error is counted, and Holm's
    correction: a steady judge is called drifting in at most a share `level` of all windows.

    Args:
        calibration: The labelled items that the judge was calibrated on.
        gold: The window's gold items.
        level: Two-sided level for both tests together.

    Source: Fisher 1934; Holm 1979.
    """
    sensitivity_p, specificity_p = holm(
        [
            fisher_exact(calibration.good_passed, calibration.good, gold.good_passed, gold.good),
            fisher_exact(calibration.bad_failed, calibration.bad, gold.bad_failed, gold.bad),
        ]
    )
    rate = calibration.sensitivity
    fall = (
        smallest_such_fall(
            lambda fall: power_of_rates(calibration.good, gold.good, rate, fall, level / 2), rate
        )
        if rate
        else None
    )
    return JudgeDrift(
        sensitivity_p=sensitivity_p, specificity_p=specificity_p, level=level, visible_fall=fall
    )


def diagnose(
    calibration: Confusion,
    before: JudgeCounts,
    gold: Confusion,
    after: JudgeCounts,
    level: float = LEVEL,
    confidence: float = CONFIDENCE,
) -> Diagnosis:
    """Tell a judge that drifts from an agent that drifts.

    Each window's outcomes are corrected by that window's labels alone, so that nothing rests on
    the judge being steady. The agent is said to drift only where the interval of the difference
    leaves 0 out; a judge that is not *seen* to drift is no reason to blame the agent.

    Args:
        calibration: Labelled items at the start, chosen without a look at the judge's outcome.
        before: Live outcomes of the time that they are about.
        gold: Gold items of the window in question.
        after: Live outcomes of that window, gold items left out.
        level: Share of windows in which a steady judge, or a steady agent, may be called drifting.
        confidence: Of the intervals that are shown.

    Returns:
        The diagnosis; it says which it is in a sentence.

    Source: interval of the difference by MOVER, Zou and Donner 2008, doi:10.1002/sim.3095, as
        Newcombe's, from the intervals of the two corrected rates.
    """
    judge = judge_drift(calibration, gold, level)
    sets = DrawnLabels(counts=calibration), DrawnLabels(counts=gold)
    first = corrected_rate(sets[0], before, confidence)
    second = corrected_rate(sets[1], after, confidence)
    moved = fisher_exact(*before[:2], *after[:2]) <= level
    if isinstance(first, CannotSay) or isinstance(second, CannotSay):
        agent = None if moved or judge.has_drifted else False
    else:
        low, high = _difference(
            corrected_rate(sets[0], before, 1 - level), corrected_rate(sets[1], after, 1 - level)
        )
        agent = True if not low <= 0 <= high else None if moved and not judge.has_drifted else False
    return Diagnosis(
        judge=judge,
        before=first,
        after=second,
        difference=_difference(first, second),
        has_agent_drifted=agent,
        sentence=_sentence(judge, calibration, gold, agent),
    )


def _difference(first: Correction, second: Correction) -> Interval:
    if isinstance(first, CannotSay) or isinstance(second, CannotSay):
        return -1.0, 1.0
    (low, high), (new_low, new_high) = first.interval, second.interval
    middle = second.estimate - first.estimate
    return (
        max(-1.0, middle - math.hypot(second.estimate - new_low, high - first.estimate)),
        min(1.0, middle + math.hypot(new_high - second.estimate, first.estimate - low)),
    )


def _sentence(
    judge: JudgeDrift, calibration: Confusion, gold: Confusion, agent: bool | None
) -> str:
    if judge.has_drifted:
        parts = [
            f"{name} from {_share(*old)} to {_share(*new)}"
            for name, p_value, old, new in (
                (
                    "sensitivity",
                    judge.sensitivity_p,
                    (calibration.good_passed, calibration.good),
                    (gold.good_passed, gold.good),
                ),
                (
                    "specificity",
                    judge.specificity_p,
                    (calibration.bad_failed, calibration.bad),
                    (gold.bad_failed, gold.bad),
                ),
            )
            if p_value <= judge.level
        ]
        about_agent = {
            None: "whether the agent did, too, cannot be determined",
            True: "the agent did, too",
            False: "no drift of the agent is seen beside it",
        }
        return f"the judge drifted: {' and '.join(parts)}; {about_agent[agent]}"
    seen = (
        f"a fall of its sensitivity by {100 * judge.visible_fall:.0f} points would have been seen"
        if judge.visible_fall is not None
        else f"but {gold.total} gold items are too few to see even a large change"
    )
    if agent:
        return f"the agent drifted; the judge decides gold items as before ({seen})"
    if agent is None:
        return (
            f"the judge passes another share of the records than before, and {gold.total} gold "
            f"items are too few to tell whether it is the agent or the judge ({seen})"
        )
    return f"neither judge nor agent is seen to drift ({seen})"


def _share(count: int, total: int) -> str:
    return f"{count / total:.0%}" if total else "nothing"
