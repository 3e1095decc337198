"""Cost of stored spans for the spans that come in, and for a start.

`python -m tests.bench.stored` fills a store with 100 thousand spans and, in the same way, one with
5 million (`--spans N`). A collector takes requests on top of each, in three rounds in turn, and the
bench compares CPU per span. Every time it kills the collector and starts it again. It waits for the
work that a start does behind its readiness, such as learning the stored keys. `--short` is for
tests.

The filling goes through the store itself, in process, with short texts: the cost of a lookup
depends on the number of rows and traces, and the disk of a small machine has to hold them.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from scouter.model.span import Resource, Span
from tests.bench.collector import (
    PAUSE_S,
    PEAK_MB,
    SPANS_PER_TRACE,
    START_S,
    Texts,
    cpu_seconds,
    make_profile,
    make_requests,
    process_id,
    send,
    start_seconds,
    status_mb,
)
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

_BATCH: Final = 5_000
_ROUNDS: Final = 3
_AHEAD: Final = 4
"""Batches that may wait for the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The figures of one round."""

    cpu_s: float
    """Per span that came in."""
    rate: float
    """Spans per second until seen."""
    worst_s: float
    """The longest that a request took."""
    peak_mb: float
    again_s: float
    """Until it was ready after `kill -9`."""


def fill(folder: Path, spans: int) -> None:
    """Store so many spans of traces of ten."""
    rng = random.Random(11)
    model = Span(
        trace_id="0" * 32,
        span_id="0" * 16,
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 17},
        resource=Resource(attributes={"service.name": "bench-agent"}),
    )
    store = AppendingStore(folder)
    waiting: deque[Future[Any]] = deque()
    try:
        for start in range(0, spans, _BATCH):
            batch: list[Span] = []
            trace_id = ""
            for number in range(start, min(start + _BATCH, spans)):
                if number % SPANS_PER_TRACE == 0:
                    trace_id = rng.randbytes(16).hex()
                batch.append(replace(model, trace_id=trace_id, span_id=rng.randbytes(8).hex()))
            waiting.append(store.append_spans("default", batch, 1))
            if len(waiting) > _AHEAD:
                waiting.popleft().result()
            if sys.stderr.isatty():
                print(f"\r{start + len(batch):,} spans stored", end="", file=sys.stderr)
        for each in waiting:
            each.result()
    finally:
        store.close()


def measure(folder: Path, stored: int, sent: int) -> Round:
    """Start on a filled folder, send, kill and start again."""
    rng = random.Random()  # not the same spans as in the last round
    profile = make_profile().save_to_json(folder / "bench.json")
    collector = CollectorProgram(folder, "--profile", profile, "--foreign-settle-s", "7s")
    first_s = start_seconds(collector)
    try:
        requests, last = make_requests(rng, Texts(rng), sent, 500)
        pid = process_id(collector)
        _rest(pid)
        before = cpu_seconds(pid)

        def seen() -> bool:
            return len(collector.get(f"/api/v1/traces/{last}")["spans"]) == SPANS_PER_TRACE

        told = send(collector.address, requests, lambda: wait_until(seen, what="the last span"))
        used = (cpu_seconds(pid) - before) / sent
        peak = status_mb(pid, "VmHWM")
        collector.kill()
        again_s = start_seconds(collector)
        size = collector.get("/api/v1/conservation")["spans"]["accepted"]
    finally:
        collector.close()
    print(
        f"{stored:>9,} stored: {used * 1e6:.0f} µs of CPU per span, "
        f"{sent / told.seconds:,.0f} spans/s, peak memory {peak:.0f} MB, {size:,} accepted; "
        f"ready in {first_s:.2f} s, after kill -9 in {again_s:.2f} s",
        flush=True,
    )
    return Round(
        cpu_s=used, rate=sent / told.seconds, worst_s=told.worst_s, peak_mb=peak, again_s=again_s
    )


def _rest(pid: int) -> None:
    """Wait until a process does next to nothing."""
    used, at = cpu_seconds(pid), time.perf_counter()
    while True:
        time.sleep(0.5)
        now, later = cpu_seconds(pid), time.perf_counter()
        if now - used < 0.05 * (later - at):
            return
        used, at = now, later


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--short", action="store_true", help="two small stores")
    options = parser.parse_args()
    few, many, sent = (1_000, 10_000, 1_000) if options.short else (100_000, options.spans, 50_000)
    with tempfile.TemporaryDirectory(prefix="scouter-stored-") as name:
        folders = {stored: Path(name) / str(stored) for stored in (few, many)}
        rounds: dict[int, list[Round]] = {few: [], many: []}
        for stored, folder in folders.items():
            began = time.perf_counter()
            fill(folder / "data", stored)
            print(f"{stored:>9,} spans put in, in {time.perf_counter() - began:.0f} s", flush=True)
        for _ in range(1 if options.short else _ROUNDS):
            for stored, folder in folders.items():
                rounds[stored].append(measure(folder, stored, sent))
    figures = Figures("stored", is_short=options.short)
    cpu_s = {stored: statistics.median(each.cpu_s for each in found)
             for stored, found in rounds.items()}  # fmt: skip
    print(f"cost per span with {many:,} stored / with {few:,}: {cpu_s[many] / cpu_s[few]:.2f}")
    figures.add("CPU per span, many stored / few", cpu_s[many] / cpu_s[few], "x", at_most=1.2)
    for stored, found in rounds.items():
        name = f"{stored:,} stored"
        rate = statistics.median(each.rate for each in found)
        figures.add(f"{name}: CPU per span", cpu_s[stored] * 1e6, "µs")
        figures.add(f"{name}: seen", rate, "spans/s")
        worst_s = max(each.worst_s for each in found)
        figures.add(f"{name}: worst request", worst_s, "s", at_most=PAUSE_S)
        peak_mb = max(each.peak_mb for each in found)
        figures.add(f"{name}: peak memory", peak_mb, "MB", at_most=PEAK_MB)
        again_s = max(each.again_s for each in found)
        figures.add(f"{name}: ready after kill -9", again_s, "s", at_most=START_S)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
