"""When an attempt of a scenario passed."""

from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.scenario_results import ScenarioEvalResults


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of one scenario."""

    scenario_id: str
    attempt: int
    passed: bool | None
    is_errored: bool


def attempts_of(results: ScenarioEvalResults) -> dict[str, list[Attempt]]:
    """Say of each attempt whether it passed: nothing in it failed or errored.

    Returns:
        By scenario id, in order of attempts; `passed` is None where nothing gave a result.
    """
    outcomes: dict[tuple[str, int], list[Outcome]] = {
        (item.scenario_id, item.attempt): []
        for item in (*results.scenario_results, *results.conversations)
    }
    for item in results.scenario_results:
        own = outcomes[item.scenario_id, item.attempt]
        own += [task.outcome for task in item.task_results]
        own += [Outcome.ERRORED] if item.error is not None else []
    for rows in results.dataset_results.values():
        for row in rows:
            own = outcomes.setdefault((row.scenario_id or "", row.attempt), [])
            own += [task.outcome for task in row.record.tasks]
    found: dict[str, list[Attempt]] = {}
    for (name, attempt), ends in sorted(outcomes.items(), key=lambda item: item[0][1]):
        decided = [end for end in ends if end is not Outcome.SKIPPED]
        passed = all(end is Outcome.PASSED for end in decided) if decided else None
        is_errored = Outcome.ERRORED in ends
        found.setdefault(name, []).append(
            Attempt(scenario_id=name, attempt=attempt, passed=passed, is_errored=is_errored)
        )
    return found
