"""One act that several spans tell counts once: the rule of the engine, as far as columns go.

Instrumentors lie on top of each other, so one call of a model or a tool has up to three spans. Two
spans of one kind and trace are one act where

1. their response ids or call ids are equal,
2. else one is the parent of the other and their names fit, or
3. else two instrumentation libraries made them, and: of models, their tokens are equal, their names
   fit and their times overlap; of tools, their names are equal and one lies within the time of the
   other.

Ids or tokens that differ make two. Names fit where one begins with the other (a model and its
version) or ends with it (a tool and its framework's prefix), or where one is not told. Of an act
that span counts whose library tells tokens, then that of the library with the shorter spans.
"""

from typing import Final

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

SLACK_NS: Final = 60 * 10**9
"""Spans of one act begin within such a time; so far around a time asked for is looked."""
KIND: Final = (
    "coalesce(genai_kind, CASE WHEN is_model_call THEN 'model' WHEN tool_name <> '' THEN 'tool'"
    " WHEN operation = 'invoke_agent' THEN 'agent' ELSE 'other' END)"
)
"""What a span is; of those of an earlier version not all tell it yet."""
_COLUMNS: Final = (
    "trace_hash, trace_id, span_id, parent_span_id, start_ns, end_ns, status, service_name,"
    " operation, provider, request_model, response_model, agent_name, tool_name, conversation_id,"
    " error_type, input_tokens, output_tokens, cached_tokens, reasoning_tokens, act_hash,"
    " scope_hash"
)
_NAME: Final = "regexp_extract(lower(coalesce(tool_name, response_model, request_model)), '[^/]*$')"
_NO_OTHER: Final = (
    "(a.act_hash IS NULL OR b.act_hash IS NULL OR a.act_hash = b.act_hash)"
    " AND (a.input_tokens IS NULL OR b.input_tokens IS NULL OR a.input_tokens = b.input_tokens)"
    " AND (a.output_tokens IS NULL OR b.output_tokens IS NULL"
    " OR a.output_tokens = b.output_tokens)"
)
"""Nothing says that two are different calls."""
_FITS: Final = (
    "(a.act IS NULL OR b.act IS NULL OR CASE WHEN a.kind = 'tool'"
    " THEN ends_with(a.act, b.act) OR ends_with(b.act, a.act)"
    " ELSE starts_with(a.act, b.act) OR starts_with(b.act, a.act) END)"
)
_SAME: Final = "a.trace_hash = b.trace_hash AND a.kind = b.kind AND a.place <> b.place"
_PLACES: Final = "SELECT a.place AS one, b.place AS other FROM calls a JOIN calls b ON"
_INNER: Final = "a.start_ns <= b.start_ns AND b.end_ns <= a.end_ns"


def acts_sql(where: str) -> str:
    """SQL of common table expressions, the last of them `acts`: spans, those of each act once.

    Args:
        where: Which spans; those of one act together.
    """
    return f"""
    told AS MATERIALIZED (
        SELECT {_COLUMNS}, {KIND} AS kind, rowid AS place FROM spans WHERE {where}
    ),
    ranked AS (
        SELECT *, {_NAME} AS act, count(input_tokens) OVER layer = 0 AS is_silent,
            avg(end_ns - start_ns) OVER layer AS layer_ns
        FROM told WHERE kind IN ('model', 'embedding', 'tool')
        WINDOW layer AS (PARTITION BY trace_hash, kind, scope_hash)
    ),
    calls AS MATERIALIZED (
        SELECT *, row_number() OVER (
            PARTITION BY trace_hash, kind
            ORDER BY is_silent, layer_ns, scope_hash, end_ns - start_ns, start_ns DESC, span_id
        ) AS rank FROM ranked
    ),
    pairs AS (
        {_PLACES} {_SAME} AND a.act_hash = b.act_hash AND a.rank > b.rank AND {_FITS}
        UNION ALL
        SELECT CASE WHEN a.rank > b.rank THEN a.place ELSE b.place END, 0
        FROM calls a JOIN calls b ON {_SAME} AND a.span_id = b.parent_span_id
          AND {_NO_OTHER} AND {_FITS}
        UNION ALL
        {_PLACES} {_SAME} AND a.kind <> 'tool' AND a.scope_hash <> b.scope_hash
          AND a.input_tokens = b.input_tokens
          AND a.output_tokens IS NOT DISTINCT FROM b.output_tokens AND a.rank > b.rank
          AND a.start_ns < b.end_ns AND b.start_ns < a.end_ns AND {_NO_OTHER} AND {_FITS}
        UNION ALL
        {_PLACES} {_SAME} AND a.kind = 'tool' AND a.act = b.act AND a.scope_hash <> b.scope_hash
          AND a.rank > b.rank AND (({_INNER}) OR ({
        _INNER.replace("a.", "c.").replace("b.", "a.").replace("c.", "b.")
    })) AND {_NO_OTHER}
    ),
    acts AS (
        SELECT * FROM told WHERE place NOT IN (SELECT one FROM pairs)
    )"""
