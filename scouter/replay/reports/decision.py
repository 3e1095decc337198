"""The decision of a release check: one word, one sentence, the reasons and an exit code."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.attempts import scenarios_passed
from scouter.evaluate.compare.decision import ruled_out_text
from scouter.evaluate.compare.gate_checks import ALL_CHECKS, GateCheck, count_checks
from scouter.evaluate.compare.gate_counts import task_rows
from scouter.evaluate.compare.rows import ComparisonDecision
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_totals import totals_of
from scouter.evaluate.results.lost import Lost
from scouter.evaluate.statistics.fall_limit import fewest_scenarios, highest_rate
from scouter.replay.reports.texts import counted, percent

AnyComparison: TypeAlias = ScenarioComparisonResults | ComparisonResults

_RATE: Final = ALL_CHECKS.capitalize()
_UNJUDGED: Final = (
    "nothing was judged: no task of a scenario and none of a profile gave a result; give the "
    "scenarios tasks, or the agent's records a profile"
)
_UNDECIDED: Final = (
    "nothing was judged: every check is errored or skipped, and none passed or failed; the reports "
    "say why"
)
_LEAVE_OUT: Final = "have them judged elsewhere, and leave them out or pass --allow-unjudged"
_MORE_MONEY: Final = "raise --judge-budget or the entry's, or pass --allow-unjudged"
_NAMED: Final = 5
"""Scenarios or gates that one reason names before it counts."""


class Word(StrEnum):
    """Ends of a release check, in one word or a few, worst first."""

    REGRESSED = "regressed"
    BELOW_GATE = "below a gate"
    ERRORED = "errored"
    LOST = "records were lost"
    NOT_JUDGED = "not judged"
    """The budget was spent before every judge task was asked, or a file of another system asks for
    checks that nobody ran."""
    UNJUDGED = "nothing was judged"
    INCONCLUSIVE = "inconclusive"
    """Nobody can tell, and the reason says what to run."""
    NO_REGRESSION = "no regression seen"
    PASSED = "passed"
    """Every gate was met, and there was no baseline."""
    RECORDED = "recorded"
    """There was nothing to hold the run against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules for what may stop a release.

    Args:
        require_ruled_out: Fall of whole scenarios, in points, that has to be ruled out: a larger
            limit is `inconclusive`; None asks for nothing.
        allow_errors: True: errors are failed checks like others, left to baseline and gates.
        allow_lost: True: records and spans that are in no result do not stop a release.
        allow_unjudged: True: judge tasks that were skipped for want of money, profiles that got
            no record, and checks of another system that nobody ran, do not stop a release.
    """

    require_ruled_out: float | None = None
    allow_errors: bool = False
    allow_lost: bool = False
    allow_unjudged: bool = False

    def check(self, scenarios: int) -> None:
        """Refuse what no run of so few scenarios could reach, before it costs anything.

        Raises:
            ConfigError: Says how many scenarios it takes.
        """
        wanted = self.require_ruled_out
        if wanted is None:
            return
        if not wanted > 0:
            raise ConfigError(f"--require-ruled-out {wanted:g}: expected points above 0")
        needed = fewest_scenarios(wanted / 100)
        if 0 < scenarios < needed:
            least = 100 * highest_rate(0, scenarios)
            raise ConfigError(
                f"--require-ruled-out {wanted:g}: {counted(scenarios, 'scenario')} can rule out no "
                f"fall below {least:.1f} points, however many --repeats; use {needed} scenarios, "
                f"or ask for {math.ceil(least)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision of a release check.

    Args:
        word: One of the words above.
        headline: One sentence.
        reasons: Reasons why the release is stopped, in words; empty if it is not.
        exit_code: 0 may go on, 1 stopped, 3 inconclusive.
    """

    word: Word
    headline: str
    reasons: tuple[str, ...]
    exit_code: Literal[0, 1, 3]

    @property
    def is_stopped(self) -> bool:
        """True if the release may not go on: it is stopped, or nobody can tell."""
        return self.exit_code != 0


