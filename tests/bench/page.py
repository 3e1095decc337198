"""The page on a full store: the time and bytes of each view, and a trace of 30,000 spans.

`python -m tests.bench.page` stores 5 million spans of one day and a million evaluations
(`--spans N`, `--evaluations N`) straight into the files, as a day of requests would take a day;
it starts a collector on them, waits until it has caught up, and asks for each view forty times. A
browser then opens a trace of 30,000 spans (`--long N`), and ten readers go through all views for
half a minute while 1,000 spans come in each second (`--rate N`). `--data DIR` keeps the store, or
takes one that was kept. `--short` is for tests.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx

from collector.store.alerts import DriftState
from scouter.drift.series.observed import Place
from scouter.drift.series.series_set import SeriesSet
from scouter.model.otlp import encode_request
from tests.bench.api import PROFILES, fill, profile_of, write
from tests.bench.collector import cpu_seconds, process_id, status_mb
from tests.bench.figures import Figures
from tests.support.browser import browser_page
from tests.support.collector_process import CollectorProgram
from tests.support.page_story import long_trace
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

_LONG: Final = "10" * 16
_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
_FIRST_KB, _LATER_KB, _OPEN_MS = 250, 30, 1_500
_P50_MS, _P95_MS = 50, 150
_READERS: Final = 10
_LOOK_EVERY_S, _IDLE, _REST_S = 1.0, 0.05, 900
"""Seconds between two looks whether a collector rests, the share of a processor that it uses at
most then, and seconds after which the wait is in vain."""
_TRACE_VIEW: Final = "trace"
"""Its rows are data of a trace; they are no part of what a view may weigh."""
_PAINT_MS: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_WEIGHT: Final = """
performance.getEntries().filter(each => each.encodedBodySize)
  .reduce((sum, each) => sum + each.encodedBodySize, 0)
"""


def views(http: httpx.Client) -> Iterator[tuple[str, str]]:
    """Name and address of each view, of things that are stored."""
    (evaluation,) = http.get("/api/v1/evaluations", params={"limit": 1}).json()["items"]
    task = evaluation["tasks"][0]["task_id"]
    yield "overview", "/"
    yield "task", f"/task?profile={evaluation['profile']}&task={task}"
    yield "profile: tasks", f"/profile/tasks?profile={evaluation['profile']}"
    yield "record", f"/records/{evaluation['uid']}"
    yield _TRACE_VIEW, f"/traces/{evaluation['trace_id']}"
    lists = ("evaluations", "records", "traces", "conversations")
    for name in (*lists, "labels", "alerts", "health"):
        yield name, f"/{name}"
    yield "compare", f"/compare?profile={evaluation['profile']}"
    yield "labels: queue", f"/labels/queue?profile={evaluation['profile']}&task={task}&rater=ada"
    for name in lists:
        yield f"{name}: counts", f"/facets/{name}"


def measure(collector: CollectorProgram, options: Any, figures: Figures) -> None:
    """Ask for everything, then let a browser open it."""
    with httpx.Client(base_url=collector.url, timeout=60) as http:
        _send_long(http, options.long)
        rest(process_id(collector))
        for name, address in views(http):
            took_ms: list[float] = []
            size = 0
            for _ in range(options.times):
                answer, each_ms = timed(http, address)
                answer.raise_for_status()
                took_ms.append(each_ms)
                size = answer.num_bytes_downloaded
            add_times(figures, name, took_ms, _P50_MS, _P95_MS)
            most = None if name == _TRACE_VIEW else _LATER_KB
            figures.add(f"{name}: page", size / 1000, "kB", at_most=most)
    with browser_page(collector.url) as (page, _):
        page.goto("/", wait_until="networkidle")
        figures.add("first visit", page.evaluate(_WEIGHT) / 1000, "kB", at_most=_FIRST_KB)
        figures.add("first paint", page.evaluate(_PAINT_MS), "ms", at_most=300)
        page.goto(f"/traces/{_LONG}")
        waterfall = page.locator(".waterfall[data-ready]")
        waterfall.wait_for()
        figures.add("long trace: first rows", page.evaluate(_PAINT_MS), "ms", at_most=_OPEN_MS)
        ready_ms = float(waterfall.get_attribute("data-ready") or "nan")
        figures.add("long trace: all rows", ready_ms, "ms")
        figures.add("long trace: rows in the document", page.locator(".wf-row").count())


def detectors_at(seq: int) -> DriftState:
    """State of detectors that have seen all commits up to this one.

    They look at each evaluation once, so a collector that takes a day of them does so all day. One
    that finds a million at its start would be busy with them for minutes, beside all views.
    """
    series = SeriesSet()
    series.place = Place(seq, 0)
    return DriftState(name="", body=json.dumps(series.to_json()))


def rest(pid: int) -> None:
    """Wait until a collector has caught up with what was stored without it."""
    looks = [(time.monotonic(), cpu_seconds(pid))]

    def is_idle() -> bool:
        now_s, used_s = time.monotonic(), cpu_seconds(pid)
        then_s, before_s = looks[-1]
        if now_s - then_s < _LOOK_EVERY_S:
            return False
        looks.append((now_s, used_s))
        return used_s - before_s < _IDLE * (now_s - then_s)

    wait_until(is_idle, what="rest", timeout_s=_REST_S, every_s=_LOOK_EVERY_S)


def browse(collector: CollectorProgram, options: Any, figures: Figures) -> None:
    """Let readers go through all views while spans come in; report times and memory."""
    pid = process_id(collector)
    before_mb = status_mb(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is counted from here
    with httpx.Client(base_url=collector.url, timeout=60) as http:
        addresses = [address for _, address in views(http)]
    ended = multiprocessing.get_context("spawn").Event()
    writer = multiprocessing.get_context("spawn").Process(
        target=write, args=(collector.address, options.rate, ended)
    )
    writer.start()
    try:
        timer = threading.Timer(options.browse, ended.set)
        timer.start()
        with ThreadPoolExecutor(_READERS) as pool:
            turns = [addresses[number:] + addresses[:number] for number in range(_READERS)]
            reads = [pool.submit(_read_until, collector.url, turn, ended) for turn in turns]
    finally:
        ended.set()
        writer.join()
    took_ms = [each for read in reads for each in read.result()]
    add_times(figures, "ten readers: a view", took_ms)
    figures.add("ten readers: views", len(took_ms) / options.browse, "/s")
    figures.add("ten readers: memory before", before_mb, "MB")
    figures.add("ten readers: peak memory", status_mb(pid, "VmHWM"), "MB")


def _read_until(url: str, addresses: Sequence[str], ended: Any) -> list[float]:
    """Times of one reader's views in ms, one at least."""
    took_ms: list[float] = []
    with httpx.Client(base_url=url, timeout=60) as http:
        while not took_ms or not ended.is_set():
            answer, each_ms = timed(http, addresses[len(took_ms) % len(addresses)])
            answer.raise_for_status()
            took_ms.append(each_ms)
    return took_ms


