"""The decision on two runs: regressed, no regression seen, or inconclusive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scouter.evaluate.compare.rates import points
from scouter.evaluate.compare.rows import (
    WHOLE_SCENARIOS,
    ComparisonDecision,
    RateComparison,
)
from scouter.evaluate.results.confirmation import Confirmation

LARGE_FALL: Final = 0.2
"""Fall of the share of scenarios that pass which is never let go without a word."""

NEW_BASELINE: Final = "save a new baseline if that is meant"

_MORE_SCENARIOS: Final = (
    "ask the scenarios that failed again, as scouter eval --baseline does, or use more --repeats "
    "or scenarios"
)
_PLURALS: Final = {"scenario": "scenarios", "alias": "aliases", "task": "tasks"}
_EPSILON: Final = 1e-9
_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a decision is made of.

    Args:
        rows: All rates.
        primary: The row that says how large a fall is not ruled out: whole scenarios or
            conversations, or where there is none all tasks; None without any.
        fall: By how much its mean over scenarios fell, a share; negative for a rise.
        gone: Names that the baseline has and the new run lacks altogether, by their noun.
        open_fall: The fall without the scenarios that passed when they were asked again; None
            where none was asked again.
        confirmations: Results of the scenarios that were asked again.
    """

    rows: Sequence[RateComparison]
    primary: RateComparison | None
    fall: float = 0.0
    open_fall: float | None = None
    gone: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    confirmations: Sequence[Confirmation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision, with its reasons and what it leaves open.

    Args:
        decision: One of three.
        reason: One sentence or two.
        reasons: Everything that made it `regressed` or `inconclusive`, one each.
        ruled_out: A fall of more points than this is ruled out; None where nothing was compared.
        not_cleared: Names of rates that were not rejected, and that are worth a look.
    """

    decision: ComparisonDecision
    reason: str
    reasons: tuple[str, ...]
    ruled_out: float | None
    not_cleared: tuple[str, ...]


def decide_comparison(evidence: Evidence) -> Decided:
    """Come to a decision.

    Args:
        evidence: The rows, and what is known beside them.

    Returns:
        `regressed` if a rate is rejected, a scenario that was asked again is broken, or something
        of the baseline is gone; else `inconclusive` if whole scenarios fell by 20 points or more,
        which is not significant, and nobody was asked again, or if nothing could be compared;
        else `no regression seen`.
    """
    primary = evidence.primary
    ruled_out = None
    if primary is not None and primary.p_value is not None:
        ruled_out = 100 * primary.fall_limit
    open_rows = [row for row in evidence.rows if row.word == "not cleared"]
    worse = list(_worse(evidence))
    if worse:
        decision, reasons = ComparisonDecision.REGRESSED, worse
        reason = _listed(worse)
    elif (doubt := _doubt(evidence, ruled_out)) is not None:
        decision, reasons, reason = ComparisonDecision.INCONCLUSIVE, [doubt], doubt
    else:
        decision, reasons = ComparisonDecision.NO_REGRESSION, []
        reason = ruled_out_text(ruled_out or 0.0)
        if open_rows:
            reason += "; not cleared: " + _listed([_open(row) for row in open_rows])
    return Decided(
        decision=decision,
        reason=reason,
        reasons=tuple(reasons),
        ruled_out=ruled_out,
        not_cleared=tuple(row.label for row in open_rows),
    )


def ruled_out_text(limit: float) -> str:
    """Say how large a fall is ruled out, in points.

    Args:
        limit: The largest one that is not, in points.
    """
    return f"a fall of more than {limit:.1f} points is ruled out"


def _worse(evidence: Evidence) -> Iterator[str]:
    for found in evidence.confirmations:
        if found.is_broken:
            yield (
                f"scenario {found.scenario_id!r} is broken: it passed before, failed now, and "
                f"failed again each time that it was asked again ({found.asked})"
            )
    rejected = [row for row in evidence.rows if row.regressed]
    for row in sorted(rejected, key=lambda row: (not row.is_whole, row.difference)):
        yield f"{row.label}: {row.reason}"
    for noun, names in evidence.gone.items():
        if names:
            nouns = noun if len(names) == 1 else f"{len(names)} {_PLURALS[noun]}"
            yield f"gone from the new run: {nouns} {_listed(names, ', ')}; {NEW_BASELINE}"


def _doubt(evidence: Evidence, ruled_out: float | None) -> str | None:
    """Say why the evidence does not suffice; None if it does."""
    primary = evidence.primary
    if primary is None or ruled_out is None:
        return "the runs have nothing in common that could be compared"
    open_ones = [each for each in evidence.confirmations if not each.passed and not each.is_broken]
    if open_ones:
        told = [f"{each.scenario_id!r} ({each.asked} of {each.wanted})" for each in open_ones]
        return (
            f"not confirmed: {_listed(told, ', ')} failed and could not be asked again as often as "
            "that takes; run the check again"
        )
    fall = evidence.fall if evidence.open_fall is None else evidence.open_fall
    if min(fall, evidence.fall) < LARGE_FALL - _EPSILON or not primary.is_whole:
        return None
    advice = _MORE_SCENARIOS if primary.task_id == WHOLE_SCENARIOS else "compare more of them"
    return (
        f"{primary.label} fell by {100 * evidence.fall:.1f} points, which may be chance: "
        f"{primary.reason}; {advice}"
    )


def _open(row: RateComparison) -> str:
    low, high = (f"{100 * bound:+.0f}".replace("-", "\u2212") for bound in row.interval)
    around = f", 95 % {low} to {high}" if row.has_interval else ""
    return f"{row.label} ({points(row.difference)}{around})"


def _listed(texts: Sequence[str], separator: str = "; ") -> str:
    more = f"{separator}and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return separator.join(texts[:_NAMED]) + more
