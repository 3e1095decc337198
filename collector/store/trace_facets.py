"""Counts of traces by the values of their spans, and of the evaluations on their records."""

from collections import defaultdict
from dataclasses import replace
from typing import Final

from collector.store.facets import TAG, Counts, Facets, IsOver, count_in_steps, counts_of
from collector.store.reads import Reads, Values
from collector.store.span_conditions import (
    judged_condition,
    span_condition,
    task_condition,
    trace_conditions,
)
from collector.store.span_queries import TraceQuery
from collector.store.traces import of_period
from scouter.model.span import StatusCode

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_STATUS: Final = "status"
_COLUMNS: Final = (
    "service_name", "service_version", "environment", "agent_name", "tool_name", "response_model",
    "error_type",
)  # fmt: skip
_NAMES: Final = (_STATUS, *_COLUMNS)
_SETS: Final = ", ".join(f"({name})" for name in _NAMES)


class TraceFacetReads(Reads):
    """Counts beside the list of traces."""

    def trace_facets(self, query: TraceQuery, is_over: IsOver) -> Facets:
        """Count what `traces` lists, by status, service, agent, tool, model and error of spans.

        And by profile, outcome, task and tag of the latest evaluations on their records.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Asked before each step, but the first, with how many times as many spans as
                the one before it the step looks at; true ends the search, once it has looked at a
                few.

        Cost: linear in the spans that are looked at, about 1 µs for each.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query = replace(query, as_of=as_of, before=None)
        return count_in_steps(
            self,
            "spans",
            "received_ns",
            query.space,
            as_of,
            is_over,
            lambda first: {
                **self._counts_of_spans(query, first, as_of),
                **self._counts_of_judged(query, first, as_of),
            },
        )

    def _counts_of_spans(self, query: TraceQuery, first: int, last: int) -> Counts:
        values = Values()
        columns = ", ".join(("trace_id", *(_shown(query, name, values) for name in _NAMES)))
        rows = self.read(
            f"""
            SELECT {", ".join(_NAMES)}, count(DISTINCT trace_id) FROM (
                SELECT DISTINCT {columns} {_of_traces(query, first, last, values)}
            ) shown GROUP BY GROUPING SETS ({_SETS})
            """,
            values,
        )
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for status, *texts, n in rows:  # one of them has a value; the others are NULL
            if status is not None:
                counts[_STATUS][StatusCode(status).name.lower()] = n
            for name, value in zip(_COLUMNS, texts, strict=True):
                if value:
                    counts[name][value] = n
        return counts

    def _counts_of_judged(self, query: TraceQuery, first: int, last: int) -> Counts:
        values = Values()
        count = "count(DISTINCT trace_id)"
        rows = self.read(
            f"""
            WITH judged AS MATERIALIZED (
                SELECT e.trace_id, e.evaluation_id, e.outcome, e.alias, e.tags FROM evaluations e
                WHERE e.seq >= {values.of(first, "BIGINT")} AND {judged_condition(query, values)}
                  AND e.trace_id IN (SELECT trace_id {_of_traces(query, first, last, values)})
            )
            SELECT 'profile', alias, {count} FROM judged GROUP BY alias
            UNION ALL
            SELECT 'outcome', outcome, {count} FROM judged GROUP BY outcome
            UNION ALL
            SELECT '{TAG}', tag, {count}
            FROM (SELECT trace_id, unnest(tags) AS tag FROM judged) tagged GROUP BY tag
            UNION ALL
            SELECT 'task_id', t.task_id, {count}
            FROM task_results t JOIN judged j ON j.evaluation_id = t.evaluation_id
            WHERE t.seq >= {values.of(first, "BIGINT")} AND {task_condition(query, values)}
            GROUP BY t.task_id
            """,
            values,
        )
        return counts_of(rows)


def _of_traces(query: TraceQuery, first: int, last: int, values: Values) -> str:
    """SQL from FROM on for the spans of the traces in some commits in which the conditions hold."""
    commits = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
    where = span_condition(of_period(query), values)
    traces = trace_conditions(query, query.criteria(), (first, last), values, (0, last))
    return f"FROM spans WHERE {commits} AND {where}{traces}"


def _shown(query: TraceQuery, name: str, values: Values) -> str:
    """SQL of a column by which is counted.

    A column that is asked for shows that value alone, as another one cannot join the filter. Where
    conditions have to meet on a span, others than such spans show nothing.
    """
    meant = query.beside(name)
    if meant is None:
        return name
    return f"CASE WHEN {span_condition(meant, values)} THEN {name} END AS {name}"
