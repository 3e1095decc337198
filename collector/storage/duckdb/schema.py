"""The tables, as numbered steps that are each applied once.

Every table is append-only and has the commit's number first; nothing relies on an index. A row of
`spans` holds what the span is found by; its bytes are in the span log, at `frame` + `span_at`. A
row with `is_event` is a log event, below the span that it belongs to. Rows are removed only where a
better span with the same key takes their place. A row of `records` gets the session, and if it is
derived the context, that its trace tells later (`duckdb_settle`); a row of `spans` the columns that
the program that stored it did not know (`span_fill`). `totals` and `rollups` hold changes: the
count of a key is the sum of its rows, which compaction adds up. The rows of a key of `sender_drops`
are stretches of its drops; compaction leaves the one around them all. `erased` has the hashes of
what somebody had erased, so that it does not come back; `erasures` what is left to do.

Columns that may hold texts of megabytes are stored uncompressed. DuckDB tries every way to compress
a column at each checkpoint: with long texts that costs most of the time of ingest, and checkpoints
fail for want of memory (eight texts of 10 MB at a limit of 128 MB).
"""

from typing import Final


def _values(table: str, names: str) -> str:
    """SQL for the values of some columns as JSON, with commas between them.

    A name that ends in `?` is one of a column that has JSON; in `!`, one whose NULL is no text.
    """
    parts: list[str] = []
    for name in names.split():
        column = f"{table}.{name.rstrip('?!')}"
        if name.endswith("!"):
            column = f"coalesce({column}, '')"
        text = column if name.endswith("?") else f"to_json({column})::VARCHAR"
        parts.append(f"coalesce({text}, 'null')")
    return f"concat_ws(',', {', '.join(parts)})"


_EVALUATION: Final = _values(
    "e",
    "space evaluation_id record_uid revision record_id session_id trace_id profile_uid"
    " profile_digest profile_name alias outcome completeness missing_parents reads_spans"
    " service_name service_version environment tags? created_ns evaluated_ns duration_ns input_seq"
    " scope",
)
_RESULT: Final = _values(
    "t",
    "task_id task_type outcome reason expected? actual? message operator condition stage question!"
    " answer?",
)
_USAGE: Final = _values("t", "judge_calls judge_cached input_tokens output_tokens cost_usd")
_MOVED: Final = (
    "expected actual message operator condition stage judge_calls judge_cached input_tokens"
    " output_tokens cost_usd question answer"
)
"""Columns of results whose place is in the text of their evaluation, from step 7 on."""

