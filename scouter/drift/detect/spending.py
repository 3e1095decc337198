"""Shares of a detector's budget, one for each possible start of a change."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

FIRST: Final = 0.5
"""Share for a change before the first outcome, as of a release that is bad from the start."""
_SUM: Final = 2.1097428012368920
"""Sum of 1 / (m ln² m) over m from 2."""


class Start(StrEnum):
    """The starts of a change that a detector takes for possible."""

    SPENT = "spent"
    """At any time, by `spend`: the chance of ever alarming for nothing is bounded."""
    FIRST = "first"
    """Before the first outcome: the plain e-process, blind to later changes for long."""
    ALWAYS = "always"
    """At any time alike (e-SR): the average run length between false alarms is bounded."""


def spend(at: int) -> float:
    """Weigh the start of a change at the outcome with this number.

    Half of the budget is for the first outcome. The rest falls so slowly that a change after ten
    thousand outcomes costs 15 nats of evidence, and not more with each order of magnitude.

    Args:
        at: Number of the outcome, from 1.

    Returns:
        A weight above 0. All of them together are 1.

    Source: the spending sequence 1 / ((t + 1) ln²(t + 1)) in Lorden's reduction of detection to
        tests (Lorden 1971, doi:10.1214/aoms/1177693055).
    """
    log = math.log(at + 1)
    share = (1 - FIRST) / (_SUM * (at + 1) * log * log)
    return share + FIRST if at == 1 else share


_KNOWN: Final = [spend(at) for at in range(1, 4_097)]
"""The first weights: a logarithm for each outcome is a tenth of its cost."""


def weight_of(start: Start, at: int) -> float:
    """The weight of one outcome as a start; see `weights_of`."""
    if start is Start.SPENT:
        return _KNOWN[at - 1] if at <= len(_KNOWN) else spend(at)
    return 1.0 if start is Start.ALWAYS or at == 1 else 0.0


def weights_of(start: Start, first: int, count: int) -> Sequence[float]:
    """The weights of some outcomes as starts.

    Args:
        start: When a change may have started.
        first: Number of the first of them, from 1.
        count: How many.
    """
    if start is Start.SPENT:
        if first + count <= len(_KNOWN) + 1:
            return _KNOWN[first - 1 : first - 1 + count]
        return [spend(at) for at in range(first, first + count)]
    if start is Start.ALWAYS:
        return (1.0,) * count
    return [float(at == 1) for at in range(first, first + count)]
