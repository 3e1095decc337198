"""The use of models, tools and agents, summed up from the columns of spans."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from collector.storage.duckdb.database import Reads
from collector.storage.duckdb.usage_acts import KIND, SLACK_NS, repeats_sql
from collector.storage.log.span_codec import IS_SPAN
from collector.store.usage import ModelTokens, Usage, UsageGroup, UsagePage, UsageQuery
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_IS_CALL: Final = "kind IN ('model', 'embedding')"
_IS_COUNTED: Final = {UsageGroup.AGENT: "kind = 'agent'"}
"""The condition for spans that are calls; without a row all are."""
_MODEL: Final = "coalesce(response_model, request_model, '')"
_GROUPS: Final = {
    UsageGroup.MODEL: (_MODEL, _IS_CALL),
    UsageGroup.PROVIDER: ("coalesce(provider, '')", _IS_CALL),
    UsageGroup.SERVICE: ("coalesce(service_name, '')", _IS_CALL),
    UsageGroup.CONVERSATION: ("coalesce(conversation_id, '')", _IS_CALL),
    UsageGroup.FINISH_REASON: ("coalesce(finish_reason, '')", "kind = 'model'"),
    UsageGroup.OPERATION: ("operation", "operation <> ''"),
    UsageGroup.AGENT: ("agent_name", f"agent_name <> '' AND (kind = 'agent' OR {_IS_CALL})"),
    UsageGroup.TOOL: ("tool_name", "kind = 'tool' AND tool_name <> ''"),
    UsageGroup.ERROR: ("error_type", "error_type <> ''"),
}
"""By what spans are put together, and which ones."""
_STEPS: Final = 12
"""Steps of a route that are told; a longer one ends with an ellipsis."""
_TOOK: Final = "greatest(end_ns - start_ns, 0)"
_EXACT: Final = 1_000_000
"""Calls whose durations are sorted for their quantiles; an estimate takes little memory."""
_QUANTILES: Final = "[0.5, 0.95, 0.99]"

_MODELS: Final = "'model', 'embedding'"
_KINDS: Final = {
    UsageGroup.TOOL: "'tool'",
    UsageGroup.ROUTE: "'tool'",
    UsageGroup.OPERATION: f"{_MODELS}, 'tool'",
    UsageGroup.ERROR: f"{_MODELS}, 'tool'",
}
"""Kinds of which an act may be told several times; without a row those of models."""
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_SUMS: Final = ", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in _TOKENS)
_SAME: Final = "u.key = t.key AND u.bucket IS NOT DISTINCT FROM t.bucket"


def read_usage(database: Reads, query: UsageQuery) -> UsagePage:
    """Sums by what is asked for, those with the most calls first; by buckets in their order.

    Cost: linear in the spans of the time asked for; about 1 µs for each, 5 where
        all are of calls inside of calls. Memory grows with the
        number of values and of calls, of which DuckDB writes some to disk where they are many.
    """
    chosen, values = _chosen(query)
    counted = _IS_COUNTED.get(query.group_by, "true")
    rows = database.read(
        f"""
        WITH {chosen}
        SELECT key, bucket, count(*) FILTER ({counted}) AS calls,
            count(*) FILTER ({counted} AND is_failed), avg(took) FILTER ({counted}) / 1e6
        FROM chosen GROUP BY key, bucket ORDER BY bucket, calls DESC, key LIMIT ? OFFSET ?
        """,
        [*values, query.limit + 1, query.offset],
    )
    has_more = len(rows) > query.limit
    rows = rows[: query.limit]
    shown = "true"
    if has_more or query.offset:
        # A quantile takes memory for each group: there is none for what is not shown.
        shown = "key IN (SELECT unnest(?::VARCHAR[]))"
        values.append([row[0] for row in rows])
    is_exact = sum(row[2] for row in rows) <= _EXACT
    quantile = "quantile_disc" if is_exact else "approx_quantile"
    found: defaultdict[tuple[str, int | None], list[tuple[Any, ...]]] = defaultdict(list)
    for row in database.read(
        f"""
        WITH {chosen}, shown AS MATERIALIZED (FROM chosen WHERE {shown}),
        times AS (
            SELECT key, bucket, {quantile}(took, {_QUANTILES}) FILTER ({counted}) AS took
            FROM shown GROUP BY key, bucket
        ),
        used AS (
            SELECT key, bucket, response_model, request_model, count(*) AS calls, {_SUMS}
            FROM shown WHERE is_call GROUP BY key, bucket, response_model, request_model
        )
        SELECT t.*, u.* EXCLUDE (key, bucket) FROM times t LEFT JOIN used u ON {_SAME}
        ORDER BY response_model, request_model
        """,
        values,
    ):
        found[row[:2]].append(row[2:])
    return UsagePage(
        items=tuple(_usage(row, found.get(row[:2], []), is_exact=is_exact) for row in rows),
        next_offset=query.offset + len(rows) if has_more else None,
        as_of=query.as_of or 0,
    )


def _chosen(query: UsageQuery) -> tuple[str, list[object]]:
    """SQL of common table expressions, the last of them the spans that are summed up."""
    key, condition = _GROUPS.get(query.group_by, ("step", "step <> ''"))
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    since_ns = None if query.since_ns is None else query.since_ns - SLACK_NS
    until_ns = None if query.until_ns is None else query.until_ns + SLACK_NS
    among = (
        ("space = ?", query.space),
        ("start_ns >= ?", since_ns),
        ("start_ns < ?", until_ns),
        ("seq <= ?", query.as_of),
    )
    where = " AND ".join([IS_SPAN, *(sql for sql, value in among if value is not None)])
    given: list[object] = [value for _, value in among if value is not None]
    edges = (("start_ns >= ?", query.since_ns), ("start_ns < ?", query.until_ns))
    inside = [condition, *(sql for sql, value in edges if value is not None)]
    bucket = "NULL::BIGINT"
    if query.bucket_ns is not None:
        size = f"{query.bucket_ns:d}"
        bucket = f"start_ns - (start_ns % {size} + {size}) % {size}"
    repeats = repeats_sql(where, _KINDS.get(query.group_by, _MODELS))
    edge_values = [value for _, value in edges if value is not None]
    values = [*given, *given, *edge_values]
    if query.group_by is UsageGroup.ROUTE:
        return f"{repeats}, {_routes(where, inside, bucket)}", values
    sql = f"""{repeats}, chosen AS (
            SELECT {key} AS key, {bucket} AS bucket, {_TOOK} AS took, kind, {_IS_CALL} AS is_call,
                status = {StatusCode.ERROR.value} AS is_failed, response_model, request_model,
                {", ".join(_TOKENS)}
            FROM (SELECT * EXCLUDE (kind), {KIND} AS kind, rowid AS place FROM spans WHERE {where})
            WHERE {" AND ".join(inside)} AND place NOT IN (FROM repeats)
        )"""
    return sql, values


def _routes(where: str, inside: Sequence[str], bucket: str) -> str:
    """SQL of one row for each trace: its agents and tools in the order of their begin."""
    step = "CASE kind WHEN 'tool' THEN tool_name WHEN 'agent' THEN agent_name END"
    order = "start_ns, span_id"
    return f"""steps AS (
            SELECT *, step IS DISTINCT FROM lag(step)
                OVER (PARTITION BY trace_id ORDER BY {order}) AS is_new
            FROM (SELECT *, {step} AS step FROM (
                SELECT * EXCLUDE (kind), {KIND} AS kind, rowid AS place FROM spans WHERE {where}))
            WHERE {" AND ".join(inside)} AND place NOT IN (FROM repeats)
        ),
        routes AS (
            SELECT list(step ORDER BY {order}) FILTER (is_new) AS steps, min(start_ns) AS start_ns,
                max(end_ns) AS end_ns, bool_or(status = {StatusCode.ERROR.value}) AS is_failed
            FROM steps GROUP BY trace_id
        ),
        chosen AS (
            SELECT array_to_string(steps[:{_STEPS}], ' > ')
                    || CASE WHEN len(steps) > {_STEPS} THEN ' > …' ELSE '' END AS key,
                {bucket} AS bucket, {_TOOK} AS took, 'route' AS kind, false AS is_call, is_failed,
                NULL::VARCHAR AS response_model, NULL::VARCHAR AS request_model,
                {", ".join(f"NULL::BIGINT AS {name}" for name in _TOKENS)}
            FROM routes
        )"""


def _usage(row: tuple[Any, ...], found: list[tuple[Any, ...]], *, is_exact: bool) -> Usage:
    """One sum.

    Args:
        row: Key, start of the bucket, calls, errors, mean duration.
        found: For each model the quantiles of all, the model's names, its calls and tokens.
        is_exact: The quantiles are no estimates.
    """
    key, bucket, calls, errors, mean_ms = row
    took: list[int] | None = found[0][0] if found else None  # they may have expired meanwhile
    p50_ms, p95_ms, p99_ms = (each / 1e6 for each in took) if took else (mean_ms,) * 3
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
        tokens=tuple(_model_tokens(*each[1:]) for each in found if each[3] is not None),
    )


def _model_tokens(
    response_model: str | None, request_model: str | None, calls: int, *counts: int
) -> ModelTokens:
    given, made, cached, reasoned = counts
    return ModelTokens(
        models=tuple(name for name in (response_model, request_model) if name),
        calls=calls,
        input_tokens=given,
        output_tokens=made,
        cached_tokens=cached,
        reasoning_tokens=reasoned,
    )
