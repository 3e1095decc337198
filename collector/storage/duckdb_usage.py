"""The use of models, tools and agents, summed up from the columns of spans."""

from collections import defaultdict
from typing import Final

from collector.storage.block_filters import BlockFilters, BlockQuery, within
from collector.storage.database import Database
from collector.storage.search_rows import ModelTokens, Usage, UsageGroup, UsagePage, UsageQuery
from scouter.model.genai.early import MODEL_OPERATIONS
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_IS_CALL: Final = (
    "coalesce(is_model_call, operation IN"
    f" ({', '.join(repr(each) for each in sorted(MODEL_OPERATIONS))}), false)"
)
"""Spans that an earlier version stored do not say it."""
_CALLS: Final = {
    UsageGroup.MODEL: "coalesce(response_model, request_model, '')",
    UsageGroup.PROVIDER: "coalesce(provider, '')",
    UsageGroup.SERVICE: "coalesce(service_name, '')",
    UsageGroup.CONVERSATION: "coalesce(conversation_id, '')",
}
"""Model calls are put together by these."""
_TOOK: Final = "greatest(end_ns - start_ns, 0)"
_SPANS: Final = {
    UsageGroup.OPERATION: "operation",
    UsageGroup.AGENT: "agent_name",
    UsageGroup.TOOL: "tool_name",
    UsageGroup.ERROR: "error_type",
}
"""Spans are put together by these columns, if they have a value there."""


def read_usage(database: Database, filters: BlockFilters, query: UsageQuery) -> UsagePage:
    """Sums by what is asked for, those with the most calls first.

    Cost: linear in the spans of the time asked for; about 0.1 µs for each. Memory grows with the
    number of values, of which DuckDB writes some to disk where they are many.
    """
    condition = _IS_CALL
    key = _CALLS.get(query.group_by)
    if key is None:
        key = _SPANS[query.group_by]
        condition = f"{key} <> ''"
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    among = (
        ("start_ns >= ?", query.since_ns),
        ("start_ns < ?", query.until_ns),
        ("seq <= ?", query.as_of),
    )
    bounds = [sql for sql, value in among if value is not None]
    given = [value for _, value in among if value is not None]
    stretches = filters.stretches(
        BlockQuery(table="spans", since_ns=query.since_ns, until_ns=query.until_ns)
    )
    where = " AND ".join([within(stretches), "space = ?", condition, *bounds])
    rows = database.read(
        f"""
        SELECT {key} AS key, count(*) AS calls, count(*) FILTER (status = ?), avg({_TOOK}) / 1e6
        FROM spans WHERE {where} GROUP BY key ORDER BY calls DESC, key
        LIMIT ? OFFSET ?
        """,
        [StatusCode.ERROR.value, query.space, *given, query.limit + 1, query.offset],
    )
    has_more = len(rows) > query.limit
    rows = rows[: query.limit]
    values: list[object] = [query.space, *given]
    if has_more or query.offset:
        # An estimate of a quantile takes kilobytes: there is none for what is not shown.
        where += f" AND {key} IN (SELECT unnest(?::VARCHAR[]))"
        values.append([row[0] for row in rows])
    longest = dict(
        database.read(
            f"SELECT {key} AS key, approx_quantile({_TOOK}, 0.95) / 1e6"
            f" FROM spans WHERE {where} GROUP BY key",
            values,
        )
    )
    tokens: defaultdict[str, list[ModelTokens]] = defaultdict(list)
    for each, response_model, request_model, calls, given_tokens, made_tokens in database.read(
        f"""
        SELECT {key} AS key, response_model, request_model, count(*),
            coalesce(sum(input_tokens), 0)::BIGINT, coalesce(sum(output_tokens), 0)::BIGINT
        FROM spans WHERE {where} AND {_IS_CALL} GROUP BY ALL ORDER BY ALL
        """,
        values,
    ):
        tokens[each].append(
            ModelTokens(
                models=tuple(name for name in (response_model, request_model) if name),
                calls=calls,
                input_tokens=given_tokens,
                output_tokens=made_tokens,
            )
        )
    items = tuple(
        Usage(
            key=each,
            calls=calls,
            errors=errors,
            mean_ms=mean_ms,
            p95_ms=longest.get(each, mean_ms),  # its spans may have expired meanwhile
            tokens=tuple(tokens[each]),
        )
        for each, calls, errors, mean_ms in rows
    )
    return UsagePage(
        items=items,
        next_offset=query.offset + len(rows) if has_more else None,
        as_of=query.as_of,
    )