def decide(
    results: ScenarioEvalResults | None,
    comparison: AnyComparison | None,
    gate_checks: Sequence[GateCheck],
    policy: Policy,
) -> Decision:
    """Decide whether a release may go on.

    Without baseline and gates only errors stop the run.

    Args:
        results: The run; None where only a comparison is known.
        comparison: Comparison with the baseline, if there is one.
        gate_checks: The gates of the scenario file and of the command line.
        policy: Rules that may stop a release.

    Returns:
        The decision, with the worst word that holds and all reasons.
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
    if results is not None and results.left_out and not policy.allow_unjudged:
        found.append((Word.NOT_JUDGED, unjudged_reason(results.left_out)))
    if checks is not None and not checks[1]:
        found.append((Word.UNJUDGED, _UNJUDGED))
    elif results is not None and policy.allow_errors and not _is_decided(results):
        found.append((Word.UNJUDGED, _UNDECIDED))
    elif results is not None and not policy.allow_unjudged:
        found += [(Word.UNJUDGED, reason) for reason in _without_records(results)]
    order = list(Word)
    if found:
        word = min((word for word, _ in found), key=order.index)
    elif comparison is not None:
        word = Word.NO_REGRESSION
    else:
        word = Word.PASSED if gate_checks else Word.RECORDED
    return Decision(
        word=word,
        headline=" ".join(
            [
                *filter(None, _headline(word, results, comparison, gate_checks)),
                *([f"{over_budget}."] if over_budget else []),
                *([_lost(results.lost)] if results is not None and results.lost else []),
            ]
        ),
        reasons=tuple(dict.fromkeys(reason for _, reason in found)),
        exit_code=0 if not found else 3 if word is Word.INCONCLUSIVE else 1,
    )


def unjudged_reason(left_out: Sequence[str]) -> str:
    """Say which checks of a file nobody ran, and what to do.

    Args:
        left_out: The checks, in words; at least one.
    """
    shown = ", ".join(left_out[:_NAMED])
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"not judged: {shown}{more}: nothing here computes them; {_LEAVE_OUT}"


def compared(comparison: AnyComparison, policy: Policy) -> list[tuple[Word, str]]:
    """Say what of a comparison keeps a release from going on; empty if nothing does."""
    if comparison.decision is not ComparisonDecision.NO_REGRESSION:
        word = Word(comparison.decision.value)
        reasons = comparison.decision_reasons or (comparison.decision_reason,)
        return [(word, reason) for reason in reasons]
    wanted, limit = policy.require_ruled_out, comparison.ruled_out
    if wanted is None or (limit is not None and limit <= wanted):
        return []
    text = "nothing is ruled out" if limit is None else f"only {ruled_out_text(limit)}"
    return [
        (
            Word.INCONCLUSIVE,
            f"{text}, and --require-ruled-out asks for {wanted:g}; run more scenarios",
        )
    ]


def _is_decided(results: ScenarioEvalResults) -> bool:
    """Tell whether any check passed or failed."""
    decided = {Outcome.PASSED, Outcome.FAILED}
    return any(row.task.outcome in decided for row in task_rows(results))


def _errors(results: ScenarioEvalResults) -> list[str]:
    raised: dict[str, list[str]] = {}
    for item in results.scenario_results:
        if item.error and item.outcome is Outcome.ERRORED:
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


def _without_records(results: ScenarioEvalResults) -> Iterator[str]:
    """Name the profiles of which no task was asked, as no record came for them.

    A profile of the agent's own queue may be for other scenarios, if any of them got a record.
    Where no attempt ran to its end, its error is the reason.
    """
    if not results.conversations and all(item.error for item in results.scenario_results):
        return
    told, wanted = results.provenance, results.provenance.named_aliases
    if not results.dataset_results:
        wanted = tuple(told.profile_digests)
    for alias in wanted:
        if alias not in results.dataset_results:
            yield (
                f"no record came for the profile {alias!r}, so none of its tasks was asked; let "
                "the agent insert one, leave the profile out, or pass --allow-unjudged"
            )


def _over_budget(results: ScenarioEvalResults | None) -> str:
    """Count in words the judge tasks that the budget left out of the rate; empty for none."""
    totals = None if results is None else totals_of(results)
    if totals is None or not totals.over_budget:
        return ""
    return f"{counted(totals.over_budget, 'judge task')} skipped, as the budget left too little"


def _lost(lost: Sequence[Lost]) -> str:
    """Count in words the records and spans that the replay lost."""
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
    results: ScenarioEvalResults | None,
    comparison: AnyComparison | None,
    gate_checks: Sequence[GateCheck],
) -> Iterator[str]:
    """The sentences of the headline: scenarios passed, all checks, gates, and what is open."""
    if isinstance(comparison, ScenarioComparisonResults):
        now, before = comparison.comparison_scenarios_passed, comparison.baseline_scenarios_passed
        yield _passed(now, f", {_of_all(before)} in the baseline") or _whole(comparison)
        yield _rounds(comparison)
        now, before = comparison.comparison_checks, comparison.baseline_checks
        if now[1]:
            yield f"{_RATE} {_rate(now)}, {_rate(before)} in the baseline."
    elif isinstance(comparison, ComparisonResults):
        yield _whole(comparison)
        now, before = comparison.comparison_pass_rate, comparison.baseline_pass_rate
        yield f"{_RATE} {percent(now)}, {percent(before)} in the baseline."
    elif results is not None and (checks := count_checks(results))[1]:
        yield _passed(scenarios_passed(results))
        yield f"{_RATE} {_rate(checks)}."
    if results is not None and results.planned:
        yield _sequential(results)
    if gate_checks:
        met = sum(check.met for check in gate_checks)
        yield f"{met} of {counted(len(gate_checks), 'gate')} met."
    if comparison is not None and comparison.decision is ComparisonDecision.NO_REGRESSION:
        yield f"{comparison.decision_reason[:1].upper()}{comparison.decision_reason[1:]}."
    if isinstance(comparison, ScenarioComparisonResults) and comparison.flips:
        yield _flips(comparison)
    if word is Word.RECORDED:
        yield "There is neither a baseline nor a gate, so nothing but an error could fail."


def _passed(found: tuple[int, int], more: str = "") -> str:
    passed, total = found
    return f"{passed:,} of {total:,} scenarios passed{more}." if total else ""


def _whole(comparison: AnyComparison) -> str:
    """Count in words the records or conversations that passed, where there are no scenarios."""
    for row in comparison.rates:
        if row.is_whole and row.comparison_count:
            now = f"{row.comparison_passed:,} of {row.comparison_count:,} {row.label}"
            before = f"{row.baseline_passed:,} of {row.baseline_count:,} in the baseline"
            return f"{now}, {before}."
    return ""


def _of_all(found: tuple[int, int]) -> str:
    return f"{found[0]:,} of {found[1]:,}"


def _flips(comparison: ScenarioComparisonResults) -> str:
    """The scenarios that passed before and do not now, and what asking again came to."""
    asked = {each.scenario_id: each for each in comparison.confirmations}
    flips = [name for name in comparison.flips if name not in asked]
    parts = [f"Passed before and not now: {_names(flips)}."] if flips else []
    if passed := [name for name in comparison.flips if name in asked and asked[name].passed]:
        parts.append(f"Passed when asked again: {_names(passed)}.")
    return " ".join(parts)


def _rounds(comparison: ScenarioComparisonResults) -> str:
    """Say that the whole suite was asked again, and what all attempts came to."""
    again = comparison.rounds - 1
    if not again:
        return ""
    [whole] = [row for row in comparison.rates if row.is_whole]
    return (
        f"The whole suite was asked again {'once' if again == 1 else 'twice'}: "
        f"{_of_all((whole.comparison_passed, whole.comparison_count))} attempts passed, "
        f"{_of_all((whole.baseline_passed, whole.baseline_count))} in the baseline."
    )


def _sequential(results: ScenarioEvalResults) -> str:
    """Say how many of its planned attempts a sequential run took."""
    again, each = results.reasked, len(results.scenarios)
    made = each * results.repeats
    if again is not None:
        made += len(again.scenario_results) + len(again.conversations)
    first = results.repeats // results.rounds
    return (
        f"Decided after {first} of {results.planned} rounds: {counted(made, 'attempt')} made, "
        f"{each * results.planned:,} planned."
    )


def _rate(checks: tuple[int, int]) -> str:
    passed, total = checks
    return f"{percent(passed / total)} ({passed}/{total})" if total else percent(None)
