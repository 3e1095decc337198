"""Counts of task outcomes, over all time or bucket by bucket, latest evaluations only."""

from collections.abc import Mapping
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import Filter, conditions, profile_filter
from collector.storage.duckdb.read import LATEST
from collector.storage.duckdb.rollup import HOUR_NS
from collector.store.task_counts import (
    Extent,
    RateLine,
    SeriesItem,
    SeriesQuery,
    TaskCounts,
    TaskQuery,
)
from scouter.evaluate.outcome import DECIDED, Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_COUNTED: Final = (
    "e.profile_uid, e.profile_digest, e.profile_name, e.alias, e.task_id, e.position, e.outcome"
)
_GATED: Final = "e.outcome = 'skipped' AND e.reason IS NOT DISTINCT FROM 'gate' AS gated"
_NAMES: Final = tuple(TaskCounts.__dataclass_fields__)
Part = tuple[str, list[object]]
"""A query for counts, and its values."""


def _count(outcome: Outcome) -> str:
    return f"(coalesce(sum(n) FILTER (outcome = '{outcome.value}'), 0))::BIGINT"


_COUNTS: Final = f"""
    any_value(profile_digest), any_value(profile_name), any_value(alias),
    task_id, {", ".join(f"{_count(word)} AS {word}" for word in DECIDED)},
    (coalesce(sum(n) FILTER (gated), 0))::BIGINT,
    count(score), count(score) FILTER (outcome = 'passed'),
    coalesce(avg(score), 0), coalesce(var_pop(score) * count(score), 0)
"""
_HAVING: Final = "HAVING passed + failed + errored + skipped > 0"


def read_task_counts(database: Database, query: TaskQuery) -> list[TaskCounts]:
    """Outcomes by profile and task: whole hours from the rollups, the rest from the results.

    Scores that are not their outcome's are read from the results.

    Cost: the rollup rows of the hours asked for, the results of at most two hours, and those of
    the time asked for with a score of their own; with a version or environment all of that time.
    """
    filters: list[Filter] = [("e.space = ?", query.space), profile_filter(database, query.profile)]
    parts = _parts(database, filters, query.since_ns, query.until_ns, _service(query), query.space)
    rows = database.read(
        f"""
        SELECT profile_uid, {_COUNTS}
        FROM ({" UNION ALL ".join(sql for sql, _ in parts)})
        GROUP BY profile_uid, task_id {_HAVING}
        ORDER BY any_value(alias), min(position), task_id, profile_uid
        """,
        [value for _, values in parts for value in values],
    )
    return [TaskCounts(**dict(zip(_NAMES, row, strict=True))) for row in rows]


def read_extent(database: Database, query: TaskQuery, few: int) -> Extent | None:
    """The time that has the results which `read_task_counts` counts; None without any.

    Cost: as for `read_task_counts` without scores, and of few the results of one hour.
    """
    filters: list[Filter] = [("e.space = ?", query.space), profile_filter(database, query.profile)]
    service, space, until_ns = _service(query), query.space, query.until_ns
    found = _extent(
        database,
        _parts(database, filters, query.since_ns, until_ns, service, space, has_scores=False),
    )
    if found is None or found.first_ns % HOUR_NS or found.results > few:
        return found
    # A rollup knows the hour alone; its results know the moment.
    end_ns = found.first_ns + HOUR_NS
    end_ns = end_ns if until_ns is None else min(end_ns, until_ns)
    begin_ns = max(found.first_ns, query.since_ns or 0)
    own: list[Filter] = [*filters, ("e.evaluated_ns >= ?", begin_ns)]
    first = _extent(database, _from_results(database, own, end_ns, service, space))
    return found if first is None else found._replace(first_ns=first.first_ns)


def _extent(database: Database, parts: list[Part]) -> Extent | None:
    ((first_ns, results),) = database.read(
        f"""
        SELECT min(at_ns), sum(n)::BIGINT FROM (
            SELECT at_ns, sum(n) AS n FROM ({" UNION ALL ".join(sql for sql, _ in parts)})
            GROUP BY at_ns HAVING sum(n) > 0
        )
        """,
        [value for _, values in parts for value in values],
    )
    return None if first_ns is None else Extent(first_ns, results)


def read_task_series(database: Database, query: SeriesQuery) -> list[SeriesItem]:
    """Outcomes by bucket, profile and task, in this order; buckets without any are left out.

    Cost: as for `read_task_counts`; where a bucket is no number of whole hours, all results of the
    time asked for.
    """
    parts = _bucket_parts(database, query, has_scores=True)
    rows = database.read(
        f"""
        SELECT {_start(query)} AS start_ns, profile_uid, {_COUNTS}
        FROM ({" UNION ALL ".join(sql for sql, _ in parts)})
        GROUP BY start_ns, profile_uid, task_id {_HAVING}
        ORDER BY start_ns, any_value(alias), min(position), task_id, profile_uid
        LIMIT ?
        """,
        [*(value for _, values in parts for value in values), query.limit],
    )
    return [
        SeriesItem(start_ns=start_ns, counts=TaskCounts(**dict(zip(_NAMES, row, strict=True))))
        for start_ns, *row in rows
    ]


