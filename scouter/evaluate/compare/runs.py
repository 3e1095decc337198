"""Compare two runs: every record, task and scenario of the baseline must be found again.

`pairing` says which record is which, `records` and `scenarios` what became of each, `counts`
counts, `rates` tests whole attempts (`strata`), and `decision` says what it comes to.
All of it is about the checks that both runs were judged by (`comparable`). Here they are put
together.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Any, Final

from scouter.evaluate.compare.asking import trial_of
from scouter.evaluate.compare.checks import CheckChange
from scouter.evaluate.compare.comparable import comparable, comparable_rows
from scouter.evaluate.compare.counts import Tally, fell
from scouter.evaluate.compare.data import (
    DEFAULT_THRESHOLD,
    MissingRecord,
    RecordsComparison,
    RunComparison,
    Side,
    TaskAggregateStats,
    record_reasons,
    repeats_notes,
    scenario_reasons,
    unstable_notes,
)
from scouter.evaluate.compare.decision import Evidence, broken_alone, decide_comparison
from scouter.evaluate.compare.gate_checks import broken_attempts
from scouter.evaluate.compare.gate_counts import Attempt, attempts_of, count_passed, flipped
from scouter.evaluate.compare.pairing import Matched, Row, Sides, match, name_of
from scouter.evaluate.compare.rates import judge, net_fall
from scouter.evaluate.compare.records import compare_records
from scouter.evaluate.compare.rows import ALL_TASKS, RateComparison, ScoreChange
from scouter.evaluate.compare.scenarios import compare_scenarios
from scouter.evaluate.compare.scores import run_scores, score_changes
from scouter.evaluate.compare.strata import whole_conversations, whole_scenarios
from scouter.evaluate.intervals import wilson
from scouter.evaluate.results.flips import flips
from scouter.evaluate.results.record_result import collector_paused
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults


def compare_results(
    baseline: ResultRows,
    new: ResultRows,
    regression_threshold: float = DEFAULT_THRESHOLD,
    accept_changed: Collection[str] = (),
) -> RecordsComparison:
    """Compare two evaluations of one profile, record by record.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        regression_threshold: Smallest fall of a record's pass rate that counts, in [0, 1].
        accept_changed: Tasks whose change a person looked at.

    Returns:
        The comparison; its `decision` is by the test, its `regressed` by the strict rule.

    Raises:
        TypeError: One of them is something else.
        ValueError: The threshold is not in [0, 1].
        ConfigError: Nothing of an accepted id changed.

    Cost: linear in the number of task results.
    """
    _check_threshold(regression_threshold)
    _check_kind(ResultRows, baseline, new)
    with collector_paused():
        baseline, new, changes = comparable_rows(baseline, new, accept_changed)
        matched = match(baseline, new)
        fields, tallies = _compare(matched, None, regression_threshold)
        scores = score_changes(matched)
        whole = whole_conversations(matched, None)
        rows = judge([whole, *tallies])
        evidence = Evidence(
            rows=rows,
            primary=rows[0],
            fall=net_fall(whole),
            gone={"task": _gone_tasks(tallies)},
            scores=scores,
            changes=changes,
        )
        return _decided(fields, evidence, is_repeated=matched.is_repeated)


def compare_scenario_results(
    baseline: RunResults,
    new: RunResults,
    regression_threshold: float = DEFAULT_THRESHOLD,
    accept_changed: Collection[str] = (),
) -> RunComparison:
    """Compare two replays: every alias, every scenario, every record.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        regression_threshold: Smallest fall of a pass rate that counts, in [0, 1].
        accept_changed: Tasks, scenarios and aliases whose change a person looked at.

    Returns:
        The comparison; its `decision` is by the test and by what asking again came to, its
        `regressed` by the strict rule.

    Raises:
        TypeError: One of them is something else.
        ValueError: The threshold is not in [0, 1].
        ConfigError: Nothing of an accepted id changed.

    Cost: linear in the number of task results.
    """
    _check_threshold(regression_threshold)
    _check_kind(RunResults, baseline, new)
    with collector_paused():
        return _compare_replays(baseline, new, regression_threshold, accept_changed)


def _compare_replays(
    baseline: RunResults,
    new: RunResults,
    regression_threshold: float,
    accept_changed: Collection[str],
) -> RunComparison:
    ran_before, ran_now = baseline.scenario_ids, new.scenario_ids
    every_alias = Sides(baseline.dataset_results, new.dataset_results)
    common = comparable(baseline, new, accept_changed)
    whole_run = new
    baseline, new = common.baseline, common.of(new)
    aliases = Sides(baseline.dataset_results, new.dataset_results)
    ran = Sides(baseline.scenario_ids, new.scenario_ids)
    compared: dict[str, dict[str, Any]] = {}
    tallies: list[Tally] = []
    for alias in (*aliases.both, *aliases.removed, *aliases.added):
        matched = match(
            baseline.dataset_results.get(alias, _EMPTY),
            new.dataset_results.get(alias, _EMPTY),
            (baseline.repeats, new.repeats),
        )
        fields, found = _compare(matched, alias, regression_threshold, set(ran.both))
        tallies += found
        if alias in aliases.both:
            compared[alias] = fields
    before, now = attempts_of(baseline), attempts_of(new, baseline)
    scenarios = compare_scenarios(baseline, new, regression_threshold, (before, now))
    # Both runs are compared by the other's aliases, or a record that comes and goes only falls.
    old = attempts_of(baseline, new, baseline.dataset_results)
    whole = whole_scenarios(_only(old, ran.both), _only(now, ran.both))
    if not before and len(aliases.both) == 1:  # records that no replay made
        [alias] = aliases.both
        found = baseline.dataset_results[alias], new.dataset_results[alias]
        whole = whole_conversations(match(*found), None)
    trial = trial_of(baseline, new) if before else None
    if trial is not None:
        whole.own_test = trial.p_value, trial.level
    scores = run_scores(baseline, new) if trial is None else trial.scores
    release = baseline.releases + 1
    rows = judge([whole, *tallies, *scenarios.tallies], release)
    comparisons = {
        alias: _decided(
            fields,
            _evidence_of(alias, rows, tallies, scores, common.changes),
            is_repeated=max(baseline.repeats, new.repeats) > 1,
        )
        for alias, fields in compared.items()
    }
    # A run may have been asked again for another baseline.
    watched = () if trial is None else trial.watched
    confirmations = tuple(found for found in new.confirmations if found.scenario_id in watched)
    gone_tasks = _gone_tasks(
        tally for tally in (*tallies, *scenarios.tallies) if tally.alias not in aliases.removed
    )
    gone_tasks += [f"(each of scenario {name!r})" for name in scenarios.no_longer_judged]
    evidence = Evidence(
        rows=rows,
        primary=rows[0],
        fall=net_fall(whole),
        scores=scores,
        trial=trial,
        gone={"alias": [*map(repr, aliases.removed)], "task": gone_tasks},
        confirmations=confirmations,
        changes=common.changes,
        is_unfinished=new.is_unfinished,
    )
    missing_scenarios = Sides(ran_before, ran_now).removed
    reasons = scenario_reasons(
        comparisons,
        scenarios.regressions,
        removed_aliases=every_alias.removed,
        removed_scenarios=missing_scenarios,
        unjudged_scenarios=scenarios.no_longer_judged,
        errored_scenarios=scenarios.newly_errored,
    )
    if max(baseline.repeats, new.repeats) > 1:
        reasons += _fallen_sums(rows[:1], regression_threshold)
    regressed_scenarios = [
        *(delta.scenario_id for delta in scenarios.deltas if delta.is_regression),
        *scenarios.newly_errored,
        *scenarios.no_longer_judged,
        *missing_scenarios,
    ]
    return RunComparison(
        regression_threshold=regression_threshold,
        dataset_comparisons=comparisons,
        scenario_deltas=scenarios.deltas,
        baseline_overall_pass_rate=baseline.metrics.overall_pass_rate,
        comparison_overall_pass_rate=new.metrics.overall_pass_rate,
        baseline_alias_pass_rates=baseline.metrics.dataset_pass_rates,
        comparison_alias_pass_rates=new.metrics.dataset_pass_rates,
        baseline_checks=(
            sum(row.baseline_passed for row in rows if not row.is_sum),
            sum(row.baseline_count for row in rows if not row.is_sum) + broken_attempts(baseline),
        ),
        comparison_checks=(
            sum(row.comparison_passed for row in rows if not row.is_sum),
            sum(row.comparison_count for row in rows if not row.is_sum) + broken_attempts(new),
        ),
        regressed=bool(reasons),
        improved_aliases=[
            alias
            for alias, comparison in comparisons.items()
            if not comparison.regressed and comparison.improved_workflows
        ],
        regressed_aliases=[
            *(alias for alias, comparison in comparisons.items() if comparison.regressed),
            *every_alias.removed,
        ],
        new_aliases=every_alias.added,
        removed_aliases=every_alias.removed,
        regressed_scenarios=regressed_scenarios,
        new_scenarios=scenarios.added,
        removed_scenarios=missing_scenarios,
        scenario_task_stats=tuple(map(_stats, scenarios.tallies)),
        reasons=reasons,
        **_concluded(evidence),
        broken={} if trial is None else broken_alone(trial),
        baseline_scenarios_passed=count_passed(before),
        comparison_scenarios_passed=count_passed(now),
        repeats=(baseline.repeats, new.repeats),
        flips=tuple(flipped(before, now)),
        check_flips=flips(whole_run, baseline),
        confirmations=confirmations,
        notes=(
            *repeats_notes(baseline.repeats, new.repeats),
            *(f"{a}: {note}" for a, found in comparisons.items() for note in found.notes),
        ),
    )


_EMPTY: Final = ResultRows([])


def _check_threshold(value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"regression_threshold is {value}; expected a share from 0 to 1")


def _check_kind(kind: type, baseline: object, new: object) -> None:
    for found, other in ((baseline, new), (new, baseline)):
        if not isinstance(found, kind):
            raise TypeError(
                f"cannot compare {type(other).__name__} with {type(found).__name__}; compare "
                "results of records (EvalResults) or of replays (ScenarioEvalResults) with their "
                "like"
            )


def _only(attempts: dict[str, list[Attempt]], names: Iterable[str]) -> dict[str, list[Attempt]]:
    return {name: attempts[name] for name in names if name in attempts}


def _gone_tasks(tallies: Iterable[Tally]) -> list[str]:
    """Tasks that the baseline judged and the new run does not know at all."""
    return [
        repr(tally.task_id) + (f" of {tally.alias!r}" if tally.alias else "")
        for tally in tallies
        if tally.is_gone and tally.task_id != ALL_TASKS
    ]


def _evidence_of(
    alias: str,
    rows: Sequence[RateComparison],
    tallies: Iterable[Tally],
    scores: Sequence[ScoreChange],
    changes: Iterable[CheckChange],
) -> Evidence:
    own = [row for row in rows if row.alias == alias]
    return Evidence(
        rows=own,
        primary=next((row for row in own if row.task_id == ALL_TASKS), None),
        gone={"task": _gone_tasks(tally for tally in tallies if tally.alias == alias)},
        scores=[row for row in scores if row.alias == alias],
        changes=[each for each in changes if each.is_about(alias)],
    )


def _compare(
    matched: Matched, alias: str | None, threshold: float, scenarios: Set[str] | None = None
) -> tuple[dict[str, Any], list[Tally]]:
    """Compare one alias: all fields but the decision, which needs every row of the comparison."""
    found = compare_records(matched, alias, threshold, scenarios)
    tallies = list(found.counts.tallies.values())
    regressions = [workflow for workflow in found.workflows if workflow.is_regression]
    reasons = record_reasons(
        [] if matched.is_repeated else regressions,
        found.errored,
        [name_of(row, with_attempt=matched.is_repeated) for row in found.counts.missing],
        found.unrelated,
        found.fallen,
    )
    deltas = [workflow.pass_rate_delta for workflow in found.workflows]
    old_rows, new_rows = list(matched.old_rows), list(matched.new_rows)
    fields: dict[str, Any] = dict(
        regression_threshold=threshold,
        workflow_comparisons=tuple(found.workflows),
        total_workflows=len(found.workflows),
        improved_workflows=found.improved,
        regressed_workflows=len(regressions),
        unchanged_workflows=len(found.workflows) - found.improved - len(regressions),
        mean_pass_rate_delta=sum(deltas) / len(deltas) if deltas else 0.0,
        task_status_changes=tuple(
            task
            for workflow in found.workflows
            for task in workflow.task_comparisons
            if task.status_changed
        ),
        missing_tasks=tuple(found.missing_tasks),
        missing_records=(
            *_missing(matched, matched.missing, "baseline_only"),
            *_missing(matched, matched.added, "comparison_only"),
        ),
        errored_records=tuple(name for name, _ in found.errored),
        baseline_workflow_count=len(old_rows),
        comparison_workflow_count=len(new_rows),
        task_aggregate_stats=tuple(map(_stats, tallies)),
        baseline_pass_rate=found.counts.whole.old_rate,
        comparison_pass_rate=found.counts.whole.new_rate,
        reasons=reasons,
        notes=unstable_notes(matched.unstable),
    )
    return fields, [*tallies, found.counts.whole] if tallies else []


def _missing(matched: Matched, rows: Iterable[Row], side: Side) -> Iterator[MissingRecord]:
    for row in rows:
        yield MissingRecord(
            record_id=name_of(row, with_attempt=matched.is_repeated),
            scenario_id=row.identity.scenario_id,
            ordinal=row.identity.ordinal,
            attempt=row.attempt,
            present_in=side,
            outcome=row.outcome,
        )


def _decided(fields: dict[str, Any], evidence: Evidence, *, is_repeated: bool) -> RecordsComparison:
    """Add the rows, and what they come to."""
    reasons: tuple[str, ...] = fields["reasons"]
    if is_repeated:
        reasons += _fallen_sums(evidence.rows, fields["regression_threshold"])
    stated: dict[str, Any] = {"reasons": reasons, "regressed": bool(reasons)}
    return RecordsComparison(**fields | _concluded(evidence) | stated)


def _concluded(evidence: Evidence) -> dict[str, Any]:
    """The fields of a `Conclusion` that tell the decision, and what it is made of."""
    return {
        **decide_comparison(evidence)._asdict(),
        "changes": tuple(evidence.changes),
        "rates": tuple(evidence.rows),
        "score_changes": tuple(evidence.scores),
    }


def _fallen_sums(rows: Sequence[RateComparison], threshold: float) -> tuple[str, ...]:
    """Say which sums fell by the threshold or more, where that is no chance.

    With repeats a record regresses only beyond its flakiness, so many small falls could hide.
    Without repeats a record fell by the threshold or more wherever the sum did.
    """
    return tuple(
        f"{row.label if row.is_whole else 'all tasks'}: "
        f"{row.baseline_pass_rate:.0%} before, {row.comparison_pass_rate:.0%} now, more than "
        f"flakiness explains ({row.fell} of {row.pairs} fell, {row.rose} rose)"
        for row in rows
        if row.is_sum
        and row.p_value is not None
        and not row.is_cleared
        and fell(row.difference, threshold)
    )


def _stats(tally: Tally) -> TaskAggregateStats:
    return TaskAggregateStats(
        task_id=tally.task_id,
        workflows_evaluated=tally.both,
        baseline_pass_count=tally.both_before,
        comparison_pass_count=tally.both_after,
        status_changed_count=tally.changed,
        baseline_count=tally.old_count,
        comparison_count=tally.new_count,
        baseline_passed=tally.old_passed,
        comparison_passed=tally.new_passed,
        baseline_pass_rate=tally.old_rate,
        comparison_pass_rate=tally.new_rate,
        difference=tally.new_rate - tally.old_rate,
        baseline_interval=wilson(tally.old_passed, tally.old_count),
        comparison_interval=wilson(tally.new_passed, tally.new_count),
    )
