"""Counts of conversations by profile, outcome, task, tag, tool and model."""

from collections.abc import Iterator

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import conditions
from collector.storage.duckdb.facets import Counts, IsOver, count_in_steps, reached_ns
from collector.storage.duckdb.records import RECORD_PROFILE, asked_of_record
from collector.storage.duckdb.session_filter import (
    OF_SPANS,
    SID,
    SPANS_OF_TRACES,
    session_conditions,
    session_tables,
    span_conditions,
    task_conditions,
)
from collector.storage.duckdb.tag_counts import TAGS, counts_by_name, tag_conditions, tag_sets_sql
from collector.store.facets import Facets
from collector.store.record_queries import SessionQuery

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608


def read_session_facets(database: Database, query: SessionQuery, is_over: IsOver) -> Facets:
    """Count conversations by what their records, evaluations and spans tell.

    Args:
        database: The open file.
        query: The filter; says as of when.
        is_over: Ends the search.

    Cost: that of `session_tables`, and linear in the records that are looked at, their results and
        the spans of their traces: 5 µs for each record.
    """
    counts, first = count_in_steps(
        database,
        "records",
        query.as_of or 0,
        is_over,
        lambda stretch: _count(database, query, stretch),
    )
    at = reached_ns(database, "records", "received_ns", query.space, first)
    return Facets(counts=counts, looked_until_ns=at)


def _count(database: Database, query: SessionQuery, stretch: Stretch) -> Counts:
    """Counts of the sessions with a record in some commits; one query, so that it looks once."""
    asked, given = conditions(*asked_of_record(query))
    chosen, values = session_conditions(query)
    given += values
    parts: list[str] = []
    for name, sql, parameters in _parts(query):
        parts.append(f"SELECT '{name}', value, count(DISTINCT sid) FROM ({sql}) GROUP BY value")
        given += parameters
    # Ids of some 100,000 sessions: half of the memory that all queries together have.
    rows = database.read_wide(
        f"""
        WITH asked AS MATERIALIZED (
            SELECT {SID} AS sid, {RECORD_PROFILE} AS value FROM records r
            WHERE {within([stretch])} AND {asked}
        ), {session_tables(query, "SELECT DISTINCT sid FROM asked")},
        chosen AS MATERIALIZED (SELECT sid FROM wanted WHERE {chosen})
        {" UNION ALL ".join(parts)}
        """,
        given,
    )
    return counts_by_name(rows)


def _parts(query: SessionQuery) -> Iterator[tuple[str, str, list[object]]]:
    """By facet a query for sessions and values, and its parameters."""
    of_chosen = "sid IN (SELECT sid FROM chosen)"
    yield "profile", f"SELECT sid, value FROM asked WHERE {of_chosen}", []
    where, given = conditions(("outcome = ?", query.outcome and query.outcome.value))
    yield (
        "outcome",
        f"SELECT sid, outcome AS value FROM outcomes WHERE {of_chosen} AND {where or 'true'}",
        given,
    )
    where, given = task_conditions(query)
    yield (
        "task_id",
        "SELECT sid, t.task_id AS value FROM task_results t JOIN latest USING (evaluation_id)"
        f" WHERE {of_chosen} AND {where}",
        given,
    )
    where, given = tag_conditions(query.tags)
    yield TAGS, tag_sets_sql("sid", "own", f"{of_chosen} AND {where}"), given
    for column in OF_SPANS:
        where, given = span_conditions(query, column)
        yield (
            column,
            f"SELECT sid, s.{column} AS value FROM {SPANS_OF_TRACES} WHERE {of_chosen} AND {where}",
            given,
        )
