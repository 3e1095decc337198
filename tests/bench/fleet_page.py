"""The page of a fleet on a full PostgreSQL: the time of each view.

`python -m tests.bench.fleet_page` stores 500,000 spans and two and a half million evaluations with
five million results of one day (`--evaluations N`), and those of two hours before it: the last hour
as workers do, with 250 evaluations to a commit; PostgreSQL makes the other hours out of it, with
other ids and texts and earlier times. Only the OTLP messages of these have the last hour's ids.
It starts an api, waits until that has caught up, and asks for each view forty times. `--fill` ends
before that; `--short` is for tests.
"""

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx

from collector.fleet.schema import DAY_NS
from collector.fleet.store import FleetStore
from collector.store.commit import text_hash
from collector.store.rows import RollupKey
from tests.bench.api import PROFILES, fill_store, profile_of
from tests.bench.collector import process_id
from tests.bench.figures import Figures
from tests.bench.page import add_times, detectors_at, rest, timed, views
from tests.support.fleet import Fleet
from tests.support.kafka_broker import run_broker
from tests.support.postgresql_server import PostgresqlServer

SPANS, EVALUATIONS, TIMES = 500_000, 2_500_000, 40
_HOURS: Final = 26
"""One day, and so much of the one before that a comparison of both has a full side of it."""
_HOUR_NS: Final = 3600 * 10**9
_COMMIT: Final = 50
"""Spans of a commit; five evaluations come with each."""
_FIRST: Final = 10_000_000
"""Number of the first evaluation: all of them have eight digits, so texts have one length."""
_P95_MS, _COUNTS_MS = 300, 1_000
"""Bounds of a view, and of the counts that come after a list: they are made for 0.3 s, and a step
that was begun is finished."""
_SETTINGS: Final = (
    "wal_level=minimal", "max_wal_senders=0", "max_wal_size=16GB", "maintenance_work_mem=512MB",
    "autovacuum=off",
)  # fmt: skip
"""They make the filling shorter, and no view."""
_SETS: Final = (("evaluations", "bodies"), ("task_results", "records", "spans", "commits"))
"""Tables that are filled side by side: each set takes about as long."""
_TIMES: Final = (
    "received_ns", "oldest_ns", "start_ns", "end_ns", "created_ns", "evaluated_ns",
)  # fmt: skip
_NUMBERED: Final = ("evaluation_id", "record_uid", "uid", "record_id", "digest")
"""Columns whose texts are a letter and the number of the evaluation."""
_UIDS: Final = {"records": "uid", "evaluations": "record_uid"}
"""Tables with hashes of uids, and the columns of these."""
_COLUMNS: Final = """
    SELECT attname FROM pg_attribute WHERE attrelid = $1::REGCLASS AND attnum > 0 ORDER BY attnum
"""
_INDEXES: Final = """
    SELECT indexname, replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes
    WHERE schemaname = 'public' AND tablename = $1 AND indexname NOT LIKE '%_pkey'
"""


