"""Many series at once: which alarms still stand when all are looked at together."""

from collections.abc import Sequence


def e_bh(evidence: Sequence[float], alpha: float) -> tuple[bool, ...]:
    """Choose the series whose evidence stands among all of them.

    The share of false alarms among those chosen is at most `alpha` on average, however the series
    depend on each other, whenever one looks. For detectors with a bounded run length the same rule
    bounds the false alarms over the time that was allowed between two.

    Args:
        evidence: One e-value or detector per series, each 0 or more.
        alpha: Allowed share of false alarms, in (0, 1).

    Returns:
        True for those that stand, in the same order.

    Raises:
        ValueError: A value is negative, or the share is out of range.

    Cost: sorts once.
    Source: e-BH, Wang and Ramdas 2022, doi:10.1111/rssb.12489; for detectors Dandapanthula and
        Ramdas 2025, arXiv:2501.04130.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; expected a share between 0 and 1")
    if any(not value >= 0 for value in evidence):
        raise ValueError("evidence is 0 or more; one value is not")
    line = len(evidence) / alpha
    ranked = sorted(evidence, reverse=True)
    stands = max((rank for rank, value in enumerate(ranked, 1) if rank * value >= line), default=0)
    return tuple(bool(stands) and value * stands >= line for value in evidence)
