"""The page of a fleet on a full PostgreSQL: the time of each view.

`python -m tests.bench.fleet_page` stores 500,000 spans of one day and two and a half million
evaluations with five million results (`--evaluations N`), 250 to a commit as workers do, and puts
rollups together every ten minutes of that day as an api does. It starts an api on them, waits until
that has caught up, and asks for each view forty times. `--short` is for tests.
"""

import argparse
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx

from collector.fleet.store import FleetStore
from tests.bench.api import PROFILES, fill_store, profile_of
from tests.bench.collector import process_id
from tests.bench.figures import Figures
from tests.bench.page import add_times, rest, timed, views
from tests.support.fleet import Fleet
from tests.support.kafka_broker import run_broker
from tests.support.postgresql_server import PostgresqlServer

SPANS, EVALUATIONS, TIMES = 500_000, 2_500_000, 40
_COMMIT: Final = 50
"""Spans of a commit; five evaluations come with each."""
_P95_MS, _COUNTS_MS = 300, 1_000
"""Bounds of a view, and of the counts that come after a list: they are made for 0.3 s, and a step
that was begun is finished."""


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures = Figures("fleet_page", is_short=options.short)
    evaluations = 500 if options.short else options.evaluations
    times, spans = (3, 5_000) if options.short else (TIMES, SPANS)
    # Settings of the log that make the filling shorter, and no view.
    server = PostgresqlServer("full_page_writes=off", "max_wal_size=16GB")
    topic = f"page-{uuid.uuid4().hex[:8]}"
    try:
        with run_broker() as broker, tempfile.TemporaryDirectory(prefix="scouter-page-") as name:
            folder, began = Path(name), time.perf_counter()
            with closing(
                FleetStore(f"host={server.folder} user=postgres dbname=postgres")
            ) as store:
                store.fix_partitions(1)
                with closing(store.take(0, "bench")) as share:
                    fill_store(
                        share, spans, evaluations, time.time_ns(), has_records=True,
                        commit_spans=_COMMIT, add_up=store.add_up,
                    )  # fmt: skip
                store.add_up()
            with server.connect() as connection:
                connection.execute("VACUUM ANALYZE")  # as PostgreSQL does by itself
            print(f"stored in {time.perf_counter() - began:.0f} s", flush=True)
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
