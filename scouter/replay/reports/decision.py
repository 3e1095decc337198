"""What a release check comes to: one word, one sentence, the reasons and an exit code."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from scouter.evaluate.compare.gate_checks import (
    ALL_CHECKS,
    GateCheck,
    count_checks,
    statistical_gate,
)
from scouter.evaluate.compare.results import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.compare.verdict import Verdict
from scouter.evaluate.judge_totals import totals_of
from scouter.evaluate.lost import Lost
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.scenario_results import ScenarioEvalResults
from scouter.replay.reports.texts import counted, percent

GateMode: TypeAlias = Literal["threshold", "statistical"]
AnyComparison: TypeAlias = ScenarioComparisonResults | ComparisonResults

_RATE: Final = ALL_CHECKS.capitalize()
_UNJUDGED: Final = (
    "nothing was judged: no task of a scenario and none of a profile gave a result; give the "
    "scenarios tasks, or the agent's records a profile"
)
_MORE_MONEY: Final = "raise --judge-budget or the entry's, or pass --allow-unjudged"
_NAMED: Final = 5
"""Scenarios or gates that one reason names before it counts."""


class Word(StrEnum):
    """The verdict of a release check, worst first."""

    REGRESSED = "regressed"
    BELOW_GATE = "below a gate"
    ERRORED = "errored"
    LOST = "records were lost"
    NOT_JUDGED = "not judged"
    """The budget was spent before every judge task was asked."""
    UNJUDGED = "nothing was judged"
    UNDERPOWERED = "not enough data"
    IMPROVED = "improved"
    PASSED = "passed"
    RECORDED = "recorded"
    """There was nothing to hold the run against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may stop a release.

    Args:
        gate: `threshold`: a fall by the threshold, an errored or missing record, a scenario that
            flips. `statistical`: the verdict of the statistics.
        allow_underpowered: The verdict `not enough data` does not stop a release.
        allow_errors: Errors are failed checks like others, left to baseline and gates.
        allow_lost: Records and spans that are in no result do not stop a release.
        allow_unjudged: Judge tasks that were skipped for want of money do not stop a release.
    """

    gate: GateMode = "threshold"
    allow_underpowered: bool = False
    allow_errors: bool = False
    allow_lost: bool = False
    allow_unjudged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a check comes to.

    Args:
        word: The verdict.
        headline: One sentence.
        reasons: What stops the release, in words; empty if nothing does.
        exit_code: 0 passed, 1 stopped.
    """

    word: Word
    headline: str
    reasons: tuple[str, ...]
    exit_code: Literal[0, 1]

    @property
    def is_stopped(self) -> bool:
        """True if the release is stopped."""
        return self.exit_code == 1


def decide(
    results: ScenarioEvalResults | None,
    comparison: AnyComparison | None,
    gate_checks: Sequence[GateCheck],
    policy: Policy,
) -> Decision:
    """Come to a verdict.

    Without baseline and gates nothing is held against the run, and only errors stop it.

    Args:
        results: The run; None where only a comparison is known.
        comparison: With the baseline, if there is one.
        gate_checks: The gates of the scenario file and of the command line.
        policy: What may stop a release.

    Returns:
        The decision; its word is the worst that holds, its reasons are all there are.
    """
    found: list[tuple[Word, str]] = []
    checks = None if results is None else count_checks(results)
    if comparison is not None:
        found += compared(comparison, policy)
    unmet = [check for check in gate_checks if not check.met]
    found += [(Word.BELOW_GATE, f"gate {check.reason}") for check in unmet]
    if results is not None and not policy.allow_errors:
        found += [(Word.ERRORED, reason) for reason in _errors(results)]
    if results is not None and not policy.allow_lost:
        found += [(Word.LOST, f"lost: {each.text}") for each in results.lost]
    if (over_budget := _over_budget(results)) and not policy.allow_unjudged:
        found.append((Word.NOT_JUDGED, f"{over_budget}; {_MORE_MONEY}"))
    if checks is not None and not checks[1]:
        found.append((Word.UNJUDGED, _UNJUDGED))
    order = list(Word)
    if found:
        word = min((word for word, _ in found), key=order.index)
    elif comparison is not None:
        word = Word.IMPROVED if comparison.verdict is Verdict.IMPROVED else Word.PASSED
    else:
        word = Word.PASSED if gate_checks else Word.RECORDED
    return Decision(
        word=word,
        headline=" ".join(
            [
                *_headline(word, checks, comparison, gate_checks, policy),
                *([f"{over_budget}."] if over_budget else []),
                *([_lost(results.lost)] if results is not None and results.lost else []),
            ]
        ),
        reasons=tuple(dict.fromkeys(reason for _, reason in found)),
        exit_code=1 if found else 0,
    )


