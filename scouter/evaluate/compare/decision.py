"""The decision on two runs: regressed, no regression seen, or inconclusive."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scouter.evaluate.compare.asking import Trial
from scouter.evaluate.compare.checks import CheckChange, Fate
from scouter.evaluate.compare.rates import points
from scouter.evaluate.compare.rows import (
    LARGE_FALL,
    ComparisonDecision,
    RateComparison,
    ScoreChange,
)
from scouter.evaluate.results.run import Confirmation
from scouter.model.visible import some_of

NEW_BASELINE: Final = "save a new baseline with --save FILE if the change is meant"
READ: Final = "read the answers there, and calibrate the judge if they are as good as before"
CALIBRATE: Final = (
    "the judge gives other scores to the same answers: pin its model, and measure it with scouter "
    "judge calibrate --repeats 3"
)

_PLURALS: Final = {"alias": "aliases", "task": "tasks"}
_NOTHING_LEFT: Final = "nothing was compared, as all that both runs have was accepted as changed"
_EPSILON: Final = 1e-9
_NAMED: Final = 5
_FEWEST: Final = 8
"""Conversations below which no scores are sure to have fallen, as each may rise by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a decision is made of.

    Args:
        rows: All rates.
        primary: The row that says how large a fall is not ruled out: whole scenarios or
            conversations, or where there is none all tasks; None without any.
        fall: By how much its mean over scenarios fell, a share; negative for a rise.
        gone: Names that the baseline has and the new run lacks altogether, by their noun.
        scores: Scores of tasks.
        trial: Attempts at scenarios; None for records without scenarios.
        confirmations: Results of the scenarios that were asked again alone.
        changes: Checks that are not what they were in the baseline.
        is_unfinished: True if attempts that the rule requested were not made.
    """

    rows: Sequence[RateComparison]
    primary: RateComparison | None
    fall: float = 0.0
    gone: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    scores: Sequence[ScoreChange] = ()
    trial: Trial | None = None
    confirmations: Sequence[Confirmation] = ()
    changes: Sequence[CheckChange] = ()
    is_unfinished: bool = False


class Decided(NamedTuple):
    """A decision, by the fields that a `Conclusion` has for it."""

    decision: ComparisonDecision
    decision_reason: str
    decision_reasons: tuple[str, ...]
    advice: tuple[str, ...]
    ruled_out: float | None
    not_cleared: tuple[str, ...]


def decide_comparison(evidence: Evidence) -> Decided:
    """Come to a decision.

    Args:
        evidence: The rows, and what is known beside them.

    Returns:
        `regressed` if a rate is rejected, a score fell, a scenario is broken, or something of the
        baseline is gone; else `inconclusive` if a check changed that cannot be compared and nobody
        accepted it, if 20 points or more fell and chance may explain it, if the failures of a
        scenario are nearly enough, or if nothing, or too few scores, could be compared; else `no
        regression seen`.
    """
    primary = evidence.primary
    ruled_out = None
    if primary is not None and primary.p_value is not None:
        ruled_out = 100 * primary.fall_limit
    open_rows = [
        row for row in (*evidence.rows, *evidence.scores) if row.word == "not cleared"
    ]  # fmt: skip
    worse = list(_worse(evidence))
    changed = [_changed(each) for each in evidence.changes if each.is_open]
    doubt = None if changed and ruled_out is None else _doubt(evidence, ruled_out)
    advice: list[str] = []
    if worse:
        decision, reasons = ComparisonDecision.REGRESSED, [*worse, *changed]
        reason = _listed(reasons)
        fell = [score for score in evidence.scores if score.regressed]
        advice += dict.fromkeys(CALIBRATE if score.is_judges else READ for score in fell)
        advice.append(NEW_BASELINE)
    elif changed or doubt is not None:
        decision, reasons = ComparisonDecision.INCONCLUSIVE, changed
        reason = _listed(changed)
        if doubt is not None:
            reasons = [*changed, doubt.reason]
            reason = _listed([*changed, f"{doubt.reason}; {doubt.advice}"])
            advice.append(doubt.advice)
    else:
        decision, reasons = ComparisonDecision.NO_REGRESSION, []
        reason = _NOTHING_LEFT if ruled_out is None else ruled_out_text(ruled_out)
        if open_rows:
            reason += "; not cleared: " + _listed([_open(row) for row in open_rows])
    return Decided(
        decision=decision,
        decision_reason=reason,
        decision_reasons=tuple(reasons),
        advice=tuple(advice),
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
    rejected = [row for row in evidence.rows if row.regressed]
    for row in rejected:
        if row.is_whole:
            yield f"{row.label}: {row.reason}"
    if evidence.trial is not None:
        yield from broken_alone(evidence.trial).values()
        yield from _broken_together(evidence.trial)
    others = sorted((row for row in rejected if not row.is_whole), key=lambda row: row.difference)
    if others and len(others) < len(rejected):
        yield f"with them fell: {_listed([row.label for row in others if not row.is_sum], ', ')}"
    else:
        yield from (f"{row.label}: {row.reason}" for row in others)
    for score in evidence.scores:
        if score.regressed:
            yield f"{score.label} fell: {score.reason}; furthest in {score.furthest}"
    for noun, names in evidence.gone.items():
        if names:
            nouns = noun if len(names) == 1 else f"{len(names)} {_PLURALS[noun]}"
            yield f"gone from the new run: {nouns} {_listed(names, ', ')}"


def _broken_together(trial: Trial) -> Iterator[str]:
    found = trial.broken
    if found.together is not None:
        yield (
            f"{len(found.names)} scenarios that passed before have not passed once now; the chance "
            f"of so many at a time is {one_in(found.together)} if nothing changed"
        )


def broken_alone(trial: Trial) -> dict[str, str]:
    """Say of each scenario that is broken by its own failures alone, why."""
    found = trial.broken
    if found.together is not None:
        return {}
    return {
        name: f"scenario {name!r} is broken: it passed {sum(old)} of {len(old)} attempts before "
        f"and none of {trial.failures(name)} now; {_by_chance(found.chances[name])}"
        for name in found.names
        for old in (trial.baseline[name],)
    }


def _by_chance(chance: float) -> str:
    """Say how probable failures are."""
    return f"the chance of that is {one_in(chance)} if nothing changed"


def one_in(chance: float) -> str:
    """Write a small chance as people say it: 1 in 250."""
    if chance >= 0.5:
        return f"{chance:.0%}"
    odds = 1 / max(chance, 1e-9)
    digits = 10 ** max(math.floor(math.log10(odds)) - 1, 0)
    return f"1 in {round(odds / digits) * digits:,.0f}"


@dataclass(frozen=True, slots=True)
class _Doubt:
    reason: str
    advice: str


def _changed(change: CheckChange) -> str:
    return f"cannot clear {change.name}, which {change.done}: {change.advice}"


def _doubt(evidence: Evidence, ruled_out: float | None) -> _Doubt | None:
    """Say why the evidence does not suffice, and what would; None if it does."""
    primary, trial = evidence.primary, evidence.trial
    if primary is None or ruled_out is None:
        if any(each.fate is Fate.ACCEPTED for each in evidence.changes):
            return None
        return _Doubt(
            "the runs have nothing in common that could be compared",
            "compare runs of the same scenarios and profiles, or save a new baseline",
        )
    if unsettled := [each for each in evidence.confirmations if not each.is_settled]:
        names = _listed([f"{each.scenario_id!r} ({each.asked})" for each in unsettled], ", ")
        return _Doubt(
            f"not confirmed: {names} could not be asked again as often as it takes",
            "run the check again",
        )
    if evidence.is_unfinished:
        return _Doubt(
            "not decided: the first attempts leave a doubt, and the suite was not asked again as "
            "often as it takes",
            "run the check again",
        )
    if trial is not None and trial.broken.is_doubtful:
        name, chance = min(trial.broken.chances.items(), key=lambda item: item[1])
        return _Doubt(
            f"not confirmed: scenario {name!r} passed before and none of {trial.failures(name)} "
            f"attempts now; {_by_chance(chance)}",
            _advice(trial),
        )
    if doubts := [row for row in evidence.scores if row.is_unseen or row.is_doubtful]:
        return _score_doubt(doubts[0], trial)
    fall = evidence.fall if trial is None else trial.fall
    if fall < LARGE_FALL - _EPSILON or not primary.is_whole:
        return None
    return _Doubt(
        f"{primary.label} fell by {100 * fall:.1f} points, which may be chance: {primary.reason}",
        "compare more of them" if trial is None else _advice(trial),
    )


def _score_doubt(row: ScoreChange, trial: Trial | None) -> _Doubt:
    """Say why a score leaves a doubt, and what would settle it."""
    if row.is_unseen:
        return _Doubt(
            f"{row.label} cannot be compared: {row.reason}", "mend the judge, and run both again"
        )
    advice = f"compare at least {_FEWEST} scenarios; {row.conversations} are too few to tell"
    if row.conversations >= _FEWEST and trial is not None:
        advice = _advice(trial)
    return _Doubt(f"{row.label} fell, which may be chance: {row.reason}", advice)


def _advice(trial: Trial) -> str:
    """Name the run that would decide."""
    tries = max(map(len, trial.suite[0].values()))
    return (
        f"save a new baseline of the version before with --repeats {3 * tries}, and run the check "
        f"with --repeats {3 * tries}"
    )


def _open(row: RateComparison | ScoreChange) -> str:
    if isinstance(row, ScoreChange):
        return f"{row.label} ({row.reason})"
    low, high = (f"{100 * bound:+.0f}".replace("-", "\u2212") for bound in row.interval)
    around = f", 95 % {low} to {high}" if row.has_interval else ""
    return f"{row.label} ({points(row.difference)}{around})"


def _listed(texts: Sequence[str], separator: str = "; ") -> str:
    return some_of(texts, _NAMED, separator, separator)
