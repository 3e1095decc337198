"""Slices of a fall: the tags, tools, models, agents, routes or versions that it is about."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scouter.drift.detect.baseline import of_passes
from scouter.drift.detect.detector import ALPHA, Design
from scouter.drift.detect.many import e_bh

_FEWEST: Final = 30
"""Results before the fall without which nothing is known of a slice of its own."""
_APART: Final = 0.1
"""Part of the whole fall that a slice makes beyond the others, from which on it stands out."""
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
    """Its own, or that of all results where it is new."""
    rate: float
    weight: float
    """Its part of the whole fall: its own fall times its share of the results since."""
    evidence: float
    is_new: bool = False
    """It had too few results before, such as a new tool or version."""
    stands_out: bool = False
    """It fell by more than the results outside of it, or all of them are new: a model that every
    record uses, before and since, does not set the bad ones apart."""


def culprits(
    slices: Sequence[Slice], total: int, alpha: float = ALPHA, whole: Slice | None = None
) -> list[Culprit]:
    """Rank the slices that fell.

    Args:
        slices: Any, also ones that overlap.
        total: Results since the fall, in slices or not.
        alpha: Allowed share of slices that are named for nothing, in (0, 1).
        whole: All results; a slice without results before is held against those before the fall.
            Without it such a slice is left out.

    Returns:
        Those that stand by e-BH: first those that stand out, among them the one that makes the most
        of the fall first.

    Cost: eight logarithms for each slice.
    """
    usual = whole if whole is not None and _before(whole) >= _FEWEST else None
    known = [
        (each, each if _before(each) >= _FEWEST else usual)
        for each in slices
        if each.passed + each.failed
    ]
    pairs = [(each, before) for each, before in known if before is not None]
    evidence = [_evidence(each, before, alpha) for each, before in pairs]
    stands = e_bh(evidence, alpha) if pairs else ()
    found = [
        _culprit(each, before, value, total, whole)
        for (each, before), value, is_named in zip(pairs, evidence, stands, strict=True)
        if is_named
    ]
    return sorted(found, key=lambda each: (not each.stands_out, -each.weight, each.slice.name))


def _before(each: Slice) -> int:
    return each.passed_before + each.failed_before


def _since(each: Slice) -> int:
    return each.passed + each.failed


def _evidence(each: Slice, usual: Slice, alpha: float) -> float:
    """Evidence against the lower bound of the rate before, as an e-value."""
    before = of_passes(usual.passed_before, _before(usual), alpha)
    if not 0 < before.lower < 1:
        return 0.0
    design = Design(healthy=before.lower, alpha=alpha)
    logs = [
        math.log(weight) + each.passed * math.log(good) + each.failed * math.log(bad)
        for weight, good, bad in zip(design.weights, design.on_pass, design.on_fail, strict=True)
    ]
    return math.fsum(math.exp(min(value, _LARGEST)) for value in logs)


def _culprit(
    each: Slice, usual: Slice, evidence: float, total: int, whole: Slice | None
) -> Culprit:
    rate_before = usual.passed_before / _before(usual)
    rate = each.passed / (each.passed + each.failed)
    share = (each.passed + each.failed) / total
    return Culprit(
        slice=each,
        rate_before=rate_before,
        rate=rate,
        weight=(rate_before - rate) * share,
        evidence=evidence,
        is_new=usual is not each,
        stands_out=whole is not None and _stands_out(each, rate_before - rate, whole),
    )


def _stands_out(each: Slice, fall: float, whole: Slice) -> bool:
    """Tell whether a slice fell beyond the rest, by a tenth of the whole fall or more."""
    before, since = _before(whole) - _before(each), _since(whole) - _since(each)
    if not since:
        return not _before(each)  # all are new
    if not before:
        return False
    passed_before = whole.passed_before - each.passed_before
    rest = passed_before / before - (whole.passed - each.passed) / since
    total = whole.passed_before / _before(whole) - whole.passed / _since(whole)
    return (fall - max(0.0, rest)) * _since(each) / _since(whole) >= _APART * max(0.0, total)
