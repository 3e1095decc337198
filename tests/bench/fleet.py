"""A fleet: processor time of gateway, workers and PostgreSQL for 100,000 spans, by workers.

`python -m tests.bench.fleet` starts a real Kafka and a real PostgreSQL, and sends 100,000 spans of
2.8 kB in traces of ten, 50 a request, with a record for each trace and five tasks, to a gateway and
one, two and four workers; `--short` sends a fiftieth to one. Quote figures of a quiet machine only.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Final

import httpx

from tests.bench.collector import (
    SPANS_PER_TRACE,
    Texts,
    cpu_seconds,
    make_profile,
    make_requests,
    process_id,
    send,
    status_mb,
)
from tests.bench.figures import Figures
from tests.support.fleet import Fleet, small_fleet
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, run_broker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

SPANS: Final = 100_000
_PER_REQUEST: Final = 50
_GROWTH: Final = 1.15
_ALL_S: Final = 35.0
_WAIT_S: Final = 900.0


def server_seconds(folder: Path) -> float:
    """Processor time of a PostgreSQL server, its sessions that ended included."""
    total = 0
    for each in Path("/proc").glob("[0-9]*"):
        try:
            line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            fields = (each / "stat").read_text().rpartition(")")[2].split()
            parent = Path(f"/proc/{fields[1]}/cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        is_main = f"{folder}/data" in line and line.startswith("/usr")
        if is_main or (line.startswith("postgres:") and f"{folder}/data" in parent):
            total += int(fields[11]) + int(fields[12]) + (is_main and int(fields[13]))
            total += int(fields[14]) if is_main else 0
    return total / 100


def run(
    folder: Path,
    broker: KafkaBroker | ExternalBroker,
    server: PostgresqlServer,
    workers: int,
    spans: int,
    figures: Figures,
) -> float:
    """Send, have all judged, and tell the time of each part; returns that of all for 100,000."""
    fleet = Fleet(
        folder, broker, server, f"bench-{uuid.uuid4().hex[:8]}", "--foreign-settle-s", "2s",
        partitions=12,
    )  # fmt: skip
    requests, _ = make_requests(random.Random(5), Texts(random.Random(5)), spans, _PER_REQUEST)
    profile = make_profile().model_dump_json()
    with small_fleet(fleet, workers) as (gateway, api):
        path = f"{api.url}/api/v1/profiles?activate=true"
        kind = {"content-type": "application/json"}
        httpx.post(path, content=profile, headers=kind, timeout=60).raise_for_status()
        processes: dict[str, list[Any]] = {
            "gateway": [gateway],
            "workers": [each for name, each in fleet.members.items() if "worker" in name],
        }

        def used() -> dict[str, float]:
            found = {
                name: sum(cpu_seconds(process_id(each)) for each in some)
                for name, some in processes.items()
            }
            return found | {"PostgreSQL": server_seconds(server.folder)}

        def judged() -> bool:
            with server.connect() as connection:
                row = connection.execute("SELECT count(*) FROM evaluations").fetchone()
            return row is not None and row[0] == spans // SPANS_PER_TRACE

        before, began = used(), time.perf_counter()
        sent = send(gateway.address, requests, lambda: None)
        wait_until(judged, what="all is judged", timeout_s=_WAIT_S, every_s=0.5)
        seconds, after = time.perf_counter() - began, used()
        title = f"{workers} worker{'s' if workers > 1 else ''}"
        each = {name: (after[name] - before[name]) * 100_000 / spans for name in after}
        for name, value in each.items():
            figures.add(f"{title}: {name}", value, "CPU s/100k")
        whole = sum(each.values())
        figures.add(f"{title}: all", whole, "CPU s/100k", at_most=_ALL_S)
        figures.add(f"{title}: acknowledged", spans / sent.seconds, "spans/s")
        figures.add(f"{title}: all judged after", seconds, "s")
        peak = max(status_mb(process_id(each), "VmHWM") for each in processes["workers"])
        figures.add(f"{title}: peak of a worker", peak, "MB")
    return whole


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=SPANS)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures, found = Figures("fleet", is_short=options.short), list[float]()
    spans = SPANS // 50 if options.short else options.spans
    with run_broker() as broker:
        for workers in (1,) if options.short else (1, 2, 4):
            server = PostgresqlServer()
            folder = Path(tempfile.mkdtemp(prefix="scouter-fleet-"))
            try:
                found.append(run(folder, broker, server, workers, spans, figures))
            finally:
                server.stop()
                shutil.rmtree(folder)
    if not options.short:
        figures.add("4 workers / 1 worker", found[-1] / found[0], "x", at_most=_GROWTH)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
