"""Slices of a fall: which tag, tool or model it is concentrated on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.drift.detect.baseline import of_passes
from scouter.drift.detect.detector import ALPHA, Design
from scouter.drift.detect.many import e_bh

_FEWEST: Final = 30
"""Results before the fall without which nothing is known of a slice."""
_LARGEST: Final = 460.0
"""Largest logarithm of evidence that is told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Counts of the results that have something in common, before a fall and since."""

    name: str
    passed_before: int
    failed_before: int
    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A slice whose own fall stands among all slices."""

    slice: Slice
    rate_before: float
    rate: float
    weight: float
    """Its part of the whole fall: its own fall times its share of the results since."""
    evidence: float


def culprits(slices: Sequence[Slice], total: int, alpha: float = ALPHA) -> list[Culprit]:
    """Rank the slices that fell.

    Args:
        slices: Any, also ones that overlap.
        total: Results since the fall, in slices or not.
        alpha: Allowed share of slices that are named for nothing, in (0, 1).

    Returns:
        Those that stand by e-BH, the one that makes the most of the fall first.

    Cost: eight logarithms for each slice.
    """
    known = [
        s for s in slices if s.passed_before + s.failed_before >= _FEWEST and s.passed + s.failed
    ]
    evidence = [_evidence(each, alpha) for each in known]
    stands = e_bh(evidence, alpha) if known else ()
    found = [
        _culprit(each, value, total)
        for each, value, is_named in zip(known, evidence, stands, strict=True)
        if is_named
    ]
    return sorted(found, key=lambda each: (-each.weight, each.slice.name))


def _evidence(each: Slice, alpha: float) -> float:
    """Evidence against the lower bound of the rate before, as an e-value."""
    before = of_passes(each.passed_before, each.passed_before + each.failed_before, alpha)
    if not 0 < before.lower < 1:
        return 0.0
    design = Design(healthy=before.lower, alpha=alpha)
    logs = [
        math.log(weight) + each.passed * math.log(good) + each.failed * math.log(bad)
        for weight, good, bad in zip(design.weights, design.on_pass, design.on_fail, strict=True)
    ]
    return math.fsum(math.exp(min(value, _LARGEST)) for value in logs)


def _culprit(each: Slice, evidence: float, total: int) -> Culprit:
    rate_before = each.passed_before / (each.passed_before + each.failed_before)
    rate = each.passed / (each.passed + each.failed)
    share = (each.passed + each.failed) / total
    return Culprit(
        slice=each,
        rate_before=rate_before,
        rate=rate,
        weight=(rate_before - rate) * share,
        evidence=evidence,
    )
