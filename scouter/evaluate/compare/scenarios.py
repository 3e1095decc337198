"""Changes of the scenarios, by their own tasks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scouter.evaluate.compare.changes import change_of, counts
from scouter.evaluate.compare.counts import ComparedTask, Tally
from scouter.evaluate.compare.data import ScenarioDelta
from scouter.evaluate.compare.pairing import Sides
from scouter.evaluate.compare.strata import Made, Sampled, add_strata
from scouter.evaluate.outcome import Outcome, worst
from scouter.evaluate.results.attempt import ScenarioAttempt, is_decided
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChanges:
    """Everything that a comparison says of the scenarios' own tasks."""

    deltas: tuple[ScenarioDelta, ...]
    regressions: Sequence[tuple[ScenarioDelta, ScenarioAttempt]]
    """Scenarios that regressed, each with an attempt of the new run that shows it."""
    added: list[str]
    removed: list[str]
    newly_errored: list[str]
    """Scenarios without result in the baseline that error now."""
    no_longer_judged: list[str]
    """Scenarios that had tasks of their own and have none now."""
    tallies: list[Tally]
    """Per task of a scenario."""


def compare_scenarios(baseline: RunResults, new: RunResults, threshold: float) -> ScenarioChanges:
    """Compare the scenarios of two replays.

    Args:
        baseline: The run to hold against.
        new: The run in question.
        threshold: Smallest fall of a scenario's pass rate that counts.

    Cost: linear in the number of task results.
    """
    old, now = _by_scenario(baseline), _by_scenario(new)
    judged = Sides(old, now)
    scenarios = Sides(baseline.scenario_ids, new.scenario_ids)
    deltas = [_delta(old[name], now[name], threshold) for name in judged.both]
    return ScenarioChanges(
        deltas=tuple(deltas),
        regressions=[
            (delta, _telling(now[delta.scenario_id])) for delta in deltas if delta.is_regression
        ],
        added=scenarios.added,
        removed=scenarios.removed,
        newly_errored=[name for name in judged.added if _outcome(now[name]) is Outcome.ERRORED],
        no_longer_judged=[
            name
            for name in judged.removed
            if name not in scenarios.removed and any(item.task_results for item in old[name])
        ],
        tallies=_tallies(old, now, (baseline.repeats, new.repeats), scenarios.both),
    )


def _by_scenario(results: RunResults) -> dict[str, list[ScenarioAttempt]]:
    found: dict[str, list[ScenarioAttempt]] = {}
    for result in results.scenario_results:
        found.setdefault(result.scenario_id, []).append(result)
    return found


def _tasks(result: ScenarioAttempt) -> Mapping[str, ComparedTask]:
    return {task.task_id: task for task in result.task_results}


def _outcome(results: Sequence[ScenarioAttempt]) -> Outcome:
    """The worst of all attempts."""
    return worst(result.outcome for result in results)


def _telling(results: Sequence[ScenarioAttempt]) -> ScenarioAttempt:
    """The attempt that says most about what went wrong."""
    outcome = _outcome(results)
    return next((result for result in results if result.outcome is outcome), results[0])


def _delta(
    old: Sequence[ScenarioAttempt], now: Sequence[ScenarioAttempt], threshold: float
) -> ScenarioDelta:
    change = change_of([_tasks(item) for item in old], [_tasks(item) for item in now])
    outcome_before, outcome_now = _outcome(old), _outcome(now)
    passed_before = sum(item.passed for item in old)
    passed_now = sum(item.passed for item in now)
    of_before, of_now = sum(map(is_decided, old)), sum(map(is_decided, now))
    is_known = bool(of_before and of_now)
    flipped = is_known and falls_beyond_flakiness(passed_before, of_before, passed_now, of_now)
    errors_now = outcome_now is Outcome.ERRORED and outcome_before is not Outcome.ERRORED
    was_passed = 0 < of_before == passed_before
    is_passed = 0 < of_now == passed_now
    return ScenarioDelta(
        scenario_id=now[0].scenario_id,
        initial_query=now[0].initial_query,
        baseline_passed=was_passed,
        comparison_passed=is_passed,
        baseline_pass_rate=change.before,
        comparison_pass_rate=change.after,
        status_changed=is_known and was_passed != is_passed,
        baseline_outcome=outcome_before,
        comparison_outcome=outcome_now,
        is_regression=(flipped or errors_now or change.is_unrelated or change.regressed(threshold)),
        baseline_attempts=len(old),
        comparison_attempts=len(now),
        baseline_passed_attempts=passed_before,
        comparison_passed_attempts=passed_now,
        lost_tasks=change.lost,
        has_no_common_task=change.is_unrelated,
    )


def _tallies(
    old: Mapping[str, Sequence[ScenarioAttempt]],
    new: Mapping[str, Sequence[ScenarioAttempt]],
    repeats: tuple[int, int],
    scenarios: Collection[str],
) -> list[Tally]:
    """Count the tasks, attempt by attempt; a scenario is a conversation."""
    tallies: dict[str, Tally] = {}

    def of(task_id: str) -> Tally:
        return tallies.setdefault(task_id, Tally(None, task_id, is_clustered=True))

    for name in dict.fromkeys([*old, *new]):
        now_by_attempt = {item.attempt: item for item in new.get(name, ())}
        for item in old.get(name, ()):
            now = now_by_attempt.pop(item.attempt, None)
            is_run = item.attempt < repeats[1] and name in scenarios
            _count_tasks(of, name, item, now, is_run=is_run)
        for now in now_by_attempt.values():
            for task_id, task in _tasks(now).items():
                of(task_id).add_new(task.outcome is Outcome.PASSED, counts(task))
    made = Sampled(old=_made(old), new=_made(new), repeats=repeats)
    add_strata(made, tallies, None, scenarios)
    return [*tallies.values()]


def _made(results: Mapping[str, Sequence[ScenarioAttempt]]) -> Iterator[Made]:
    for name, attempts in results.items():
        for item in attempts:
            yield Made(name, item.attempt, _tasks(item))


def _count_tasks(
    of: Callable[[str], Tally],
    name: str,
    old: ScenarioAttempt,
    new: ScenarioAttempt | None,
    *,
    is_run: bool,
) -> None:
    """Count the tasks of one attempt; `is_run` if the new run made this attempt."""
    now_tasks: Mapping[str, ComparedTask] = {} if new is None else _tasks(new)
    was_tasks = _tasks(old)
    for task_id, was in was_tasks.items():
        tally, passed, was_counted = of(task_id), was.outcome is Outcome.PASSED, counts(was)
        now = now_tasks.get(task_id)
        if now is not None:
            passes = now.outcome is Outcome.PASSED
            tally.add_twice(name, passed, was_counted, passes, counts(now))
            continue
        tally.add_old(passed, was_counted)
        if was_counted and is_run:
            tally.add_missing(name, passed)
    for task_id, now in now_tasks.items():
        if task_id not in was_tasks:
            of(task_id).add_new(now.outcome is Outcome.PASSED, counts(now))
