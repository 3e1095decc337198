"""Changes of the scenarios: their attempts as a whole, and their own tasks."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scouter.evaluate.compare.counts import Change, Tally, change_of
from scouter.evaluate.compare.data import ScenarioDelta
from scouter.evaluate.compare.gate_counts import Attempt
from scouter.evaluate.compare.pairing import Sides, match
from scouter.evaluate.compare.records import count_records
from scouter.evaluate.outcome import Outcome, worst
from scouter.evaluate.results.attempt import ScenarioAttempt, is_decided
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChanges:
    """Everything that a comparison says of the scenarios."""

    deltas: tuple[ScenarioDelta, ...]
    regressions: Sequence[tuple[ScenarioDelta, ScenarioAttempt]]
    """Scenarios whose own tasks regressed, each with an attempt of the new run that shows it."""
    added: list[str]
    removed: list[str]
    newly_errored: list[str]
    """Scenarios without result in the baseline that error now."""
    no_longer_judged: list[str]
    """Scenarios that had tasks of their own and have none now."""
    tallies: list[Tally]
    """Per task of a scenario."""


def compare_scenarios(
    baseline: RunResults,
    new: RunResults,
    threshold: float,
    attempts: tuple[Mapping[str, Sequence[Attempt]], Mapping[str, Sequence[Attempt]]],
) -> ScenarioChanges:
    """Compare the scenarios of two replays.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        threshold: Smallest fall of a scenario's pass rate that counts.
        attempts: Whole attempts of both.

    Cost: linear in the number of task results.
    """
    old, now = _by_scenario(baseline), _by_scenario(new)
    judged = Sides(old, now)
    scenarios = Sides(baseline.scenario_ids, new.scenario_ids)
    own = {name: _own(old[name], now[name], threshold) for name in judged.both}
    checks = _all_checks(baseline), _all_checks(new)
    queries = {
        each.scenario_id: each.initial_query for each in (*new.scenario_results, *new.scenarios)
    }
    deltas = {
        name: _delta(
            name,
            queries[name],
            [each[name] for each in attempts],
            [each.get(name, []) for each in checks],
            own.get(name),
        )
        for name in dict.fromkeys([*scenarios.both, *judged.both])
        if name in own or any(name in each for each in checks)
    }
    return ScenarioChanges(
        deltas=tuple(deltas.values()),
        regressions=[
            (deltas[name], _telling(now[name])) for name, found in own.items() if found.is_worse
        ],
        added=scenarios.added,
        removed=scenarios.removed,
        newly_errored=[name for name in judged.added if _errs(now[name])],
        no_longer_judged=[
            name
            for name in judged.removed
            if name not in scenarios.removed and any(item.task_results for item in old[name])
        ],
        tallies=_tallies(baseline, new, scenarios.both),
    )


def _by_scenario(results: RunResults) -> dict[str, list[ScenarioAttempt]]:
    found: dict[str, list[ScenarioAttempt]] = {}
    for result in results.scenario_results:
        found.setdefault(result.scenario_id, []).append(result)
    return found


def _tasks(result: ScenarioAttempt) -> Mapping[str, EvalTaskResult]:
    return {task.task_id: task for task in result.record.tasks}


def _errs(results: Sequence[ScenarioAttempt]) -> bool:
    return any(each.outcome is Outcome.ERRORED for result in results
               for each in (result, *result.task_results))  # fmt: skip


def _telling(results: Sequence[ScenarioAttempt]) -> ScenarioAttempt:
    """The attempt that says most about what went wrong."""
    outcome = worst(result.outcome for result in results)
    return next((result for result in results if result.outcome is outcome), results[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """Change of a scenario's own tasks."""

    change: Change
    is_worse: bool


def _own(old: Sequence[ScenarioAttempt], now: Sequence[ScenarioAttempt], threshold: float) -> _Own:
    change = change_of([_tasks(item) for item in old], [_tasks(item) for item in now])
    passed = [sum(item.passed for item in items) for items in (old, now)]
    tries = [sum(map(is_decided, items)) for items in (old, now)]
    flipped = all(tries) and falls_beyond_flakiness(passed[0], tries[0], passed[1], tries[1])
    errors_now = _errs(now) and not _errs(old)
    is_worse = flipped or errors_now or change.is_unrelated or change.regressed(threshold)
    return _Own(change=change, is_worse=is_worse)


def _all_checks(results: RunResults) -> dict[str, list[dict[str, EvalTaskResult]]]:
    """Per scenario and attempt all checks, those of records by alias and place."""
    found: dict[str, dict[int, dict[str, EvalTaskResult]]] = {}
    for alias, rows in results.parts:
        places: Counter[tuple[str, int]] = Counter()
        for row in rows:
            if row.scenario_id is not None:
                place = row.scenario_id, row.attempt
                places[place] += 1
                where = "" if alias is None else f"{alias} {places[place]} "
                checks = found.setdefault(place[0], {}).setdefault(place[1], {})
                checks |= {f"{where}{task.task_id}": task for task in row.record.tasks}
    return {name: list(attempts.values()) for name, attempts in found.items()}


def _delta(
    name: str,
    query: str,
    attempts: Sequence[Sequence[Attempt]],
    checks: Sequence[Sequence[Mapping[str, EvalTaskResult]]],
    own: _Own | None,
) -> ScenarioDelta:
    """Compare whole attempts and all checks, each before and now."""
    change = change_of(*checks)
    known = [[each.passed for each in items if each.passed is not None] for items in attempts]
    (before, of_before), (after, of_after) = ((sum(found), len(found)) for found in known)
    is_known = bool(of_before and of_after)
    was_passed, is_passed = 0 < of_before == before, 0 < of_after == after
    flipped = is_known and falls_beyond_flakiness(before, of_before, after, of_after)
    outcomes = [worst(each.outcome for each in items) for items in attempts]
    return ScenarioDelta(
        scenario_id=name,
        initial_query=query,
        baseline_passed=was_passed,
        comparison_passed=is_passed,
        baseline_pass_rate=change.before,
        comparison_pass_rate=change.after,
        status_changed=is_known and was_passed != is_passed,
        baseline_outcome=outcomes[0],
        comparison_outcome=outcomes[1],
        is_regression=flipped or (bool(change.fallen) if own is None else own.is_worse),
        baseline_attempts=len(attempts[0]),
        comparison_attempts=len(attempts[1]),
        baseline_passed_attempts=before,
        comparison_passed_attempts=after,
        lost_tasks=own.change.lost if own else (),
        has_no_common_task=own is not None and own.change.is_unrelated,
    )


def _tallies(baseline: RunResults, new: RunResults, scenarios: Collection[str]) -> list[Tally]:
    """Count the tasks, attempt by attempt; a scenario is a conversation."""
    matched = match(baseline.own_rows, new.own_rows, (baseline.repeats, new.repeats))
    return [*count_records(matched, None, scenarios).tallies.values()]