def fill(server: PostgresqlServer, spans: int, evaluations: int) -> None:
    """Store all hours.

    Args:
        server: Has an empty database.
        spans: Of an hour; a multiple of those of a commit.
        evaluations: Of an hour; as many for each span.
    """
    now_ns, first = time.time_ns(), _FIRST + (_HOURS - 1) * evaluations
    with closing(FleetStore(f"host={server.folder} user=postgres dbname=postgres")) as store:
        store.fix_partitions(1)
        store.need_days({(now_ns - hour * _HOUR_NS) // DAY_NS for hour in range(_HOURS + 1)})
        with server.connect() as connection:
            connection.execute("SELECT setval('commit_numbers', $1)", [_HOURS * spans])
        with closing(store.take(0, "bench")) as share:
            fill_store(
                share, spans, evaluations, now_ns, has_records=True, commit_spans=_COMMIT,
                period_ns=_HOUR_NS, first_number=first,
            )  # fmt: skip
        store.add_up()
        ((commits, last),) = store.read("SELECT max(seq) - min(seq) + 1, max(seq) FROM commits")
    with ThreadPoolExecutor(len(_SETS)) as pool:
        sets = [
            pool.submit(_repeat, server, tables, commits, evaluations, first) for tables in _SETS
        ]
        for each in sets:
            each.result()
    with server.connect() as connection:
        names = ", ".join(RollupKey._fields[2:])
        hour = f"hour_ns - g * {_HOUR_NS}"
        connection.execute(
            f"INSERT INTO rollups SELECT max(seq), space, {hour}, {names}, sum(n)"  # noqa: S608 ours
            f" FROM rollups, generate_series(1, {_HOURS - 1}) g"
            f" GROUP BY space, {hour}, {names}".encode()
        )
        connection.execute("UPDATE totals SET n = n * $1", [_HOURS])
        connection.execute("DELETE FROM session_news")  # an owner reads it
        state = [last, *detectors_at(last - commits)]
        connection.execute("INSERT INTO drift_states VALUES ($1, $2, $3)", state)
        connection.execute("VACUUM ANALYZE")


def _repeat(
    server: PostgresqlServer, tables: Sequence[str], commits: int, evaluations: int, first: int
) -> None:
    """Put the earlier hours before the last one, as rows and then as indexes.

    Args:
        server: Has the last hour.
        tables: Names.
        commits: Of an hour.
        evaluations: Of an hour.
        first: Number of the first evaluation of the last hour.
    """
    with server.connect() as connection:
        for table in tables:
            with connection.transaction():
                indexes = connection.execute(_INDEXES, [table]).fetchall()
                names = [str(row[0]) for row in connection.execute(_COLUMNS, [table])]
                for statement in (
                    f"CREATE TEMP TABLE last AS SELECT * FROM {table} ORDER BY seq",  # noqa: S608
                    f"TRUNCATE {table}",
                    *(f"DROP INDEX {name}" for name, _ in indexes),
                ):
                    connection.execute(statement.encode())
                for hour in range(_HOURS - 1, 0, -1):
                    values = _earlier(table, hour, commits, evaluations, first)
                    begin = first - hour * evaluations
                    hashes = [
                        text_hash(f"u{number}")
                        for number in range(begin, begin + evaluations)
                        if table in _UIDS
                    ]
                    columns = ", ".join(values.get(name, name) for name in names)
                    connection.execute(
                        f"INSERT INTO {table} SELECT {columns} FROM last".encode(),  # noqa: S608
                        [hashes] if hashes else [],
                    )
                for statement in (
                    f"INSERT INTO {table} SELECT * FROM last",  # noqa: S608
                    "DROP TABLE last",
                    *(str(statement) for _, statement in indexes),
                ):
                    connection.execute(statement.encode())


def _earlier(
    table: str, hour: int, commits: int, evaluations: int, first: int
) -> Mapping[str, str]:
    """Columns whose values differ so many hours before the last one, with these values."""
    trace = f"md5(trace_id || '{hour}')"
    uid = _UIDS.get(table, "record_uid")
    number, less = f"substr({uid}, 2)::BIGINT", hour * evaluations
    session = f"'s' || substr(session_id, 2)::BIGINT - {less // 5}"
    text = (
        f"replace(replace(replace(replace({{}}, substr({uid}, 2), ({number} - {less})::TEXT),"
        f" trace_id, {trace}), session_id, {session}),"
        f" created_ns::TEXT, (created_ns - {hour * _HOUR_NS})::TEXT)"
    )
    found = {
        **{name: f"{name} - {hour * commits}" for name in ("seq", "low_seq")},
        **{name: f"{name} - {hour * _HOUR_NS}" for name in _TIMES},
        **{name: f"left({name}, 1) || {number} - {less}" for name in _NUMBERED},
        "trace_id": trace,
        "trace_hash": f"('x' || right({trace}, 16))::BIT(64)::BIGINT",
        "uid_hash": f"($1::BIGINT[])[{number} - {first - 1}]",
        "context": text.format("context"),
    }
    if table == "spans":
        return found | {"conversation_id": trace}
    body = {"body": text.format("body")} if table == "evaluations" else {}
    return found | {"session_id": session} | body


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS, help="of one day")
    parser.add_argument("--fill", action="store_true", help="end once all is stored")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures = Figures("fleet_page", is_short=options.short)
    times, spans = (3, _COMMIT) if options.short else (TIMES, SPANS // 24 // _COMMIT * _COMMIT)
    each = 1 if options.short else max(1, round(options.evaluations / 24 / spans))
    server = PostgresqlServer(*_SETTINGS)
    topic = f"page-{uuid.uuid4().hex[:8]}"
    try:
        with run_broker() as broker, tempfile.TemporaryDirectory(prefix="scouter-page-") as name:
            folder, began = Path(name), time.perf_counter()
            fill(server, spans, each * spans)
            print(f"stored in {time.perf_counter() - began:.0f} s", flush=True)
            if options.fill:
                return 0
            fleet = Fleet(folder, broker, server, topic, partitions=1)
            files = [
                str(profile_of(each).save_to_json(folder / f"{each}.json")) for each in PROFILES
            ]
            try:
                api = fleet.add("api", "api", *(w for each in files for w in ("--profile", each)))
                rest(process_id(api))
                with httpx.Client(base_url=api.url, timeout=120) as http:
                    for view, address in views(http):
                        took_ms = [timed(http, address)[1] for _ in range(times)]
                        most_ms = _COUNTS_MS if view.endswith(": counts") else _P95_MS
                        add_times(figures, view, took_ms, None, most_ms)
            finally:
                fleet.close()
    finally:
        server.stop()
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
