"""The decision of a release check: a word, a sentence, reasons, advice and an exit code."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.checks import Fate
from scouter.evaluate.compare.data import of_all
from scouter.evaluate.compare.decision import ruled_out_text
from scouter.evaluate.compare.gate_checks import GateCheck, count_checks
from scouter.evaluate.compare.gate_counts import scenarios_passed, task_rows
from scouter.evaluate.compare.rows import ComparisonDecision
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.run import totals_of
from scouter.evaluate.statistics.fall_limit import fewest_scenarios, highest_rate
from scouter.model.visible import some_of
from scouter.replay.reports.texts import counted

AnyComparison: TypeAlias = ScenarioComparisonResults | ComparisonResults

_UNJUDGED: Final = "nothing was judged: no task of a scenario and none of a profile gave a result"
_GIVE_TASKS: Final = "give the scenarios tasks, or the agent's records a profile"
_UNDECIDED: Final = (
    "nothing was judged: every check is errored or skipped, and none passed or failed"
)
_LEAVE_OUT: Final = "have them judged elsewhere, and leave them out or pass --allow-unjudged"
_MORE_MONEY: Final = "raise --judge-budget or the entry's, or pass --allow-unjudged"
_INSERT: Final = "let the agent insert a record, leave the profile out, or pass --allow-unjudged"
_MEND: Final = "mend what broke, and run the check again"
_ERRORS: Final = "or pass --allow-errors: errors are then failed checks, left to baseline and gates"
_KEEP: Final = "save it with --save FILE and compare later runs by --baseline FILE, or set a gate"
_NAMED: Final = 5
"""Checks of another system that one reason names before it counts."""


class Word(StrEnum):
    """Ends of a release check, in one word or a few, worst first."""

    REGRESSED = "regressed"
    BELOW_GATE = "below a gate"
    ERRORED = "errored"
    LOST = "records were lost"
    NOT_JUDGED = "not judged"
    """The budget was spent before the judge of every task was called, or a file of another system
    asks for checks that nobody ran."""
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
class Finding:
    """One thing that keeps a release from going on."""

    word: Word
    reason: str
    advice: tuple[str, ...] = (_MEND,)
    """What to do about it, one thing each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision of a release check.

    Args:
        word: One of the words above.
        headline: One sentence.
        reasons: Reasons why the release is stopped, in words; empty if it is not.
        notes: What else a reader should know; stops nothing.
        advice: What to do next, one thing each; empty where nothing is to be done.
        exit_code: 0 may go on, 1 stopped, 3 inconclusive.
    """

    word: Word
    headline: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    advice: tuple[str, ...]
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
    saved: str = "",
) -> Decision:
    """Decide whether a release may go on.

    Without baseline and gates only errors stop the run.

    Args:
        results: The run; None where only a comparison is known.
        comparison: Comparison with the baseline, if there is one.
        gate_checks: The gates of the scenario file and of the command line.
        policy: Rules that may stop a release.
        saved: The file that the run was saved to; empty for none.

    Returns:
        The decision, with the worst word that holds and all reasons.
    """
    found: list[Finding] = []
    if comparison is not None:
        found += compared(comparison, policy)
    found += [
        Finding(word=Word.BELOW_GATE, reason=f"gate {check.reason}")
        for check in gate_checks
        if not check.met
    ]
    if results is not None:
        found += _faults(results, policy)
    order = list(Word)
    if found:
        found.sort(key=lambda each: order.index(each.word))
        word = found[0].word
    elif comparison is not None:
        word = Word.NO_REGRESSION
    else:
        word = Word.PASSED if gate_checks else Word.RECORDED
    advice = [text for each in found for text in each.advice]
    if word is Word.RECORDED:
        advice = [f"compare later runs by --baseline {saved}, or set a gate" if saved else _KEEP]
    headline = "; ".join(_headline(word, results, comparison, gate_checks))
    return Decision(
        word=word,
        headline=f"{headline[:1].upper()}{headline[1:]}." if headline else "",
        reasons=tuple(dict.fromkeys(each.reason for each in found)),
        notes=tuple(_notes(results, comparison, policy)),
        advice=tuple(dict.fromkeys(advice)),
        exit_code=0 if not found else 3 if word is Word.INCONCLUSIVE else 1,
    )


def _faults(results: ScenarioEvalResults, policy: Policy) -> Iterator[Finding]:
    """Everything that stops a run without baseline and gates."""
    if not policy.allow_errors:
        for reason in _errors(results):
            yield Finding(word=Word.ERRORED, reason=reason, advice=(_MEND, _ERRORS))
    if not policy.allow_lost:
        for each in results.lost:
            yield Finding(word=Word.LOST, reason=each.summary, advice=(each.remedy,))
    if (over_budget := _over_budget(results)) and not policy.allow_unjudged:
        yield Finding(word=Word.NOT_JUDGED, reason=over_budget, advice=(_MORE_MONEY,))
    if results.left_out and not policy.allow_unjudged:
        reason = unjudged_reason(results.left_out)
        yield Finding(word=Word.NOT_JUDGED, reason=reason, advice=())
    if not count_checks(results)[1]:
        yield Finding(word=Word.UNJUDGED, reason=_UNJUDGED, advice=(_GIVE_TASKS,))
    elif policy.allow_errors and not _is_decided(results):
        yield Finding(word=Word.UNJUDGED, reason=_UNDECIDED)
    elif not policy.allow_unjudged:
        for alias in _without_records(results):
            yield Finding(
                word=Word.UNJUDGED,
                reason=f"no record came for the profile {alias!r}, so none of its tasks was "
                "evaluated",
                advice=(_INSERT,),
            )


def unjudged_reason(left_out: Sequence[str]) -> str:
    """Say which checks of a file nobody ran, and what to do.

    Args:
        left_out: The checks, in words; at least one.
    """
    return f"not judged: {some_of(left_out, _NAMED)}: nothing here computes them; {_LEAVE_OUT}"


def compared(comparison: AnyComparison, policy: Policy) -> list[Finding]:
    """Say what of a comparison keeps a release from going on; empty if nothing does."""
    if comparison.decision is not ComparisonDecision.NO_REGRESSION:
        word = Word(comparison.decision.value)
        advice = comparison.advice if word is Word.INCONCLUSIVE else (_MEND, *comparison.advice)
        reasons = comparison.decision_reasons or (comparison.decision_reason,)
        return [Finding(word=word, reason=reason, advice=advice) for reason in reasons]
    wanted, limit = policy.require_ruled_out, comparison.ruled_out
    if wanted is None or (limit is not None and limit <= wanted):
        return []
    text = "nothing is ruled out" if limit is None else f"only {ruled_out_text(limit)}"
    return [
        Finding(
            word=Word.INCONCLUSIVE,
            reason=f"{text}, and --require-ruled-out asks for {wanted:g}",
            advice=("run more scenarios",),
        )
    ]


def _is_decided(results: ScenarioEvalResults) -> bool:
    """Tell whether any check passed or failed."""
    decided = {Outcome.PASSED, Outcome.FAILED}
    return any(row.task.outcome in decided for row in task_rows(results))


def _errors(results: ScenarioEvalResults) -> Iterator[str]:
    """Count the scenarios and records that errored; what each of them met stands beside it."""
    # A conversation that was cut leaves its tasks open; one of them that failed is no error.
    errored = [
        item
        for item in results.scenario_results
        if item.outcome is Outcome.ERRORED
        or (not item.error and any(t.outcome is Outcome.ERRORED for t in item.task_results))
    ]
    raised = {item.scenario_id for item in errored if item.error}
    undecided = {item.scenario_id for item in errored if not item.error}
    of = counted(len(results.scenarios), "scenario")
    if raised:
        yield f"{len(raised)} of {of} did not run to the end"
    if undecided:
        yield f"a check could not be decided in {len(undecided)} of {of}"
    for alias, rows in results.dataset_results.items():
        if count := rows.failed_count:
            yield f"{alias}: {count} of {counted(len(rows), 'record')} errored"


def _without_records(results: ScenarioEvalResults) -> Iterator[str]:
    """Name the profiles of which no task was judged, as no record came for them.

    A profile of the agent's own queue may be for other scenarios, if any of them got a record.
    Where no attempt ran to its end, its error is the reason.
    """
    if not results.conversations and all(item.error for item in results.scenario_results):
        return
    reported, wanted = results.provenance, results.provenance.named_aliases
    if not results.dataset_results:
        wanted = tuple(reported.profile_digests)
    for alias in wanted:
        if alias not in results.dataset_results:
            yield alias


def _over_budget(results: ScenarioEvalResults) -> str:
    """Count in words the judge tasks that the budget left out of the rate; empty for none."""
    totals = totals_of(results)
    if totals is None or not totals.over_budget:
        return ""
    return f"{counted(totals.over_budget, 'judge task')} skipped, as the budget left too little"


def _headline(
    word: Word,
    results: ScenarioEvalResults | None,
    comparison: AnyComparison | None,
    gate_checks: Sequence[GateCheck],
) -> Iterator[str]:
    """The parts of the headline: what passed, gates, and what is ruled out."""
    if comparison is not None:
        yield _both(comparison) or _whole(comparison) or _alone(results)
    elif results is not None and (found := scenarios_passed(results))[1]:
        yield _scenarios(found)
    elif results is not None and (checks := count_checks(results))[1]:
        yield f"{checks[0]:,} of {counted(checks[1], 'check')} passed"
    if gate_checks and all(check.met for check in gate_checks):
        yield f"{counted(len(gate_checks), 'gate')} met"
    if word is Word.NO_REGRESSION and comparison is not None and comparison.ruled_out is not None:
        yield ruled_out_text(comparison.ruled_out)
    if word is Word.RECORDED:
        yield "there is neither a baseline nor a gate, so nothing but an error could fail"


def _both(comparison: AnyComparison) -> str:
    """Count in words the scenarios that passed in both runs; empty where there are none."""
    if not isinstance(comparison, ScenarioComparisonResults):
        return ""
    is_partial = any(each.fate is not Fate.JUDGED_AGAIN for each in comparison.changes)
    part = ", without what is left out" if is_partial else ""
    return f"{comparison.passed_text}{part}" if comparison.comparison_scenarios_passed[1] else ""


def _alone(results: ScenarioEvalResults | None) -> str:
    """Count in words the scenarios that passed, where nothing can be compared."""
    found = (0, 0) if results is None else scenarios_passed(results)
    return f"{_scenarios(found)}, none of which could be compared" if found[1] else ""


def _scenarios(found: tuple[int, int]) -> str:
    return f"{of_all(found)} scenarios passed"


def _whole(comparison: AnyComparison) -> str:
    """Count in words the records or conversations that passed, where there are no scenarios."""
    for row in comparison.rates:
        if row.is_whole and row.comparison_count:
            now = of_all((row.comparison_passed, row.comparison_count))
            before = of_all((row.baseline_passed, row.baseline_count))
            return f"{now} {row.label}, {before} in the baseline"
    return "nothing could be compared"


def _sequential(results: ScenarioEvalResults) -> str:
    """Say how many of its planned attempts a sequential run took."""
    again, each = results.reasked, len(results.scenarios)
    made = each * results.repeats
    if again is not None:
        made += len(again.scenario_results) + len(again.conversations)
    first = results.repeats // results.rounds
    return (
        f"decided after {first} of {results.planned} rounds: {counted(made, 'attempt')} made, "
        f"{each * results.planned:,} planned"
    )


def _notes(
    results: ScenarioEvalResults | None, comparison: AnyComparison | None, policy: Policy
) -> Iterator[str]:
    """What a reader should know although it stops nothing."""
    if results is not None and results.planned:
        yield _sequential(results)
    if comparison is not None and comparison.decision is ComparisonDecision.NO_REGRESSION:
        for row in comparison.rates:
            if row.word == "not cleared":
                yield f"not cleared: {row.label}: {row.reason}"
    if results is not None and policy.allow_unjudged and (over_budget := _over_budget(results)):
        yield over_budget
    if results is not None and policy.allow_lost:
        yield from (each.summary for each in results.lost)