# All SQL is put together from this module's own words.
# ruff: noqa: S608

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE IF NOT EXISTS spans (
        seq BIGINT, space VARCHAR, received_ns BIGINT, frame BIGINT,
        trace_hash BIGINT, trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR,
        name VARCHAR, kind TINYINT, start_ns BIGINT, end_ns BIGINT, status TINYINT,
        service_name VARCHAR, service_version VARCHAR, environment VARCHAR, process VARCHAR,
        operation VARCHAR, provider VARCHAR, request_model VARCHAR, response_model VARCHAR,
        agent_name VARCHAR, tool_name VARCHAR, conversation_id VARCHAR, error_type VARCHAR,
        session_id VARCHAR, span_at INTEGER, span_size INTEGER, resource_at INTEGER,
        resource_size INTEGER, scope_at INTEGER, scope_size INTEGER, checksum UINTEGER
    );
    CREATE TABLE IF NOT EXISTS records (
        seq BIGINT, space VARCHAR, received_ns BIGINT, uid_hash BIGINT, uid VARCHAR, digest VARCHAR,
        profile_ref VARCHAR, profile_uid VARCHAR, profile_name VARCHAR, alias VARCHAR,
        record_id VARCHAR, session_id VARCHAR, trace_id VARCHAR, created_ns BIGINT,
        context VARCHAR USING COMPRESSION uncompressed, tags VARCHAR
    );
    CREATE TABLE IF NOT EXISTS evaluations (
        seq BIGINT, ordinal INTEGER, space VARCHAR, evaluation_id VARCHAR,
        uid_hash BIGINT, record_uid VARCHAR, revision INTEGER, record_id VARCHAR,
        session_id VARCHAR, trace_id VARCHAR,
        profile_uid VARCHAR, profile_digest VARCHAR, profile_name VARCHAR, alias VARCHAR,
        outcome VARCHAR, completeness VARCHAR, missing_parents INTEGER, reads_spans BOOLEAN,
        service_name VARCHAR, service_version VARCHAR, environment VARCHAR, tags VARCHAR,
        created_ns BIGINT, evaluated_ns BIGINT, duration_ns BIGINT, input_seq BIGINT, scope VARCHAR
    );
    CREATE TABLE IF NOT EXISTS task_results (
        seq BIGINT, space VARCHAR, evaluation_id VARCHAR, record_uid VARCHAR, revision INTEGER,
        profile_uid VARCHAR, profile_digest VARCHAR, profile_name VARCHAR, alias VARCHAR,
        session_id VARCHAR, service_name VARCHAR, service_version VARCHAR, environment VARCHAR,
        created_ns BIGINT, evaluated_ns BIGINT, position INTEGER, task_id VARCHAR,
        task_type VARCHAR, outcome VARCHAR, reason VARCHAR,
        expected VARCHAR USING COMPRESSION uncompressed,
        actual VARCHAR USING COMPRESSION uncompressed,
        message VARCHAR USING COMPRESSION uncompressed, operator VARCHAR, condition BOOLEAN,
        stage INTEGER
    );
    CREATE TABLE IF NOT EXISTS profiles (
        seq BIGINT, ordinal INTEGER, space VARCHAR, uid VARCHAR, digest VARCHAR, name VARCHAR,
        alias VARCHAR, body VARCHAR, registered_ns BIGINT, is_active BOOLEAN
    );
    CREATE TABLE IF NOT EXISTS dead_letters (
        seq BIGINT, space VARCHAR, letter_id VARCHAR, kind VARCHAR, reason VARCHAR, message VARCHAR,
        source VARCHAR, payload BLOB USING COMPRESSION uncompressed, uid VARCHAR,
        received_ns BIGINT, was_accepted BOOLEAN
    );
    CREATE TABLE IF NOT EXISTS alert_events (
        seq BIGINT, ordinal INTEGER, space VARCHAR, profile_uid VARCHAR, state VARCHAR,
        at_ns BIGINT, passed BIGINT, total BIGINT
    );
    CREATE TABLE IF NOT EXISTS totals (
        seq BIGINT, name VARCHAR, space VARCHAR, profile VARCHAR, alias VARCHAR, task VARCHAR,
        label VARCHAR, n BIGINT
    );
    CREATE TABLE IF NOT EXISTS rollups (
        seq BIGINT, space VARCHAR, hour_ns BIGINT, profile_uid VARCHAR, profile_digest VARCHAR,
        profile_name VARCHAR, alias VARCHAR, task_id VARCHAR, position INTEGER, outcome VARCHAR,
        gated BOOLEAN, n BIGINT
    );
    """,
    """
    CREATE TABLE IF NOT EXISTS erased (seq BIGINT, space VARCHAR, kind VARCHAR, key_hash BIGINT);
    CREATE TABLE IF NOT EXISTS erasures (
        seq BIGINT, step VARCHAR, space VARCHAR, trace_id VARCHAR, span_id VARCHAR
    );
    """,
    f"""
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS is_model_call BOOLEAN;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS input_tokens UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS output_tokens UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS attribute_hashes UINTEGER[];
    CREATE TABLE IF NOT EXISTS blocks (
        seq BIGINT, of_table VARCHAR, first_seq BIGINT, first_ns BIGINT, last_ns BIGINT,
        {", ".join(f"bits_{part} BLOB" for part in range(8))}
    );
    """,
    """
    ALTER TABLE evaluations ADD COLUMN IF NOT EXISTS pending INTEGER;
    ALTER TABLE evaluations ADD COLUMN IF NOT EXISTS was_decided BOOLEAN;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS judge_calls INTEGER;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS input_tokens BIGINT;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS output_tokens BIGINT;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS cost_usd DOUBLE;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS question VARCHAR;
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS answer VARCHAR;
    """,
    """
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS judge_cached INTEGER;
    INSERT INTO totals
    SELECT 0, 'pending', e.space, '', '', '', '', sum(e.pending)::BIGINT FROM evaluations e
    WHERE e.pending > 0 AND NOT EXISTS (FROM totals WHERE name = 'pending') AND NOT EXISTS (
        FROM evaluations newer WHERE newer.revision > e.revision AND newer.space = e.space
          AND newer.record_uid = e.record_uid)
    GROUP BY e.space;
    """,
    """
    DELETE FROM blocks WHERE of_table = 'evaluations';
    """,
    f"""
    ALTER TABLE evaluations ADD COLUMN IF NOT EXISTS body VARCHAR;
    UPDATE evaluations AS e SET body = concat(
        '[[', {_EVALUATION}, ',', coalesce(e.was_decided, e.revision > 1), '],[', r.results, ']]'
    ) FROM (
        SELECT v.evaluation_id, string_agg(
            concat('[', {_RESULT}, ',', CASE WHEN t.judge_calls IS NULL THEN 'null' ELSE
                concat('[', {_USAGE}, ']') END, ']'), ',' ORDER BY t.position
        ) FILTER (t.seq IS NOT NULL) AS results
        FROM evaluations v LEFT JOIN task_results t ON t.evaluation_id = v.evaluation_id
        WHERE v.body IS NULL GROUP BY v.evaluation_id
    ) r WHERE r.evaluation_id = e.evaluation_id
    """,
    ";".join(f"ALTER TABLE task_results DROP COLUMN IF EXISTS {each}" for each in _MOVED.split()),
    """
    CREATE TABLE IF NOT EXISTS calibrations (
        seq BIGINT, ordinal INTEGER, digest VARCHAR, body VARCHAR, added_ns BIGINT
    );
    CREATE TABLE IF NOT EXISTS gold_verdicts (
        seq BIGINT, ordinal INTEGER, space VARCHAR, alias VARCHAR, task_id VARCHAR, judge VARCHAR,
        slot BIGINT, item VARCHAR, is_good BOOLEAN, outcome VARCHAR, reason VARCHAR, at_ns BIGINT
    );
    """,
    """
    DELETE FROM blocks;
    """,
    """
    ALTER TABLE evaluations ADD COLUMN IF NOT EXISTS is_partial BOOLEAN;
    """,
    # Nothing changed in the tables: this step kept programs of version 11 away from the files in
    # `traces/`, which later versions do not have.
    "",
    """
    CREATE TABLE IF NOT EXISTS sender_drops (
        seq BIGINT, space VARCHAR, sender VARCHAR, reason VARCHAR, told BIGINT, total BIGINT,
        at_ns BIGINT
    );
    """,
    """
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS is_event BOOLEAN;
    """,
    # Spans that an earlier version stored have NULL in them until `span_fill` has come by.
    """
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS genai_kind VARCHAR;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS cached_tokens UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS reasoning_tokens UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS act_hash UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS scope_hash UINTEGER;
    """,
    # NULL where the outcome says it: 1 passed, 0 failed, none else. Of what judges decided before
    # there were scores, the score is the number that was compared, as `score_of` reads it.
    """
    ALTER TABLE task_results ADD COLUMN IF NOT EXISTS score DOUBLE;
    UPDATE task_results AS t SET score = given.score FROM (
        SELECT r.evaluation_id, r.position, r.outcome,
            TRY_CAST(json_extract_string(e.body, concat('$[1][', r.position, '][5]')) AS DOUBLE)
                AS score,
            json_type(e.body, concat('$[1][', r.position, '][5]')) AS kind
        FROM task_results r JOIN evaluations e ON e.evaluation_id = r.evaluation_id
        WHERE r.task_type = 'LLMJudge' AND r.outcome IN ('passed', 'failed')
    ) given
    WHERE t.evaluation_id = given.evaluation_id AND t.position = given.position
        AND given.kind IN ('BIGINT', 'UBIGINT', 'DOUBLE')
        AND abs(given.score) <= 9007199254740992
        AND given.score <> CASE given.outcome WHEN 'passed' THEN 1 ELSE 0 END
    """,
    """
    CREATE TABLE IF NOT EXISTS drift_states (
        seq BIGINT, ordinal INTEGER, name VARCHAR, body VARCHAR
    );
    CREATE TABLE IF NOT EXISTS drift_events (
        seq BIGINT, ordinal INTEGER, space VARCHAR, alert_id VARCHAR, at_ns BIGINT, state VARCHAR,
        body VARCHAR
    );
    """,
    # Searches need no filters.
    """
    DROP TABLE IF EXISTS blocks;
    """,
    """
    CREATE TABLE IF NOT EXISTS drift_deliveries (
        seq BIGINT, ordinal INTEGER, space VARCHAR, alert_id VARCHAR, channel VARCHAR,
        alert_state VARCHAR, changed_ns BIGINT, at_ns BIGINT, state VARCHAR, attempts INTEGER,
        answer VARCHAR
    );
    """,
    """
    CREATE TABLE IF NOT EXISTS runs (
        seq BIGINT, ordinal INTEGER, space VARCHAR, run_id VARCHAR, name VARCHAR, added_ns BIGINT,
        added_by VARCHAR, summary VARCHAR, body BLOB USING COMPRESSION uncompressed
    );
    """,
    """
    CREATE TABLE IF NOT EXISTS labels (
        seq BIGINT, ordinal INTEGER, space VARCHAR, uid VARCHAR, record_id VARCHAR, alias VARCHAR,
        task_id VARCHAR, rater VARCHAR, is_good BOOLEAN, notes VARCHAR, at_ns BIGINT,
        added_by VARCHAR
    );
    """,
    # The stored spans that can have these are read again by `span_fill`.
    """
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS arguments_hash UINTEGER;
    ALTER TABLE spans ADD COLUMN IF NOT EXISTS finish_reason VARCHAR;
    UPDATE spans SET genai_kind = NULL WHERE genai_kind IN ('model', 'tool');
    """,
    """
    ALTER TABLE labels ADD COLUMN IF NOT EXISTS score DOUBLE;
    """,
    """
    ALTER TABLE labels ADD COLUMN IF NOT EXISTS is_blind BOOLEAN;
    """,
    """
    ALTER TABLE labels ADD COLUMN IF NOT EXISTS queue_order VARCHAR;
    ALTER TABLE labels ADD COLUMN IF NOT EXISTS stratum VARCHAR;
    ALTER TABLE labels ADD COLUMN IF NOT EXISTS stratum_size BIGINT;
    """,
)
"""Step n (counted from 1) takes a store of version n - 1 to version n. Never edit one: add one.

A new store gets the tables that all steps leave at once; `new_tables` knows the forms of statements
that do so.

A statement may run twice, as each is committed on its own: adding six columns to five million rows
in one transaction takes 100 MB.
"""

TABLES: Final = (
    "spans",
    "records",
    "evaluations",
    "task_results",
    "profiles",
    "dead_letters",
    "alert_events",
    "totals",
    "rollups",
    "erased",
    "erasures",
    "calibrations",
    "gold_verdicts",
    "sender_drops",
    "drift_states",
    "drift_events",
    "drift_deliveries",
    "runs",
    "labels",
)
