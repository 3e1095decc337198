"""The tables, once for DuckDB and PostgreSQL, and how each of the two writes them.

Every table is append-only and begins with the number of its commit; no read relies on an index.
`bodies` has one row for each trace and commit: it is narrow but for its last column, so it is
the index of traces. Rows go only where a better span takes the place of one, by an erasure and by
retention. Truth values are 0 and 1.
"""

from collections.abc import Iterator, Mapping
from typing import Final

VERSION: Final = 1
"""A file of another one is refused. Tables, and columns that may be NULL behind all others of their
table, are added without a new number."""

_EVALUATED: Final = """
    space TEXT, evaluation_id TEXT, record_uid TEXT, revision BIGINT, session_id TEXT,
    profile_uid TEXT, profile_digest TEXT, profile_name TEXT, alias TEXT,
    service_name TEXT, service_version TEXT, environment TEXT,
    created_ns BIGINT, evaluated_ns BIGINT
"""
"""Columns that the results of tasks share with their evaluation."""

_TABLES: Final[Mapping[str, str]] = {
    "spans": """
        seq BIGINT, space TEXT, received_ns BIGINT,
        trace_id TEXT, span_id TEXT, parent_span_id TEXT, name TEXT, kind BIGINT,
        start_ns BIGINT, end_ns BIGINT, status BIGINT,
        service_name TEXT, service_version TEXT, environment TEXT,
        process TEXT, is_event BIGINT,
        size_bytes BIGINT, checksum BIGINT,
        operation TEXT, provider TEXT, request_model TEXT, response_model TEXT, agent_name TEXT,
        tool_name TEXT, conversation_id TEXT, error_type TEXT, session_id TEXT, finish_reason TEXT,
        genai_kind TEXT, input_tokens BIGINT, output_tokens BIGINT, cached_tokens BIGINT,
        reasoning_tokens BIGINT, act_hash BIGINT, arguments_hash BIGINT, scope_hash BIGINT,
        attributes TEXT, setup TEXT[], cache_written_tokens BIGINT, cost_usd DOUBLE PRECISION,
        user_id TEXT, audio_input_tokens BIGINT, audio_output_tokens BIGINT
    """,
    "bodies": """
        seq BIGINT, space TEXT, trace_hash BIGINT, trace_id TEXT, spans BIGINT, size_bytes BIGINT,
        body BYTEA
    """,
    "records": """
        seq BIGINT, space TEXT, received_ns BIGINT, uid_hash BIGINT, uid TEXT, digest TEXT,
        profile_ref TEXT, profile_uid TEXT, profile_name TEXT, alias TEXT,
        record_id TEXT, session_id TEXT, trace_id TEXT, created_ns BIGINT, tags TEXT[],
        trace_hash BIGINT, context_bytes BIGINT, context TEXT
    """,
    "evaluations": f"""
        seq BIGINT, ordinal BIGINT, uid_hash BIGINT, {_EVALUATED},
        record_id TEXT, trace_id TEXT, outcome TEXT, completeness TEXT, missing_parents BIGINT,
        reads_spans BIGINT, tags TEXT[], duration_ns BIGINT, input_seq BIGINT, scope TEXT,
        pending BIGINT, was_decided BIGINT, is_partial BIGINT, body TEXT, is_backfill BIGINT
    """,
    "task_results": f"""
        seq BIGINT, {_EVALUATED},
        position BIGINT, task_id TEXT, task_type TEXT, outcome TEXT, reason TEXT,
        score DOUBLE PRECISION, calls BIGINT, cached BIGINT, input_tokens BIGINT,
        output_tokens BIGINT, cost_usd DOUBLE PRECISION, unpriced_calls BIGINT
    """,
    "dead_letters": """
        seq BIGINT, space TEXT, letter_id TEXT, kind TEXT, reason TEXT, message TEXT, source TEXT,
        uid TEXT, received_ns BIGINT, was_accepted BIGINT, payload BYTEA
    """,
    "begun": "seq BIGINT, space TEXT, uid TEXT",
    "totals": """
        seq BIGINT, name TEXT, space TEXT, profile TEXT, alias TEXT, task TEXT, label TEXT, n BIGINT
    """,
    "rollups": """
        seq BIGINT, space TEXT, hour_ns BIGINT, profile_uid TEXT, profile_digest TEXT,
        profile_name TEXT, alias TEXT, service_version TEXT, environment TEXT, task_id TEXT,
        position BIGINT, outcome TEXT, gated BIGINT, score DOUBLE PRECISION, n BIGINT
    """,
    "profiles": """
        seq BIGINT, space TEXT, uid TEXT, digest TEXT, name TEXT, alias TEXT, body TEXT,
        registered_ns BIGINT, is_active BIGINT
    """,
    "alert_events": """
        seq BIGINT, ordinal BIGINT, space TEXT, profile_uid TEXT, state TEXT, at_ns BIGINT,
        passed BIGINT, total BIGINT
    """,
    "drift_states": "seq BIGINT, name TEXT, body TEXT",
    "drift_events": """
        seq BIGINT, ordinal BIGINT, space TEXT, alert_id TEXT, at_ns BIGINT, state TEXT, body TEXT
    """,
    "drift_deliveries": """
        seq BIGINT, ordinal BIGINT, space TEXT, alert_id TEXT, channel TEXT, alert_state TEXT,
        changed_ns BIGINT, at_ns BIGINT, state TEXT, attempts BIGINT, answer TEXT
    """,
    "labels": """
        seq BIGINT, ordinal BIGINT, space TEXT, uid TEXT, record_id TEXT, alias TEXT, task_id TEXT,
        rater TEXT, is_good BIGINT, notes TEXT, at_ns BIGINT, added_by TEXT,
        score DOUBLE PRECISION, is_blind BIGINT, queue_order TEXT, stratum TEXT,
        stratum_size BIGINT
    """,
    "runs": """
        seq BIGINT, space TEXT, run_id TEXT, name TEXT, added_ns BIGINT, added_by TEXT,
        summary TEXT, body BYTEA
    """,
    "calibrations": "seq BIGINT, ordinal BIGINT, digest TEXT, body TEXT, added_ns BIGINT",
    "gold_outcomes": """
        seq BIGINT, ordinal BIGINT, space TEXT, alias TEXT, task_id TEXT, judge TEXT, slot BIGINT,
        item TEXT, is_good BIGINT, outcome TEXT, reason TEXT, at_ns BIGINT
    """,
    "sender_drops": """
        seq BIGINT, space TEXT, sender TEXT, reason TEXT, told BIGINT, total BIGINT, at_ns BIGINT
    """,
    "erased": "seq BIGINT, space TEXT, kind TEXT, key_hash BIGINT",
    "offsets": "seq BIGINT, log_offset BIGINT, low_seq BIGINT, received_ns BIGINT",
    "erasures": "seq BIGINT",
    "identity": "seq BIGINT, folder BIGINT, version BIGINT",
    "whole": "seq BIGINT",
}
"""The columns of each table.

`size_bytes` of `bodies` is that of the message before compression. `score` is NULL where the
outcome says it: 1 passed, 0 failed. The columns behind it are those of `JudgeUsage`, NULL where no
judge was called. `begun` has the records whose judgement was started after a start that found
unfinished work. `totals` and `rollups` have changes: the count of a key is the sum of
its rows. `erased` has hashes of what somebody had
erased, so that it does not come back; `erasures` a row for each erasure whose bytes may still be in
the file. `identity` has one row: the number of the data folder, and that of the version.
`received_ns` of `offsets` is the newest time of arrival up to that commit. `whole` has
one row, see `Database`.
"""