def timed(http: httpx.Client, address: str) -> tuple[httpx.Response, float]:
    """Ask once; the answer, and the milliseconds that it took."""
    began = time.perf_counter()
    answer = http.get(address)
    return answer, (time.perf_counter() - began) * 1000


def add_times(
    figures: Figures, name: str, took_ms: Sequence[float],
    p50: float | None = None, p95: float | None = None,
) -> None:  # fmt: skip
    """Add the median and the 95th percentile, each with its bound."""
    ordered = sorted(took_ms)
    figures.add(f"{name}: p50", statistics.median(ordered), "ms", at_most=p50)
    figures.add(f"{name}: p95", ordered[int(len(ordered) * 0.95)], "ms", at_most=p95)


def _profiles(folder: Path) -> Iterator[Path]:
    """Files of the profiles that the stored evaluations name."""
    for alias in PROFILES:
        yield profile_of(alias).save_to_json(folder / f"{alias}.json")


def _send_long(http: httpx.Client, spans: int) -> None:
    crew = list(long_trace(spans, _LONG, time.time_ns() - 3600 * 10**9))
    for begin in range(0, spans, 5_000):
        body = encode_request(crew[begin : begin + 5_000]).SerializeToString()
        http.post("/v1/traces", content=body, headers=_PROTOBUF).raise_for_status()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=30_000, help="spans of the long trace")
    parser.add_argument("--times", type=int, default=40, help="that each view is asked for")
    parser.add_argument("--rate", type=int, default=1_000, help="spans a second for the readers")
    parser.add_argument("--browse", type=float, default=30, help="seconds that they read")
    parser.add_argument("--data", type=Path, help="folder of a store that is kept")
    parser.add_argument("--short", action="store_true", help="a small store")
    options = parser.parse_args()
    if options.short:
        options.spans, options.evaluations, options.long, options.times = 5_000, 500, 2_500, 3
        options.browse = 1
    with tempfile.TemporaryDirectory(prefix="scouter-page-") as name:
        folder = options.data or Path(name)
        if not (folder / "now_ns").exists():
            began, now_ns = time.perf_counter(), time.time_ns()
            fill(folder / "data", options.spans, options.evaluations, now_ns, has_records=True)
            with closing(AppendingStore(folder / "data")) as store:
                store.save_drift([detectors_at(store.last_seq() * 19 // 20)], [])
            (folder / "now_ns").write_text(str(now_ns))
            print(f"stored in {time.perf_counter() - began:.0f} s", flush=True)
        figures = Figures("page", is_short=options.short)
        named = (word for path in _profiles(folder) for word in ("--profile", path))
        collector = CollectorProgram(folder, *named)
        collector.start()
        try:
            measure(collector, options, figures)
            browse(collector, options, figures)
        finally:
            collector.close()
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
