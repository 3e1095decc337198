"""One act that several spans tell counts once: the rule of the engine, as far as columns go.

Instrumentors lie on top of each other, so one call of a model or a tool has up to three spans. Two
spans of one kind and trace are one act where

1. their response ids or call ids are equal,
2. else one is the parent of the other and their names fit, or
3. else two instrumentation libraries made them, and: of models, their tokens are equal, their names
   fit and their times overlap; of tools, their names are equal and one lies within the time of the
   other.

Ids or tokens that differ make two, and arguments that one library tells differently, as of a tool
that calls itself. Several libraries tell arguments each in its own way. Names of tools fit where
they are equal without what a framework puts around them, names of models where one begins with the
other, as a version does. Of an act that span counts whose library tells tokens, then that of the
library with the shorter spans.

The engine also compares messages, and arguments that different libraries tell; and it looks through
spans that are no calls.
"""

from typing import Final

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

SLACK_NS: Final = 60 * 10**9
"""Spans of one act begin within such a time; so far around a time asked for is looked."""
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