def read_rate_lines(database: Database, query: SeriesQuery) -> list[RateLine]:
    """The rate of each profile and task over time, in columns; without those that have none.

    Cost: as for `read_task_counts`, but no result is read for its score.
    """
    parts = _bucket_parts(database, query, has_scores=False)
    rows = database.read(
        f"""
        SELECT profile_uid, task_id, list(start_ns), list(passed), list(total) FROM (
            SELECT {_start(query)} AS start_ns, profile_uid, task_id,
                {_count(Outcome.PASSED)} AS passed,
                (sum(n) FILTER (gated OR outcome <> 'skipped'))::BIGINT AS total
            FROM ({" UNION ALL ".join(sql for sql, _ in parts)})
            GROUP BY start_ns, profile_uid, task_id HAVING total > 0 ORDER BY start_ns
        ) GROUP BY profile_uid, task_id
        """,
        [value for _, values in parts for value in values],
    )
    return [RateLine(*row) for row in rows]


def _start(query: SeriesQuery) -> str:
    return f"at_ns // {query.bucket_ns:d} * {query.bucket_ns:d}"


def _bucket_parts(database: Database, query: SeriesQuery, *, has_scores: bool) -> list[Part]:
    filters: list[Filter] = [
        ("e.space = ?", query.space),
        profile_filter(database, query.profile),
        ("e.task_id = ?", query.task_id),
    ]
    service, space = _service(query), query.space
    if query.bucket_ns % HOUR_NS:
        own = [*filters, ("e.evaluated_ns >= ?", query.since_ns)]
        return _from_results(database, own, query.until_ns, service, space)
    return _parts(
        database, filters, query.since_ns, query.until_ns, service, space, has_scores=has_scores
    )


def _parts(
    database: Database,
    filters: list[Filter],
    since_ns: int | None,
    until_ns: int | None,
    service: Mapping[str, str],
    space: str,
    *,
    has_scores: bool = True,
) -> list[Part]:
    """Choose the sources of counts of a time: rollups for whole hours, results for the rest."""
    first = None if since_ns is None else -(-since_ns // HOUR_NS) * HOUR_NS
    last = None if until_ns is None else until_ns // HOUR_NS * HOUR_NS
    from_since: Filter = ("e.evaluated_ns >= ?", since_ns)
    has_hours = first is None or last is None or first <= last
    if service or not has_hours:
        return _from_results(database, [*filters, from_since], until_ns, service, space)
    where, given = conditions(*filters, ("e.hour_ns >= ?", first), ("e.hour_ns < ?", last))
    parts: list[Part] = [
        (
            f"SELECT {_COUNTED}, e.gated, e.n, e.hour_ns AS at_ns, NULL::DOUBLE AS score"
            f" FROM rollups e WHERE {where}",
            given,
        )
    ]
    if has_scores:
        where, given = conditions(
            *filters, ("e.evaluated_ns >= ?", first), ("e.evaluated_ns < ?", last)
        )
        parts.append(_results(f"{where} AND e.score IS NOT NULL", given, n=0))
    if first != since_ns:
        parts += _from_results(database, [*filters, from_since], first, {}, space)
    if last != until_ns:
        parts += _from_results(
            database, [*filters, ("e.evaluated_ns >= ?", last)], until_ns, {}, space
        )
    return parts


def _from_results(
    database: Database,
    filters: list[Filter],
    until_ns: int | None,
    service: Mapping[str, str],
    space: str,
) -> list[Part]:
    """Every result counts one.

    Evaluations that know their service and those of which only the spans do are two parts: one
    condition with OR would need all of them in memory. An evaluation that looked at no spans does
    not know its service; the spans of its trace do.
    """
    more: list[Filter] = [*filters, ("e.evaluated_ns < ?", until_ns)]
    if not service:
        return [_results(*conditions(*more))]
    own = [(f"e.{name} = ?", value) for name, value in service.items()]
    parts = [_results(*conditions(*more, *own))]
    in_span = " AND ".join(["space = ?", *(f"{name} = ?" for name in service)])
    of_span = [space, *service.values()]
    if database.read(f"SELECT 1 FROM spans WHERE {in_span} LIMIT 1", of_span):
        where, given = conditions(*more, *((f"e.{name} = ?", "") for name in service))
        unknown = " AND ".join(f"v.{name} = ''" for name in service)
        of_trace = (
            "e.evaluation_id IN (SELECT v.evaluation_id FROM evaluations v"
            f" SEMI JOIN (SELECT trace_id FROM spans WHERE {in_span}) s ON s.trace_id = v.trace_id"
            f" WHERE v.space = ? AND {unknown})"
        )
        parts.append(_results(f"{where} AND {of_trace}", [*given, *of_span, space]))
    return parts


def _service(query: TaskQuery | SeriesQuery) -> dict[str, str]:
    """Columns of the service that are asked for."""
    asked = {"service_version": query.service_version, "environment": query.environment}
    return {name: value for name, value in asked.items() if value is not None}


def _results(where: str, given: list[object], n: int = 1) -> Part:
    return (
        f"SELECT {_COUNTED}, {_GATED}, {n} AS n, e.evaluated_ns AS at_ns, e.score"
        f" FROM task_results e WHERE {where} AND e.outcome <> 'pending' AND {LATEST}",
        given,
    )