def compared(comparison: AnyComparison, policy: Policy) -> list[tuple[Word, str]]:
    """Say what of a comparison stops a release, by the rule that decides; empty if nothing does."""
    if policy.gate == "threshold":
        return [(Word.REGRESSED, reason) for reason in comparison.reasons]
    check = statistical_gate(comparison, policy.allow_underpowered)
    if check.met:
        return []
    is_worse = comparison.verdict is Verdict.REGRESSED
    word = Word.REGRESSED if is_worse else Word.UNDERPOWERED
    worse = [
        f"{f'{task.alias}: ' if task.alias else ''}{task.task_id}: {task.reason}"
        for task in comparison.task_verdicts
        if is_worse and task.verdict is Verdict.REGRESSED
    ]
    return [(word, reason) for reason in (check.reason, *worse)]


def _errors(results: ScenarioEvalResults) -> list[str]:
    raised: dict[str, list[str]] = {}
    for item in results.scenario_results:
        if item.error:
            raised.setdefault(item.scenario_id, []).append(item.error_line)
    undecided = [
        item.scenario_id
        for item in results.scenario_results
        if not item.error and item.outcome is Outcome.ERRORED
    ]
    reasons = [
        f"scenario {name!r}{_of(len(errors), results.repeats)}: {errors[0]}"
        for name, errors in list(raised.items())[:_NAMED]
    ]
    if len(raised) > _NAMED:
        reasons.append(f"{counted(len(raised) - _NAMED, 'more scenario')} did not run to the end")
    if undecided:
        reasons.append(f"a check could not be decided in {_names(undecided)}")
    for alias, rows in results.dataset_results.items():
        errored = [row for row in rows.aligned_results if row.outcome is Outcome.ERRORED]
        if errored:
            first = errored[0]
            reasons.append(
                f"{alias}: {len(errored)} of {counted(len(rows), 'record')} errored, first "
                f"{first.record_id or first.record_uid!r}: {first.error_message}"
            )
    return reasons


def _over_budget(results: ScenarioEvalResults | None) -> str:
    """What was not judged for want of money is said beside the rate that it is not in."""
    totals = None if results is None else totals_of(results)
    if totals is None or not totals.over_budget:
        return ""
    return f"{counted(totals.over_budget, 'judge task')} skipped, as the budget left too little"


def _lost(lost: Sequence[Lost]) -> str:
    """The same of what the replay lost."""
    kinds: Counter[str] = Counter()
    for each in lost:
        kinds[each.kind] += each.count
    return f"Lost, and in no result: {', '.join(counted(kinds[kind], kind) for kind in kinds)}."


def _of(attempts: int, repeats: int) -> str:
    return f", {attempts} of {repeats} attempts" if repeats > 1 else ""


def _names(ids: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(ids))
    shown = ", ".join(repr(name) for name in distinct[:_NAMED])
    more = f" and {len(distinct) - _NAMED} more" if len(distinct) > _NAMED else ""
    return f"{'scenario' if len(distinct) == 1 else 'scenarios'} {shown}{more}"


def _headline(
    word: Word,
    checks: tuple[int, int] | None,
    comparison: AnyComparison | None,
    gate_checks: Sequence[GateCheck],
    policy: Policy,
) -> Iterator[str]:
    """The sentences of the headline: rates, gates, and what decided."""
    if isinstance(comparison, ScenarioComparisonResults) and comparison.comparison_checks[1]:
        now, before = comparison.comparison_checks, comparison.baseline_checks
        yield f"{_RATE} {_rate(now)}, {_rate(before)} in the baseline."
    elif isinstance(comparison, ComparisonResults):
        now, before = comparison.comparison_pass_rate, comparison.baseline_pass_rate
        yield f"{_RATE} {percent(now)}, {percent(before)} in the baseline."
    elif checks is not None and checks[1]:
        yield f"{_RATE} {_rate(checks)}."
    if gate_checks:
        met = sum(check.met for check in gate_checks)
        yield f"{met} of {counted(len(gate_checks), 'gate')} met."
    if comparison is not None and policy.gate == "statistical":
        yield from _by_statistics(comparison, policy)
    if word is Word.RECORDED:
        yield "There is neither a baseline nor a gate, so nothing but an error could fail."


def _by_statistics(comparison: AnyComparison, policy: Policy) -> Iterator[str]:
    """Say what decided, and what the threshold would have said."""
    if comparison.verdict is Verdict.NOT_ENOUGH_DATA and policy.allow_underpowered:
        yield "Not enough data to tell, allowed by --allow-underpowered."
    if comparison.regressed and not compared(comparison, policy):
        yield "By the threshold it regressed, but the statistics decide."
    else:
        yield "The statistics decide."


def _rate(checks: tuple[int, int]) -> str:
    passed, total = checks
    return f"{percent(passed / total)} ({passed}/{total})" if total else percent(None)
