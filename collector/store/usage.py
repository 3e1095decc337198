"""The use of models, tools and agents, summed up from the columns of spans."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from collector.prices import ModelTokens
from collector.store.reads import Reads, Values
from scouter.model.span import StatusCode

SLACK_NS: Final = 60 * 10**9
"""Spans of one act begin within such a time; so far around a time requested is looked."""
_NAME: Final = (
    r"coalesce(regexp_replace(tool_name,"
    r" '^(mcp__(?:[^_]|_[^_])+__|[A-Z]\w*-)|\.__call__$', '', 'g'),"
    " regexp_replace(lower(coalesce(response_model, request_model)), '^.*/', ''))"
)
"""SQL for the name of a call: a tool's without its framework, a model's without its provider."""
_SAME_ARGUMENTS: Final = (
    "(a.scope_hash <> b.scope_hash OR a.arguments_hash IS NULL"
    " OR b.arguments_hash IS NULL OR a.arguments_hash = b.arguments_hash)"
)
"""SQL that is false where one library tells two different arguments."""
_NO_OTHER: Final = (
    f"{_SAME_ARGUMENTS} AND (a.act_hash IS NULL OR b.act_hash IS NULL OR a.act_hash = b.act_hash)"
    " AND (a.input_tokens IS NULL OR b.input_tokens IS NULL OR a.input_tokens = b.input_tokens)"
    " AND (a.output_tokens IS NULL OR b.output_tokens IS NULL"
    " OR a.output_tokens = b.output_tokens)"
)
"""Nothing says that two are different calls."""
_FITS: Final = (
    "(a.act IS NULL OR b.act IS NULL OR a.act = b.act OR (a.genai_kind <> 'tool'"
    " AND (starts_with(a.act, b.act) OR starts_with(b.act, a.act))))"
)
_SAME: Final = "a.trace_id = b.trace_id AND a.genai_kind = b.genai_kind AND a.span_id <> b.span_id"
_AT_ONCE: Final = "a.start_ns < b.end_ns AND b.start_ns < a.end_ns"
_PLACES: Final = "SELECT a.trace_id, a.span_id FROM calls a JOIN calls b ON"
_INNER: Final = "a.start_ns <= b.start_ns AND b.end_ns <= a.end_ns"
_OUTER: Final = "b.start_ns <= a.start_ns AND a.end_ns <= b.end_ns"


def repeats_sql(where: str, kinds: str) -> str:
    """SQL of common table expressions, the last of them `repeats`: spans that count no more.

    The query looks only into traces that can have repeats: two instrumentors tell of a kind, one
    call is the parent of another, or an id is there twice. Most traces have none of these.

    Args:
        where: SQL that is true of the spans; all spans of one act have to match together.
        kinds: Kinds of span whose repeats are wanted, as a list of SQL.
    """
    return f"""
    candidates AS MATERIALIZED (
        SELECT trace_id, span_id, parent_span_id, name, start_ns, end_ns, tool_name,
            response_model, request_model, input_tokens, output_tokens, act_hash, arguments_hash,
            scope_hash, genai_kind
        FROM spans WHERE {where} AND genai_kind IN ({kinds})
    ),
    suspects AS (
        SELECT trace_id FROM candidates GROUP BY trace_id, genai_kind
        HAVING min(scope_hash) <> max(scope_hash)
        UNION
        SELECT c.trace_id FROM candidates c JOIN candidates p ON p.trace_id = c.trace_id
            AND p.genai_kind = c.genai_kind AND p.span_id = c.parent_span_id
        UNION
        SELECT trace_id FROM candidates WHERE act_hash IS NOT NULL
        GROUP BY trace_id, genai_kind, act_hash HAVING count(*) > 1
    ),
    ranked AS (
        SELECT c.*, {_NAME} AS act, count(input_tokens) OVER layer = 0 AS is_silent,
            avg(end_ns - start_ns) OVER layer AS layer_ns
        FROM candidates c WHERE trace_id IN (SELECT trace_id FROM suspects)
        WINDOW layer AS (PARTITION BY trace_id, genai_kind, scope_hash)
    ),
    calls AS MATERIALIZED (
        SELECT r.*, row_number() OVER (
            PARTITION BY trace_id, genai_kind
            ORDER BY is_silent, layer_ns, scope_hash, end_ns - start_ns, start_ns DESC, span_id
        ) AS place FROM ranked r
    ),
    repeats AS (
        {_PLACES} {_SAME} AND a.act_hash = b.act_hash AND a.place > b.place AND {_FITS}
          AND ({_SAME_ARGUMENTS} OR (a.name <> b.name AND {_AT_ONCE}))
        UNION
        SELECT a.trace_id, CASE WHEN a.place > b.place THEN a.span_id ELSE b.span_id END
        FROM calls a JOIN calls b ON {_SAME} AND a.span_id = b.parent_span_id
          AND {_NO_OTHER} AND {_FITS}
        UNION
        {_PLACES} {_SAME} AND a.genai_kind <> 'tool' AND a.scope_hash <> b.scope_hash
          AND a.input_tokens = b.input_tokens
          AND a.output_tokens IS NOT DISTINCT FROM b.output_tokens AND a.place > b.place
          AND {_AT_ONCE} AND {_NO_OTHER} AND {_FITS}
        UNION
        {_PLACES} {_SAME} AND a.genai_kind = 'tool' AND a.act = b.act
          AND a.scope_hash <> b.scope_hash
          AND a.place > b.place AND (({_INNER}) OR ({_OUTER})) AND {_NO_OTHER}
    )"""


class UsageGroup(StrEnum):
    """Property by which spans are grouped.

    The first six groups count calls of models. Tool and agent count executions of these. Operation
    and error count every span that has such a value. Route counts traces by the order of their
    agents and tools.
    """

    MODEL = "model"
    PROVIDER = "provider"
    SERVICE = "service"
    VERSION = "version"
    CONVERSATION = "conversation"
    FINISH_REASON = "finish_reason"
    OPERATION = "operation"
    AGENT = "agent"
    TOOL = "tool"
    ERROR = "error"
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Filter of the spans to sum up; times are those at which spans began."""

    space: str
    group_by: UsageGroup
    bucket_ns: int | None = None
    """Length of the buckets of time, counted from the epoch; None for one sum over all."""
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 1000
    offset: int = 0
    """Number of items to leave out at the beginning of the list."""
    as_of: int | None = None
    """Only spans of this commit and earlier ones, so that the pages of one listing fit together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Spans with one value of what they are put together by."""

    key: str
    """Empty for model calls that do not tell it."""
    start_ns: int | None = None
    """Start of the bucket; None without buckets."""
    calls: int
    errors: int
    mean_ms: float | None
    """None without a call, as the quantiles."""
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    tokens: tuple[ModelTokens, ...]
    """Tokens of the model calls among the spans, by model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """Sums by bucket; within a bucket the most calls come first, equal ones by key."""

    items: tuple[Usage, ...]
    next_offset: int | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""


MODELS: Final = "'model', 'embedding'"
"""SQL of the kinds of spans that are calls of models."""
_IS_CALL: Final = f"genai_kind IN ({MODELS})"
_IS_COUNTED: Final = {UsageGroup.AGENT: "genai_kind = 'agent'"}
"""The condition for spans that are calls; without a row all are."""
_GROUPS: Final = {
    UsageGroup.MODEL: ("coalesce(response_model, request_model, '')", _IS_CALL),
    UsageGroup.PROVIDER: ("coalesce(provider, '')", _IS_CALL),
    UsageGroup.SERVICE: ("coalesce(service_name, '')", _IS_CALL),
    UsageGroup.VERSION: (
        "coalesce(trim(service_name || ' ' || service_version), '')",
        f"{_IS_CALL} AND service_version <> ''",
    ),
    UsageGroup.CONVERSATION: ("coalesce(conversation_id, '')", _IS_CALL),
    UsageGroup.FINISH_REASON: ("coalesce(finish_reason, '')", "genai_kind = 'model'"),
    UsageGroup.OPERATION: ("operation", "operation <> ''"),
    UsageGroup.AGENT: ("agent_name", f"agent_name <> '' AND (genai_kind = 'agent' OR {_IS_CALL})"),
    UsageGroup.TOOL: ("tool_name", "genai_kind = 'tool' AND tool_name <> ''"),
    UsageGroup.ERROR: ("error_type", "error_type <> ''"),
}
"""By what spans are put together, and which ones."""
_STEP: Final = "CASE genai_kind WHEN 'tool' THEN tool_name WHEN 'agent' THEN agent_name END"
_STEPS: Final = 12
"""Steps of a route that are reported; a longer one ends with an ellipsis."""
_KINDS: Final = {
    UsageGroup.TOOL: "'tool'",
    UsageGroup.ROUTE: "'tool'",
    UsageGroup.OPERATION: f"{MODELS}, 'tool'",
    UsageGroup.ERROR: f"{MODELS}, 'tool'",
}
"""Kinds of which an act may be reported several times; without a row those of models."""
_TOKENS: Final = (
    "input_tokens", "output_tokens", "cached_tokens", "cache_written_tokens", "reasoning_tokens",
    "audio_input_tokens", "audio_output_tokens",
)  # fmt: skip
TOKEN_SUMS: Final = f"""
    count(*), {", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in _TOKENS)},
    coalesce(sum(cost_usd), 0)::DOUBLE PRECISION, count(*) FILTER (WHERE cost_usd IS NULL),
    count(*) FILTER (WHERE cost_usd IS DISTINCT FROM 0 AND (input_tokens IS NULL
        OR (output_tokens IS NULL AND genai_kind = 'model')))
"""
"""Columns over calls of one model: the fields of `ModelTokens` behind the first."""


def model_tokens(response: str | None, request: str | None, *sums: Any) -> ModelTokens:  # noqa: ANN401 a row
    """Read the sums over the calls of one model: its two names, then `TOKEN_SUMS`."""
    return ModelTokens(tuple(name for name in (response, request) if name), *sums)


_IS_FAILED: Final = f"status = {StatusCode.ERROR.value}"
_TOOK: Final = "greatest(end_ns - start_ns, 0)"


class UsageReads(Reads):
    """Reads of what was used."""

    def usage(self, query: UsageQuery) -> UsagePage:
        """Sum up the use of models, tools and agents, those with the most calls first.

        By buckets they come in their order. Without `as_of` the sums are as of now.

        Cost: linear in the spans of the time requested; about 1 µs for each, 5 where all are of
            calls inside of calls.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query, values = replace(query, as_of=as_of), Values()
        chosen = _chosen(query, values)
        counted = _IS_COUNTED.get(query.group_by, "true")
        limit, offset = (values.of(n, "BIGINT") for n in (query.limit + 1, query.offset))
        rows = self.read(
            f"""
            WITH {chosen}
            SELECT key, bucket, count(*) FILTER (WHERE {counted}) AS calls,
                count(*) FILTER (WHERE {counted} AND is_failed),
                avg(took) FILTER (WHERE {counted})::DOUBLE PRECISION / 1e6,
                percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took)
                    FILTER (WHERE {counted})
            FROM chosen GROUP BY key, bucket
            ORDER BY bucket, calls DESC, key LIMIT {limit} OFFSET {offset}
            """,
            values,
        )
        has_more, rows = len(rows) > query.limit, rows[: query.limit]
        tokens = self._tokens(query, [row[0] for row in rows])
        return UsagePage(
            items=tuple(_usage(row, tokens.get(row[:2], ())) for row in rows),
            next_offset=query.offset + len(rows) if has_more else None,
            as_of=as_of,
        )

    def _tokens(
        self, query: UsageQuery, keys: Sequence[str]
    ) -> defaultdict[tuple[str, int | None], list[ModelTokens]]:
        """Tokens by what is summed up and bucket, a row for each model."""
        found: defaultdict[tuple[str, int | None], list[ModelTokens]] = defaultdict(list)
        if not keys or query.group_by is UsageGroup.ROUTE:
            return found
        values = Values()
        for key, bucket, *row in self.read(
            f"""
            WITH {_chosen(query, values)}
            SELECT key, bucket, response_model, request_model, {TOKEN_SUMS}
            FROM chosen
            WHERE {_IS_CALL} AND key IN (SELECT unnest({values.of(list(keys), "TEXT[]")}))
            GROUP BY key, bucket, response_model, request_model
            ORDER BY response_model NULLS LAST, request_model NULLS LAST
            """,
            values,
        ):
            found[key, bucket].append(model_tokens(*row))
        return found


def _chosen(query: UsageQuery, values: Values) -> str:
    """SQL of common table expressions, the last of them the spans that are summed up."""
    key, condition = _GROUPS.get(query.group_by, (_STEP, f"{_STEP} <> ''"))
    where = f"is_event = 0 AND space = {values.of(query.space)}"
    where += f" AND seq <= {values.of(query.as_of, 'BIGINT')}"
    inside = condition
    if query.since_ns is not None:
        where += f" AND start_ns >= {values.of(query.since_ns - SLACK_NS, 'BIGINT')}"
        inside += f" AND start_ns >= {values.of(query.since_ns, 'BIGINT')}"
    if query.until_ns is not None:
        where += f" AND start_ns < {values.of(query.until_ns + SLACK_NS, 'BIGINT')}"
        inside += f" AND start_ns < {values.of(query.until_ns, 'BIGINT')}"
    bucket = "NULL::BIGINT"
    if query.bucket_ns is not None:
        bucket = f"start_ns - start_ns % {values.of(query.bucket_ns, 'BIGINT')}"
    once = f"""
        FROM spans s WHERE {where} AND {inside} AND NOT EXISTS (
            SELECT 1 FROM repeats r WHERE r.trace_id = s.trace_id AND r.span_id = s.span_id)
    """
    repeats = repeats_sql(where, _KINDS.get(query.group_by, MODELS))
    if query.group_by is UsageGroup.ROUTE:
        return f"{repeats}, {_routes(once, bucket)}"
    return f"""{repeats}, chosen AS (
        SELECT {key} AS key, {bucket} AS bucket, {_TOOK} AS took, genai_kind,
            {_IS_FAILED} AS is_failed, response_model, request_model, cost_usd,
            {", ".join(_TOKENS)}
        {once}
    )"""


def _routes(once: str, bucket: str) -> str:
    """SQL of one row for each trace: its agents and tools in the order of their begin."""
    steps = "(array_agg(step ORDER BY start_ns, span_id) FILTER (WHERE is_new))"
    return f"""steps AS (
            SELECT trace_id, span_id, start_ns, end_ns, status, {_STEP} AS step,
                {_STEP} IS DISTINCT FROM lag({_STEP})
                    OVER (PARTITION BY trace_id ORDER BY start_ns, span_id) AS is_new
            {once}
        ),
        routes AS (
            SELECT {steps}[1:{_STEPS}] AS route, count(*) FILTER (WHERE is_new) AS n,
                min(start_ns) AS start_ns, max(end_ns) AS end_ns,
                bool_or({_IS_FAILED}) AS is_failed
            FROM steps GROUP BY trace_id
        ),
        chosen AS (
            SELECT array_to_string(route, ' > ')
                    || CASE WHEN n > {_STEPS} THEN ' > …' ELSE '' END AS key,
                {bucket} AS bucket, {_TOOK} AS took, is_failed
            FROM routes
        )"""


def _usage(row: tuple[Any, ...], tokens: Sequence[ModelTokens]) -> Usage:
    key, bucket, calls, errors, mean_ms, took = row
    p50_ms, p95_ms, p99_ms = (each / 1e6 for each in took) if calls else (None,) * 3
    return Usage(
        key=key,
        start_ns=bucket,
        calls=calls,
        errors=errors,
        mean_ms=mean_ms,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        tokens=tuple(tokens),
    )
