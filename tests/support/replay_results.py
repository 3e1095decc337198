"""Results of a replay, made by hand: what the reports are tested with."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.span import Span, StatusCode

Checks = Mapping[str, bool | str]
"""Per task: passed, failed, or the text of an error."""


def task(task_id: str, ended: bool | str, actual: JsonValue = "Soon.") -> EvalTaskResult:
    """One task result; expected is always `Paris`."""
    if isinstance(ended, str):
        outcome, reason, message = Outcome.ERRORED, Reason.MISSING_PATH, ended
    else:
        outcome = Outcome.PASSED if ended else Outcome.FAILED
        reason, message = None, "passed" if ended else f"'response' is {actual!r}, expected Paris"
    return EvalTaskResult.of(
        task_id=task_id,
        task_type="Assertion",
        outcome=outcome,
        reason=reason,
        expected="Paris",
        actual="Paris" if ended is True else actual,
        message=message,
    )


def record(name: str, checks: Checks) -> RecordResult:
    """One record's results."""
    tasks = tuple(task(task_id, ended) for task_id, ended in checks.items())
    return RecordResult(f"uid-{name}", name, "", None, record_outcome(tasks), tasks, 0, 0)


def span(
    name: str, span_id: int, parent: int | None, start_ms: int, end_ms: int, error: str = ""
) -> Span:
    """One span of one trace."""
    return Span(
        trace_id="a" * 32,
        span_id=f"{span_id:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=name,
        start_ns=start_ms * 1_000_000,
        end_ns=end_ms * 1_000_000,
        status=StatusCode.ERROR if error else StatusCode.UNSET,
        status_message=error,
    )


TRACE = (
    span("answer", 1, None, 0, 100),
    span("find_hours", 2, 1, 10, 60),
    span("write", 3, 1, 60, 100, "the pen broke"),
)


def scenario(
    name: str,
    checks: Checks,
    *,
    attempt: int = 0,
    answer: JsonValue = "Soon.",
    error: str | None = None,
    traces: Sequence[Span] = TRACE,
) -> ScenarioResult:
    """One attempt of one scenario, asked one question."""
    query = f"What about {name}?"
    tasks = [task(task_id, ended, answer) for task_id, ended in checks.items()]
    result = ScenarioResult.of(name, query, tasks, error=error)
    row = RecordResult("uid", name, "", None, record_outcome(tasks), tuple(tasks), 0, 0)
    return result.model_copy(
        update={
            "attempt": attempt,
            "duration_ns": 100_000_000,
            "response": answer,
            "turns": () if error else ({"user": query, "agent": answer},),
            "traces": tuple(traces),
            "eval_results": EvalResults([row], [name]),
        }
    )


def results(
    scenarios: Sequence[ScenarioResult],
    records: Mapping[str, Sequence[tuple[str, RecordResult]]] | None = None,
    repeats: int = 1,
) -> ScenarioEvalResults:
    """A whole run.

    Args:
        scenarios: Its attempts.
        records: Per alias, each record with its scenario.
        repeats: Attempts of each scenario.
    """
    found = records or {}
    datasets = {
        alias: EvalResults([row for _, row in rows], [name for name, _ in rows])
        for alias, rows in found.items()
    }
    queries = {item.scenario_id: item.initial_query for item in scenarios}
    for rows in found.values():
        queries |= {name: f"What about {name}?" for name, _ in rows}
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(scenarios),
        metrics=EvalMetrics.of(datasets, scenarios),
        scenarios=tuple(
            ScenarioInfo(scenario_id=name, initial_query=query) for name, query in queries.items()
        ),
        provenance=Provenance(
            package_version="0.1.0",
            python_version="3.11.7",
            git_revision="0123456789abcdef0123456789abcdef01234567",
            started_ns=1_748_000_000_000_000_000,
            ended_ns=1_748_000_065_000_000_000,
            profile_digests=dict.fromkeys(datasets, "f" * 64),
            collection_id="shop",
        ),
        repeats=repeats,
    )
