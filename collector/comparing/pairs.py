"""Pairs of records of a side that still takes traffic: rates that hold at every look."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from scouter.evaluate.compare.rows import RateComparison
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.every_look import look_p_value, look_quantile
from scouter.evaluate.statistics.multiplicity import holm
from scouter.replay.reports.decision import Decision, Word

_QUANTILE: Final = NORMAL.inv_cdf(0.975)
_TINY: Final = 1e-300


def at_every_look(
    rates: Sequence[RateComparison], decision: Decision
) -> tuple[tuple[RateComparison, ...], Decision]:
    """Widen rates of one look, so that they hold at all looks together.

    Args:
        rates: With intervals and p-values of one look.
        decision: Made from them.

    Returns:
        The wider rates; and the decision, which is inconclusive if nothing but a rate spoke
        against the side and none does so surely enough for every look.
    """
    found = [_widened(row) for row in rates]
    rest = [row for row in found if row.adjusted_p is not None and not row.is_whole]
    adjusted = dict(zip(map(id, rest), holm([row.p_value or 0.0 for row in rest]), strict=True))
    wider = tuple(_decided(row, adjusted.get(id(row), row.p_value)) for row in found)
    spoke = [row.label for row in rates if row.regressed]
    is_alone = all(reason.startswith(tuple(spoke)) for reason in decision.reasons)
    if decision.word is not Word.REGRESSED or not is_alone or any(row.regressed for row in wider):
        return wider, decision
    return wider, replace(
        decision,
        word=Word.INCONCLUSIVE,
        reasons=tuple(f"not sure at every look: {reason}" for reason in decision.reasons),
        advice=("wait for more records, or compare up to a time that is past",),
        exit_code=3,
    )


def _widened(row: RateComparison) -> RateComparison:
    lower, upper = row.interval
    error = (upper - lower) / 2 / _QUANTILE
    if not row.has_interval or row.p_value is None or error <= 0:
        return row
    information = 1 / error**2
    factor = look_quantile(information) / _QUANTILE
    z = -NORMAL.inv_cdf(min(max(row.p_value, _TINY), 1 - 1e-15))
    wide = (
        max(-1.0, row.difference - factor * (row.difference - lower)),
        min(1.0, row.difference + factor * (upper - row.difference)),
    )
    return row.model_copy(
        update={"interval": wide, "p_value": look_p_value(z, information), "is_cleared": True}
    )


def _decided(row: RateComparison, adjusted: float | None) -> RateComparison:
    if row.adjusted_p is None or adjusted is None:
        return row
    return row.model_copy(update={"adjusted_p": adjusted, "regressed": adjusted <= row.level})
