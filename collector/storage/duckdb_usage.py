"""The use of models, tools and agents, summed up from the columns of spans."""

from collections import defaultdict
from typing import Any, Final, NamedTuple

from collector.storage.block_filters import BlockFilters, BlockQuery, within
from collector.storage.database import Database
from collector.storage.search_rows import ModelTokens, Usage, UsageGroup, UsagePage, UsageQuery
from collector.storage.usage_acts import SLACK_NS, acts_sql
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_IS_CALL: Final = "kind IN ('model', 'embedding')"
_IS_COUNTED: Final = {UsageGroup.AGENT: "kind = 'agent'"}
"""Which of the spans are calls; without a row all are."""
_MODEL: Final = "coalesce(response_model, request_model, '')"
_GROUPS: Final = {
    UsageGroup.MODEL: (_MODEL, _IS_CALL),
    UsageGroup.PROVIDER: ("coalesce(provider, '')", _IS_CALL),
    UsageGroup.SERVICE: ("coalesce(service_name, '')", _IS_CALL),
    UsageGroup.CONVERSATION: ("coalesce(conversation_id, '')", _IS_CALL),
    UsageGroup.OPERATION: ("operation", "operation <> ''"),
    UsageGroup.AGENT: ("agent_name", f"agent_name <> '' AND (kind = 'agent' OR {_IS_CALL})"),
    UsageGroup.TOOL: ("tool_name", "kind = 'tool' AND tool_name <> ''"),
    UsageGroup.ERROR: ("error_type", "error_type <> ''"),
}
"""By what spans are put together, and which ones."""
_TOOK: Final = "greatest(end_ns - start_ns, 0)"
_EXACT: Final = 1_000_000
"""Calls whose durations are sorted for their quantiles; an estimate takes little memory."""
_QUANTILES: Final = "[0.5, 0.95, 0.99]"

_Place = tuple[str, int | None]
"""Key and start of the bucket."""


class _Source(NamedTuple):
    """The spans that are summed up."""

    sql: str
    """A query with `key`, `bucket` and the columns of spans."""
    values: list[object]


def read_usage(database: Database, filters: BlockFilters, query: UsageQuery) -> UsagePage:
    """Sums by what is asked for, those with the most calls first; by buckets in their order.

    Cost: linear in the spans of the time asked for; about 0.5 µs for each. Memory grows with the
        number of values, of which DuckDB writes some to disk where they are many.
    """
    source = _source(filters, query)
    counted = _IS_COUNTED.get(query.group_by, "true")
    rows = database.read(
        f"""
        WITH {source.sql}
        SELECT key, bucket, count(*) FILTER ({counted}) AS calls,
            count(*) FILTER ({counted} AND is_failed), avg({_TOOK}) FILTER ({counted}) / 1e6
        FROM chosen GROUP BY key, bucket ORDER BY bucket, calls DESC, key LIMIT ? OFFSET ?
        """,
        [*source.values, query.limit + 1, query.offset],
    )
    has_more = len(rows) > query.limit
    rows = rows[: query.limit]
    # A quantile takes memory for each group: there is none for what is not shown.
    shown = " AND key IN (SELECT unnest(?::VARCHAR[]))" if has_more or query.offset else ""
    values = [*source.values, *([[row[0] for row in rows]] if shown else [])]
    is_exact = sum(row[2] for row in rows) <= _EXACT
    quantile = "quantile_disc" if is_exact else "approx_quantile"
    took: dict[_Place, list[float]] = {
        (key, bucket): [each / 1e6 for each in found or ()]
        for key, bucket, found in database.read(
            f"WITH {source.sql} SELECT key, bucket, {quantile}({_TOOK}, {_QUANTILES})"
            f" FILTER ({counted}) FROM chosen WHERE true{shown} GROUP BY key, bucket",
            values,
        )
    }
    tokens = _tokens(database, source, shown, values)
    items = tuple(
        _usage(row, took.get(row[:2], []), tokens.get(row[:2], []), is_exact=is_exact)
        for row in rows
    )
    return UsagePage(
        items=items,
        next_offset=query.offset + len(rows) if has_more else None,
        as_of=query.as_of or 0,
    )


def _source(filters: BlockFilters, query: UsageQuery) -> _Source:
    key, condition = _GROUPS[query.group_by]
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    since_ns = None if query.since_ns is None else query.since_ns - SLACK_NS
    until_ns = None if query.until_ns is None else query.until_ns + SLACK_NS
    stretches = filters.stretches(BlockQuery(table="spans", since_ns=since_ns, until_ns=until_ns))
    among = (
        ("space = ?", query.space),
        ("start_ns >= ?", since_ns),
        ("start_ns < ?", until_ns),
        ("seq <= ?", query.as_of),
    )
    where = " AND ".join([within(stretches), *(sql for sql, value in among if value is not None)])
    values: list[object] = [value for _, value in among if value is not None]
    edges = (("start_ns >= ?", query.since_ns), ("start_ns < ?", query.until_ns))
    inside = [condition, *(sql for sql, value in edges if value is not None)]
    values += [value for _, value in edges if value is not None]
    bucket = "NULL::BIGINT"
    if query.bucket_ns is not None:
        size = f"{query.bucket_ns:d}"
        bucket = f"(start_ns - (start_ns % {size} + {size}) % {size})"
    return _Source(
        f"{acts_sql(where)}, chosen AS (SELECT {key} AS key, {bucket} AS bucket, *,"
        f" status = {StatusCode.ERROR.value} AS is_failed FROM acts"
        f" WHERE {' AND '.join(inside)})",
        values,
    )


def _tokens(
    database: Database, source: _Source, shown: str, values: list[object]
) -> dict[_Place, list[ModelTokens]]:
    """Tokens by group and model."""
    found: defaultdict[_Place, list[ModelTokens]] = defaultdict(list)
    for key, bucket, response_model, request_model, calls, *counts in database.read(
        f"""
        WITH {source.sql}
        SELECT key, bucket, response_model, request_model, count(*),
            coalesce(sum(input_tokens), 0)::BIGINT, coalesce(sum(output_tokens), 0)::BIGINT,
            coalesce(sum(cached_tokens), 0)::BIGINT, coalesce(sum(reasoning_tokens), 0)::BIGINT
        FROM chosen WHERE {_IS_CALL}{shown} GROUP BY ALL ORDER BY ALL
        """,
        values,
    ):
        found[key, bucket].append(
            ModelTokens(
                models=tuple(name for name in (response_model, request_model) if name),
                calls=calls,
                input_tokens=counts[0],
                output_tokens=counts[1],
                cached_tokens=counts[2],
                reasoning_tokens=counts[3],
            )
        )
    return found


def _usage(
    row: tuple[Any, ...], took: list[float], tokens: list[ModelTokens], *, is_exact: bool
) -> Usage:
    key, bucket, calls, errors, mean_ms = row
    # Its spans may have expired meanwhile.
    p50_ms, p95_ms, p99_ms = took or (mean_ms, mean_ms, mean_ms)
    return Usage(
        key=key,
        start_ns=bucket,
        calls=calls,
        errors=errors,
        mean_ms=mean_ms,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        is_exact=is_exact,
        tokens=tuple(tokens),
    )
