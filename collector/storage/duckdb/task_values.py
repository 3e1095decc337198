"""The newest results of a task with their scores, and the durations of their traces."""

from collector.storage.duckdb.evaluations import conditions, profile_filter
from collector.storage.duckdb.read import LATEST, StoredSpans
from collector.storage.duckdb.trace_totals import read_trace_totals
from collector.store.evaluation_queries import TaskValue, TaskValuesQuery
from scouter.evaluate.outcome import Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608


def read_task_values(stored: StoredSpans, query: TaskValuesQuery) -> list[TaskValue]:
    """The newest results, latest revisions only, the newest first.

    Args:
        stored: The spans, and the database of everything.
        query: Filters of the results.

    Cost: linear in the results of the task in that time; then a look at the hash of each span in
    the commits that may hold one of their traces.
    """
    asked = {"service_version": query.service_version, "environment": query.environment}
    service = {name: value for name, value in asked.items() if value is not None}
    where, given = conditions(
        ("e.space = ?", query.space), profile_filter(stored.database, query.profile),
        ("e.task_id = ?", query.task_id),
        ("e.evaluated_ns >= ?", query.since_ns), ("e.evaluated_ns < ?", query.until_ns),
    )  # fmt: skip
    of_service, of_values = "", list[object]()
    if service:
        own = " AND ".join(f"v.{name} = ?" for name in service)
        unknown = " AND ".join(f"v.{name} = ''" for name in service)
        in_span = " AND ".join(f"s.{name} = ?" for name in service)
        of_service = (
            f" AND ({own} OR {unknown} AND v.trace_id IN"
            f" (SELECT s.trace_id FROM spans s WHERE s.space = ? AND {in_span}))"
        )
        of_values = [*service.values(), query.space, *service.values()]
    order = "ORDER BY e.evaluated_ns DESC, e.evaluation_id"
    results = f"FROM task_results e WHERE {where} AND e.outcome <> 'pending' AND {LATEST}"
    if not service:  # only those that are shown are looked up among the evaluations
        results += f" {order} LIMIT {query.limit:d}"
    rows = stored.database.read(
        f"SELECT e.evaluated_ns, e.outcome, e.score, v.trace_id FROM ({results}) e"
        f" JOIN evaluations v ON v.evaluation_id = e.evaluation_id WHERE true{of_service}"
        f" {order} LIMIT ?",
        [*given, *of_values, query.limit],
    )
    traces = read_trace_totals(stored, query.space, {each for *_, each in rows if each})
    return [
        TaskValue(
            at_ns=at_ns,
            outcome=Outcome(outcome),
            score=score,
            duration_ns=traces[trace_id].duration_ns if trace_id in traces else None,
        )
        for at_ns, outcome, score, trace_id in rows
    ]
