"""The tables on PostgreSQL: those of the store, what a fleet adds, and views for each share.

`spans` and `bodies` are in a table for each day of arrival, so that retention drops whole days.
Rows say which partition wrote them; a share sees those of its own through views with the names of
the tables, so that no read is written twice.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from collector.store.schema import COLUMNS, VERSION, postgresql_tables

OLDEST_SERVER: Final = 150_000
"""`server_version_num` of the oldest PostgreSQL that is taken."""
SCHEMA: Final = f"{VERSION}.1"
"""Version of these tables. A database of another one is refused."""
PARTED: Final = (
    "spans", "bodies", "records", "evaluations", "task_results", "dead_letters", "begun",
)  # fmt: skip
"""Tables whose rows say which partition wrote them."""
DAILY: Final = ("spans", "bodies")
"""Tables in a part for each day."""
NOBODY: Final = -1
"""The partition of rows that no share wrote."""
DAY_NS: Final = 86_400 * 10**9
COPYING: Final = "copying"
"""Key in `meta` of a database into which a copy is being made: what it is made of."""
DUTIES: Final = "duties"
"""Key in `meta` of the epoch of the duties: each api that gets them raises it."""

MAKE: Final = 7_316_401
"""Advisory lock of who changes tables."""
ALONE: Final = 7_316_402
"""Every commit takes it shared, and who must be alone takes it whole."""
_MUTEX: Final = 7_316_403
"""Who takes a number, or looks which are on their way."""
FLIGHT: Final = 7_316_404
"""Class of the locks that commits have on their numbers until they are over."""

_LEFT_OUT: Final = frozenset({"offsets", "erasures", "identity", "whole"})
"""Tables of the store of one process that are none here, or another thing."""
_MORE: Final = {"bodies": "received_ns BIGINT"}
"""Columns behind those of the store, but for `part`."""

_FLEET: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
    "CREATE SEQUENCE commit_numbers",
    """
    CREATE TABLE partitions (
        part BIGINT PRIMARY KEY, epoch BIGINT NOT NULL, owner TEXT NOT NULL, topic_id TEXT NOT NULL,
        log_offset BIGINT NOT NULL DEFAULT 0, low_seq BIGINT NOT NULL DEFAULT 0,
        received_ns BIGINT NOT NULL DEFAULT 0, last_seq BIGINT NOT NULL DEFAULT 0,
        behind_since_ns BIGINT NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE commits (
        seq BIGINT PRIMARY KEY, log_offset BIGINT, low_seq BIGINT, received_ns BIGINT,
        oldest_ns BIGINT, part BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE session_news (
        seq BIGINT, share BIGINT, space TEXT COLLATE "C", uid TEXT COLLATE "C"
    )
    """,
    """
    CREATE VIEW offsets AS SELECT c.seq, c.log_offset,
        (SELECT coalesce(
            min(p.low_seq) FILTER (WHERE p.low_seq <= p.last_seq), max(p.last_seq) + 1)
        FROM partitions p) AS low_seq,
        c.received_ns FROM commits c
    """,
    f"""
    CREATE FUNCTION next_commit() RETURNS BIGINT LANGUAGE plpgsql AS $$
    DECLARE found BIGINT;
    BEGIN
        PERFORM pg_advisory_lock({_MUTEX});
        found := nextval('public.commit_numbers');
        PERFORM pg_advisory_xact_lock({FLIGHT}, (found % 2147483648)::INTEGER);
        PERFORM pg_advisory_unlock({_MUTEX});
        RETURN found;
    END $$
    """,
    """
    CREATE FUNCTION newest_number() RETURNS BIGINT LANGUAGE sql AS $$
        SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.commit_numbers
    $$
    """,
    f"""
    CREATE FUNCTION last_commit() RETURNS BIGINT LANGUAGE plpgsql AS $$
    DECLARE newest BIGINT; ahead BIGINT;
    BEGIN
        PERFORM pg_advisory_lock_shared({_MUTEX});
        newest := public.newest_number();
        SELECT max((newest - l.objid::BIGINT) & 2147483647) INTO ahead FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = {FLIGHT} AND l.objsubid = 2
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());
        PERFORM pg_advisory_unlock_shared({_MUTEX});
        RETURN newest - coalesce(ahead + 1, 0);
    END $$
    """,
)
"""A partition whose `low_seq` is behind its last commit waits for nothing: it does not count."""

_SESSION: Final = "coalesce(nullif(session_id, ''), uid)"
_INDEXES: Final = (
    "spans (trace_id)",
    "spans (seq)",
    "spans USING brin (start_ns)",
    "spans (session_id) WHERE session_id IS NOT NULL",
    "bodies (trace_hash)",
    "bodies (seq)",
    "UNIQUE records (space, uid)",
    "records (uid_hash)",
    "records (seq, uid_hash)",
    "records (trace_hash) WHERE trace_hash IS NOT NULL",
    "records (trace_id) WHERE trace_id IS NOT NULL",
    f"records (({_SESSION}))",
    "records (received_ns)",
    "UNIQUE evaluations (space, record_uid, revision)",
    "evaluations (space, record_uid, revision) WHERE revision > 1",
    "evaluations (space, record_uid, revision) WHERE outcome = 'skipped' AND scope = 'record'",
    "evaluations (uid_hash)",
    "evaluations (seq, ordinal, evaluated_ns)",
    "evaluations (evaluation_id)",
    "evaluations (trace_id) WHERE trace_id IS NOT NULL",
    "evaluations (session_id) WHERE scope = 'session'",
    "evaluations (evaluated_ns, seq, alias)",
    "evaluations (seq, ordinal) WHERE pending > 0",
    "task_results (space, record_uid)",
    "task_results (evaluation_id)",
    "task_results (seq)",
    "task_results (evaluated_ns)",
    "dead_letters (seq)",
    "dead_letters (letter_id)",
    "dead_letters (space, uid) WHERE was_accepted = 1",
    "begun (seq)",
    "totals (seq)",
    "rollups (space, hour_ns)",
    "rollups (seq)",
    "labels (space, uid)",
    "erased (seq)",
    "erased (space, kind, key_hash)",
    "commits (part, seq)",
    "session_news (share, seq)",
)
"""Reads ask by keys, by commits, or by a time that goes with the commits."""


_FLEET_COLUMNS: Final = {
    "session_news": (
        ("seq", "BIGINT"), ("share", "BIGINT"), ("space", "TEXT"), ("uid", "TEXT"),
    ),
}  # fmt: skip


BESIDE: Final = (
    """CREATE TABLE fleet_notes (
        name TEXT COLLATE "C" PRIMARY KEY, content TEXT NOT NULL
    )""",
    """CREATE TABLE access_tokens (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, secret_hash BYTEA NOT NULL,
        scopes TEXT NOT NULL, space TEXT NOT NULL, created_ns BIGINT NOT NULL,
        expires_ns BIGINT, revoked_ns BIGINT
    )""",
    """CREATE TABLE budget_accounts (
        name TEXT COLLATE "C" NOT NULL, day TEXT COLLATE "C" NOT NULL, nano_usd BIGINT NOT NULL,
        PRIMARY KEY (name, day)
    ) WITH (fillfactor = 50)""",
    """CREATE TABLE budget_reservations (
        number TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL,
        day TEXT COLLATE "C" NOT NULL, nano_usd BIGINT NOT NULL,
        PRIMARY KEY (number, name, day)
    )""",
    """CREATE TABLE alert_actions (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        action_id TEXT NOT NULL UNIQUE, sent TIMESTAMPTZ NOT NULL DEFAULT now(),
        action TEXT NOT NULL, answer TEXT
    )""",
    """CREATE TABLE judge_answers_spaces (
        space TEXT COLLATE "C" PRIMARY KEY, since_seq BIGINT NOT NULL
    )""",
    """CREATE TABLE judge_answers_erasures (
        number TEXT PRIMARY KEY, space TEXT COLLATE "C" NOT NULL,
        begun_s DOUBLE PRECISION NOT NULL
    )""",
    """CREATE TABLE judge_answers_total (
        one BOOLEAN PRIMARY KEY CHECK (one), answers BIGINT NOT NULL, bytes BIGINT NOT NULL
    ) WITH (fillfactor = 50)""",
    "INSERT INTO judge_answers_total VALUES (TRUE, 0, 0)",
    """CREATE TABLE judge_answers (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        shelf TEXT COLLATE "C" NOT NULL, key BYTEA NOT NULL, made_s DOUBLE PRECISION NOT NULL,
        bytes BIGINT NOT NULL, reply TEXT NOT NULL, UNIQUE (shelf, key)
    )""",
)
"""Statements for the tables beside the store: notes, tokens, money, actions on alerts, answers of
judges. A process without a store makes them, too."""


def columns_of(table: str) -> Sequence[tuple[str, str]]:
    """Name and type of each column that is written, by table; `part` is the last one."""
    if table in _FLEET_COLUMNS:
        return _FLEET_COLUMNS[table]
    more = [tuple(_MORE[table].split())] if table in _MORE else []
    part = [("part", "BIGINT")] if table in PARTED else []
    return (*COLUMNS[table], *((name, kind) for name, kind in more), *part)


def statements() -> Iterator[str]:
    """The statements that make everything in an empty database, but for days and shares."""
    for table, statement in zip(COLUMNS, postgresql_tables(), strict=True):
        if table in _LEFT_OUT:
            continue
        more = f", {_MORE[table]}" if table in _MORE else ""
        if table in PARTED:
            more += ", part BIGINT NOT NULL"
        end = " PARTITION BY RANGE (received_ns)" if table in DAILY else ""
        yield f"{statement[:-1]}{more}){end}"
    yield from _FLEET
    for index in _INDEXES:
        unique = "UNIQUE " if index.startswith("UNIQUE ") else ""
        yield f"CREATE {unique}INDEX ON {index.removeprefix('UNIQUE ')}"


def day_table(table: str, day: int) -> str:
    """Name of the part of a table for a day since 1970."""
    return f"{table}_{day}"


def day_statements(day: int) -> Iterator[str]:
    """The statements that make the parts of a day; rows go on coming and being read meanwhile."""
    for table in DAILY:
        name = f"public.{day_table(table, day)}"
        yield f"CREATE TABLE {name} (LIKE public.{table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        yield (
            f"ALTER TABLE public.{table} ATTACH PARTITION {name}"
            f" FOR VALUES FROM ({day * DAY_NS}) TO ({(day + 1) * DAY_NS})"
        )


def share_schema(part: int) -> str:
    """Name of the schema with the views of a share."""
    return f"share_{part}"


def share_statements(part: int) -> Iterator[str]:
    """The statements that make the views of a share."""
    schema = share_schema(part)
    yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
    for table in PARTED:
        names = ", ".join(name for name, _ in COLUMNS[table])
        yield (
            f"CREATE OR REPLACE VIEW {schema}.{table} AS"
            f" SELECT {names} FROM public.{table} WHERE part = {part}"
        )
    yield (
        f"CREATE OR REPLACE VIEW {schema}.offsets AS SELECT c.seq, c.log_offset,"
        f" (SELECT p.low_seq FROM public.partitions p WHERE p.part = {part}) AS low_seq,"
        f" c.received_ns FROM public.commits c WHERE c.part = {part}"
    )