NOT_COPIED: Final = frozenset({"erasures", "whole"})
"""Tables that a copy of the store begins anew."""

OF_RECORDS: Final = {
    "evaluations": "record_uid", "task_results": "record_uid", "begun": "uid", "labels": "uid",
}  # fmt: skip
"""Tables whose rows go with their record, and the columns with its uid; so do `dead_letters` that
are the state of one."""

COPYING: Final = "copying"
"""A table beside them while `scouter store copy` writes the file: what it is made of, and how much
is there."""

_LONG: Final = frozenset({"attributes", "body", "context", "message", "payload"})
"""Columns that may hold texts of megabytes.

DuckDB stores them uncompressed: it tries every way to compress a column at each checkpoint, which
with long texts costs most of the time of ingest, and memory for all of them at once.
"""


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (column.strip().split(" ", 1) for column in text.replace("\n", " ").split(","))
    return tuple((name, kind.strip()) for name, kind in pairs)


COLUMNS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    table: _columns(text) for table, text in _TABLES.items()
}
"""Name and type of each column, by table."""


def duckdb_tables() -> Iterator[str]:
    """The statements that make the tables which are not there, for DuckDB."""
    for table, columns in COLUMNS.items():
        lines = (
            f"{name} {kind}" + (" USING COMPRESSION uncompressed" if name in _LONG else "")
            for name, kind in columns
        )
        yield f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(lines)})"


def postgresql_tables() -> Iterator[str]:
    """The same for PostgreSQL, where texts shall be in the order of their bytes, as in DuckDB."""
    for table, columns in COLUMNS.items():
        lines = (
            f"{name} {kind}" + (' COLLATE "C"' if kind.startswith("TEXT") else "")
            for name, kind in columns
        )
        yield f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(lines)})"
