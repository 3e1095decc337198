"""Replays with outcomes that a test chooses, by letters."""

from collections.abc import Mapping, Sequence

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult

_WORDS = {"P": "passed", "F": "failed", "E": "errored"}
_REASONS = {"E": Reason.TYPE, "G": Reason.GATE, "B": Reason.BUDGET, "S": Reason.SAMPLED}
Tasks = Mapping[str, str]
"""By task id: P passed, F failed, E errored; skipped G by a gate, B for the budget, S unsampled."""


def task_results(tasks: Tasks) -> tuple[EvalTaskResult, ...]:
    """One result for each letter; the message of one that did not pass is `said of <task>`."""
    return tuple(
        EvalTaskResult.of(
            task_id=name,
            task_type="Assertion",
            outcome=_WORDS.get(letter, "skipped"),
            reason=_REASONS.get(letter),
            message="" if letter == "P" else f"said of {name}",
        )
        for name, letter in tasks.items()
    )


def replay(
    scenarios: Mapping[str, Sequence[Tasks]],
    records: Mapping[str, Sequence[tuple[str, int, Tasks]]] | None = None,
    *,
    infos: Mapping[str, Mapping[str, object]] | None = None,
    required: Mapping[str, tuple[str, ...]] | None = None,
    judge_rates: Sequence[JudgeRate] = (),
) -> ScenarioEvalResults:
    """Make a replay.

    Args:
        scenarios: The own tasks of each attempt; an attempt without any left no result of its own.
        records: Per alias, the scenario, attempt and tasks of each record.
        infos: More fields of `ScenarioInfo`, by scenario.
        required: Per alias, the required tasks.
        judge_rates: Known rates of judges.
    """
    datasets: dict[str, EvalResults] = {}
    for alias, rows in (records or {}).items():
        found = [
            RecordResult(
                f"u{at}", f"{name}-{nth}", "", None, record_outcome(made), made, 0, 0
            )
            for at, (name, nth, tasks) in enumerate(rows)
            for made in [task_results(tasks)]
        ]  # fmt: skip
        datasets[alias] = EvalResults(found, [row[0] for row in rows], [row[1] for row in rows])
    judged = [
        ScenarioResult.of(name, "q", task_results(tasks)).model_copy(update={"attempt": at})
        for name, attempts in scenarios.items()
        for at, tasks in enumerate(attempts)
        if tasks
    ]
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=tuple(
            ScenarioInfo.model_validate(
                {"scenario_id": name, "initial_query": "q", **(infos or {}).get(name, {})}
            )
            for name in scenarios
        ),
        repeats=max(map(len, scenarios.values())),
        judge_rates=tuple(judge_rates),
        required_tasks=dict(required or {}),
    )
