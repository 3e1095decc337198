"""Traces by the evaluations on their records: the filter, and the counts beside it.

A trace is known by the half of its id that is random, in a quarter of the memory that the id takes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from collector.storage.duckdb.database import Database, literal
from collector.storage.duckdb.evaluations import PROFILE, conditions
from collector.storage.duckdb.stored_keys import TRACE_HASH
from collector.storage.duckdb.tag_counts import TAGS, counts_by_name, tag_conditions, tag_sets_sql
from collector.store.span_queries import JudgedBy, SpanQuery

# All SQL is put together from this module's own words; values travel as parameters, or as `literal`
# writes them.
# ruff: noqa: S608

_HASH: Final = f"{TRACE_HASH}::BIT::BIGINT"
_ANY: Final = JudgedBy()
Part = tuple[str, list[object]]
"""SQL, and its values."""


def judged_traces(query: SpanQuery) -> Part:
    """A query for the hashes of the traces that have an evaluation as is asked for."""
    where, given = _evaluations(query)
    return f"SELECT {_HASH} FROM evaluations e WHERE {where}", given


def count_judged(
    database: Database, query: SpanQuery, traces: Part, first: int
) -> Mapping[str, Mapping[str, int]]:
    """Count traces by profile, outcome, task and tag of the evaluations on their records.

    Args:
        database: The open file.
        query: The filter; says as of when.
        traces: A query for their hashes.
        first: Only evaluations of this commit and later ones.

    Cost: linear in these evaluations, about 3 µs for each.
    """
    where, given = _evaluations(query)
    given += traces[1]
    parts: list[str] = []
    for name, sql, values in _parts(query, first):
        parts.append(f"SELECT '{name}', value, count(DISTINCT trace) FROM ({sql}) GROUP BY value")
        given += values
    rows = database.read(
        f"""
        WITH judged AS MATERIALIZED (
            SELECT {_HASH} AS trace, e.evaluation_id, e.outcome, e.alias, e.tags
            FROM evaluations e WHERE e.seq >= {first:d} AND {where} AND trace IN ({traces[0]})
        )
        {" UNION ALL ".join(parts)}
        """,
        given,
    )
    return counts_by_name(rows)


def _parts(query: SpanQuery, first: int) -> Iterator[tuple[str, str, list[object]]]:
    """By facet a query for traces and values, and its parameters."""
    yield "profile", "SELECT trace, alias AS value FROM judged", []
    yield "outcome", "SELECT trace, outcome AS value FROM judged", []
    yield TAGS, tag_sets_sql("trace", "judged"), []
    of_task, values = _results(query)
    yield (
        "task_id",
        "SELECT trace, t.task_id AS value FROM task_results t JOIN judged USING (evaluation_id)"
        f" WHERE t.seq >= {first:d} AND {of_task}",
        values,
    )


def _evaluations(query: SpanQuery) -> Part:
    """The filter of evaluations `e`, the latest of their records."""
    asked = query.judged or _ANY
    known = f"space = {literal(query.space)} AND %s.seq <= {query.as_of:d}"
    where, given = conditions(
        (PROFILE, asked.profile), ("e.outcome = ?", asked.outcome and asked.outcome.value)
    )
    of_tags, tags = tag_conditions(asked.tags)
    parts = [
        f"e.{known % 'e'} AND e.trace_id IS NOT NULL",
        f"NOT EXISTS (FROM evaluations newer WHERE newer.revision > 1 AND newer.{known % 'newer'}"
        " AND newer.record_uid = e.record_uid AND newer.revision > e.revision)",
        *([where] if where else ()),
        of_tags,
    ]
    given += tags
    if asked.task_id is not None or asked.task_outcome is not None:
        of_task, values = _results(query)
        parts.append(
            f"e.evaluation_id IN (SELECT t.evaluation_id FROM task_results t WHERE {of_task})"
        )
        given += values
    return " AND ".join(parts), given


def _results(query: SpanQuery) -> Part:
    """The filter of results `t` by their task."""
    asked = query.judged or _ANY
    return conditions(
        ("t.space = ?", query.space),
        ("t.task_id = ?", asked.task_id),
        ("t.outcome = ?", asked.task_outcome and asked.task_outcome.value),
    )
